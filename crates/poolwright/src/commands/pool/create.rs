//! `poolwright pool create`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use poolwright_openzfs::property::{self, Settings};
use poolwright_openzfs::{Pool, Spec, Use};
use poolwright_userpool::registry::{self, Entry};
use poolwright_userpool::{Error, Request};

use crate::commands::options::{self, Usage};
use crate::commands::pool_connection::{self, Refused, parse_pool, print_json};

/// Create a pool on files
///
/// VDEV… as zpool takes them: FILE… [mirror|raidz|raidz1|raidz2|raidz3 FILE…] [log [mirror] FILE…] [cache FILE…]. A file
/// is made, sparse, with the size behind a colon (FILE:SIZE), or 200G. A file that holds anything is refused.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Files and the words between them
    #[arg(value_name = "VDEV", required = true)]
    vdevs: Vec<String>,

    /// Property of the pool: ashift=9…16, the sector size as a power of two [default: ashift=12]
    #[arg(short = 'o', value_name = "PROP=VALUE")]
    pool_property: Vec<String>,

    /// Property of the root dataset: recordsize=16K, compression=lz4, …, which the others inherit; quota=SIZE
    #[arg(short = 'O', value_name = "PROP=VALUE")]
    property: Vec<String>,

    /// Print one JSON object: pool, guid, ashift, files
    #[arg(long)]
    json: bool,
}

/// Creates; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let groups = Spec::parse_vdevs(&args.vdevs).context(Usage)?;
    let spec = Spec { name: args.pool.clone(), ashift: ashift(&args.pool_property)?, groups };
    let settings = settings(&args.property)?;
    refuse_known(&args.pool)?;
    let files = check_files(&spec)?;

    let pool = Pool::create(pool_connection::engine(128 << 20)?, &spec).map_err(|why| match why {
        poolwright_openzfs::Error::Exists(_) => anyhow::Error::new(why).context(Refused),
        poolwright_openzfs::Error::Locked(path) => pool_connection::in_use(&args.pool, &path),
        other => other.into(),
    })?;
    let root = pool.open_dataset("")?;
    settings.iter().try_for_each(|(property, value)| root.set(property, value))?;
    drop(root);
    pool.export()?;
    let found = pool_connection::check_name(&args.pool, &files)?;
    registry::save(&Entry { pool: args.pool.clone(), files: files.clone(), last_scrub: None })?;
    if args.json {
        let guid = found.guid.to_string();
        print_json(
            &serde_json::json!({"pool": args.pool, "guid": guid, "ashift": spec.ashift, "files": files}),
        )?;
    } else {
        println!("{} created on {} file{}", args.pool, files.len(), if files.len() == 1 { "" } else { "s" });
    }
    Ok(0)
}

fn ashift(properties: &[String]) -> anyhow::Result<u32> {
    let mut ashift = 12;
    for option in properties {
        match option.split_once('=') {
            Some(("ashift", value)) => match value.parse() {
                Ok(bits) if (9..=16).contains(&bits) => ashift = bits,
                _ => Err(anyhow::anyhow!("-o {option}: ashift is 9 to 16 (12: sectors of 4K)")).context(Usage)?,
            },
            _ => Err(anyhow::anyhow!(
                "-o {option}: the pool property that can be set here is ashift; -O sets properties of the root dataset"
            ))
            .context(Usage)?,
        }
    }
    Ok(ashift)
}

/// `property=value` options without roles and lists, checked before anything is made.
pub fn settings(assignments: &[String]) -> anyhow::Result<Settings> {
    let (limits, assignments): (Vec<&String>, Vec<&String>) =
        assignments.iter().partition(|text| limit(text).is_some());
    let assignments: Vec<String> = assignments.into_iter().cloned().collect();
    let mut settings = stored(&assignments)?;
    for (name, value) in limits.iter().filter_map(|text| limit(text)) {
        property::check(name, value).context(Usage)?;
        settings.insert(name.to_owned(), value.to_owned());
    }
    Ok(settings)
}

/// A limit, and its value.
fn limit(text: &str) -> Option<(&'static str, &str)> {
    let (name, value) = text.split_once('=')?;
    let known = property::LIMITS.iter().find(|p| p.name == name)?;
    Some((known.name, value))
}

/// Those that say how data is stored.
fn stored(assignments: &[String]) -> anyhow::Result<Settings> {
    let mut all = options::combinations(assignments)?;
    let only = all.pop().filter(|one| all.is_empty() && one.keys().all(|role| role == "*"));
    let Some(mut only) = only else {
        return Err(anyhow::anyhow!("{}: one value per property here, and no role", assignments.join(" ")))
            .context(Usage);
    };
    Ok(only.remove("*").unwrap_or_default())
}

/// A name that is taken would hide the pool that has it.
fn refuse_known(pool: &str) -> anyhow::Result<()> {
    pool_connection::ask_owner::<()>(pool, |owner| match owner.ask::<serde_json::Value>(&Request::Status) {
        Err(why) if why.is_ending() => Err(why),
        _ => {
            let todo = "give the new pool another name".into();
            Err(Error::InUse { pool: pool.into(), pid: owner.pid(), what: owner.command(), todo })
        }
    })?;
    let Some(entry) = registry::find(pool)? else { return Ok(()) };
    let files: Vec<_> = entry.files.iter().map(|p| p.display().to_string()).collect();
    Err(anyhow::anyhow!(
        "there is a pool {pool} already, in {}: give the new one another name, or forget the old one with \
         `poolwright pool export {pool}`{}",
        files.join(", "),
        if entry.files.iter().all(|f| f.exists()) { "" } else { " (some of its files are gone)" }
    ))
    .context(Refused)
}

/// The files as absolute paths, cache vdevs last; refuses what holds anything before the first one is made.
fn check_files(spec: &Spec) -> anyhow::Result<Vec<PathBuf>> {
    let mut files: Vec<(bool, PathBuf)> = Vec::new();
    for group in &spec.groups {
        for (path, _) in &group.files {
            let path = std::path::absolute(path).with_context(|| format!("resolving {}", path.display()))?;
            check_file(&path)?;
            if files.iter().any(|(_, known)| *known == path) {
                return Err(anyhow::anyhow!("{} is named twice", path.display())).context(Usage);
            }
            files.push((group.usage == Use::Cache, path));
        }
    }
    files.sort_by_key(|(cache, _)| *cache);
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

fn check_file(path: &Path) -> anyhow::Result<()> {
    match std::fs::metadata(path) {
        Ok(meta) if !meta.is_file() => {
            bail!("{} is not a file: pools here are on files only", path.display())
        }
        Ok(meta) if meta.len() > 0 => {
            Err(poolwright_openzfs::Error::Exists(path.to_owned())).context(Refused)
        }
        Ok(_) => Ok(()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => match path.parent() {
            Some(dir) if dir.is_dir() => Ok(()),
            _ => bail!("{} cannot be made: there is no such directory", path.display()),
        },
        Err(why) => Err(why).with_context(|| format!("looking at {}", path.display())),
    }
}
