//! `poolwright pool import` and `pool export`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use poolwright_trace::counted;
use poolwright_userpool::label::{self, FoundPool, Label, State};
use poolwright_userpool::registry::{self, Entry};
use poolwright_userpool::{ENDING, Error, LockOwner, PoolInfo, Request};

use crate::commands::options::Usage;

use crate::commands::mount_log;
use crate::commands::pool_connection::{
    self, PoolConnection, PoolFiles, Refused, explained, parse_pool, print_json,
};

/// Find pools in files, or open one and remember where it is
///
/// With a directory only, says which pools its files hold. With a file or a pool's name, opens that pool once (which plays
/// back what a killed process left in its logs), lists its datasets, and remembers its files under its name.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "poolwright pool import [OPTIONS] FILE\n       poolwright pool import [OPTIONS] POOL FILE…\n       \
                      poolwright pool import [OPTIONS] [POOL] -d DIR\n       poolwright pool import [OPTIONS] [POOL] DIR"
)]
pub struct Args {
    /// The pool, or left out: a file of it, whose other files are looked for beside it; a directory, whose pools are listed
    #[arg(value_name = "POOL")]
    first: Option<String>,

    /// All files of the pool, or the directory that they are in
    #[arg(value_name = "FILE", conflicts_with = "dir")]
    files: Vec<PathBuf>,

    /// Look for pools in the files of this directory
    #[arg(short, long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// A pool that was destroyed too
    #[arg(short = 'D')]
    destroyed: bool,

    /// Import the pool although its label says that another host has it open
    #[arg(short, long)]
    force: bool,

    /// Print one JSON object: {"pools":[…]} where they are listed, else pool, files, datasets
    #[arg(long)]
    json: bool,
}

/// What is to be imported.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// The pools of a directory are listed.
    List(PathBuf),
    /// The pool that these files belong to.
    Files(Vec<PathBuf>),
    /// A pool by its name, in these files.
    Named(String, Vec<PathBuf>),
    /// A pool by its name, in a directory.
    Pick(String, PathBuf),
}

impl Wanted {
    /// A word that is a path, or cannot be a pool's name, is a file. One that could be both is a file if it is alone and
    /// there is such a file; before files it is the pool.
    fn of(args: &Args) -> anyhow::Result<Wanted> {
        let named = |word: &String| parse_pool(word).map_err(|why| anyhow::anyhow!(why).context(Usage));
        let (word, path) = match (&args.first, &args.dir) {
            (None, Some(dir)) => return Ok(Wanted::List(dir.clone())),
            (Some(pool), Some(dir)) => return Ok(Wanted::Pick(named(pool)?, dir.clone())),
            (None, None) => {
                let why = "name a file of the pool, or with --dir DIR the directory that its files are in";
                return Err(anyhow::anyhow!(why)).context(Usage);
            }
            (Some(word), None) => (word, PathBuf::from(word)),
        };
        match args.files.as_slice() {
            [] if path.is_dir() => Ok(Wanted::List(path)),
            [] if path.exists() || parse_pool(word).is_err() => Ok(Wanted::Files(vec![path])),
            [] => {
                let why = "there is no such file; name the pool's files behind its name, or their directory with --dir DIR";
                Err(anyhow::anyhow!("{word}: {why}")).context(Usage)
            }
            files if parse_pool(word).is_err() => {
                Ok(Wanted::Files([path].into_iter().chain(files.iter().cloned()).collect()))
            }
            [dir] if dir.is_dir() => Ok(Wanted::Pick(word.clone(), dir.clone())),
            files => Ok(Wanted::Named(word.clone(), files.to_vec())),
        }
    }
}

/// Imports; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let found = match Wanted::of(&args)? {
        Wanted::List(dir) => return list(&dir, args.json),
        Wanted::Pick(pool, dir) => pick(&pool, &dir)?,
        Wanted::Named(pool, files) => pool_connection::check_name(&pool, &pool_connection::ordered(&files)?)?,
        Wanted::Files(files) => of_files(&files)?,
    };
    let pool = &found.pool;
    refuse_incomplete(&found, args.destroyed)?;
    refuse_other(pool, &found.files)?;
    let files = PoolFiles { pool_file: found.files.clone(), force: args.force };
    let datasets: Vec<poolwright_userpool::DatasetInfo> = PoolConnection::once(pool, &files, &Request::List)?;
    let last_scrub = registry::find(pool)?.and_then(|entry| entry.last_scrub);
    registry::save(&Entry { pool: pool.clone(), files: found.files.clone(), last_scrub })?;
    if args.json {
        print_json(&serde_json::json!({"pool": pool, "files": found.files, "datasets": datasets}))?;
        return Ok(0);
    }
    println!("{pool} imported from {}:", counted(found.files.len() as u64, "file"));
    for dataset in &datasets {
        let trouble = dataset.trouble.as_ref().map_or_else(String::new, |why| format!("  ({why})"));
        println!("  {}{trouble}", dataset.name);
    }
    Ok(0)
}

/// The pool that these files belong to. If one file is named, its other files are looked for in the same directory.
fn of_files(files: &[PathBuf]) -> anyhow::Result<FoundPool> {
    let mut labels = label::read_all(&pool_connection::ordered(files)?)?;
    let names = || files.iter().map(|f| f.display().to_string()).collect::<Vec<_>>().join(", ");
    let one = |labels: &[(PathBuf, Label)]| -> anyhow::Result<FoundPool> {
        let mut found = label::group(labels);
        match (found.pop(), found.is_empty()) {
            (Some(one), true) => Ok(one),
            (Some(_), false) => bail!("{} belong to several pools", names()),
            (None, _) => bail!("{} holds no pool: no label in it can be read", names()),
        }
    };
    let found = one(&labels)?;
    if files.len() > 1 || found.missing.is_empty() && found.missing_tops == 0 {
        return Ok(found);
    }
    for beside in beside(&found.files[0], found.guid)? {
        match labels.iter().find(|(_, known)| known.guid == beside.1.guid) {
            None => labels.push(beside),
            Some((path, _)) if *path == beside.0 => {}
            Some((path, _)) => {
                bail!(
                    "{} and {} are the same vdev; name all files of the pool",
                    path.display(),
                    beside.0.display()
                )
            }
        }
    }
    one(&labels)
}

/// Files of a pool in the directory of this one.
fn beside(file: &Path, pool_guid: u64) -> anyhow::Result<Vec<(PathBuf, Label)>> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let listing = std::fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))?;
    let mut paths: Vec<PathBuf> =
        listing.flatten().map(|entry| entry.path()).filter(|p| p.is_file()).collect();
    paths.sort();
    let label = |path: PathBuf| Label::read(&path).ok().flatten().map(|label| (path, label));
    Ok(paths.into_iter().filter_map(label).filter(|(_, label)| label.pool_guid == pool_guid).collect())
}

fn pick(pool: &str, dir: &Path) -> anyhow::Result<FoundPool> {
    let found = label::scan(dir)?;
    let names: Vec<String> = found.iter().map(|f| f.pool.clone()).collect();
    let mut mine: Vec<FoundPool> = found.into_iter().filter(|f| f.pool == pool).collect();
    match (mine.pop(), mine.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => {
            bail!("{} holds several pools called {pool}: name the files of one", dir.display())
        }
        (None, _) if names.is_empty() => bail!("{} holds no pool", dir.display()),
        (None, _) => bail!("{} holds no pool {pool}; it holds {}", dir.display(), names.join(", ")),
    }
}

fn refuse_incomplete(found: &FoundPool, destroyed: bool) -> anyhow::Result<()> {
    if found.state == State::Destroyed && !destroyed {
        bail!(
            "importing {0}: the pool was destroyed\nhint: `poolwright pool import -D {1}` brings it back",
            found.pool,
            found.files[0].display()
        );
    }
    if found.missing_tops > 0 {
        bail!(
            "{} is not whole: {} of its top-level vdevs are in none of these files; name all of its files",
            found.pool,
            found.missing_tops
        );
    }
    Ok(())
}

/// A pool of this name in other files is not replaced in the registry.
fn refuse_other(pool: &str, files: &[PathBuf]) -> anyhow::Result<()> {
    let Some(entry) = registry::find(pool)? else { return Ok(()) };
    let same = entry.files.iter().any(|f| files.contains(f)) || entry.files.iter().all(|f| !f.exists());
    if same {
        return Ok(());
    }
    let known: Vec<_> = entry.files.iter().map(|p| p.display().to_string()).collect();
    Err(anyhow::anyhow!(
        "another pool {pool} is known, in {}: forget it first with `poolwright pool export {pool}`",
        known.join(", ")
    ))
    .context(Refused)
}

fn host_of(found: &FoundPool) -> String {
    found.host.as_ref().map_or_else(String::new, |host| format!(" (on host {host})"))
}

fn list(dir: &Path, json: bool) -> anyhow::Result<u8> {
    let found = label::scan(dir)?;
    if json {
        print_json(&serde_json::json!({ "pools": found }))?;
        return Ok(0);
    }
    if found.is_empty() {
        println!("{} holds no pool", dir.display());
    }
    for pool in &found {
        print!("{}", describe(pool));
    }
    Ok(0)
}

/// A pool that could be imported, in `zpool import`'s manner.
fn describe(found: &FoundPool) -> String {
    let state = match (found.state, found.files.iter().find_map(|file| LockOwner::of(file))) {
        (_, Some(holder)) => format!("in use by process {} ({})", holder.pid, holder.command),
        (State::Active, None) => format!("not exported by its last user{}", host_of(found)),
        (State::Exported, None) => "exported".to_owned(),
        (State::Destroyed, None) => "destroyed".to_owned(),
        (State::Spare | State::Cache, None) => "no pool of its own".to_owned(),
    };
    let mut out = format!("  pool: {}\n    id: {}\n state: {state}\nconfig:\n", found.pool, found.guid);
    for vdev in &found.vdevs {
        super::status::tree(vdev, 1, &mut |depth, title, leaf| {
            let here = match &leaf.path {
                Some(path) if leaf.children.is_empty() && found.missing.contains(path) => "  (missing)",
                _ => "",
            };
            out.push_str(&format!("\t{}{title}{here}\n", "  ".repeat(depth)));
        });
    }
    for cache in &found.cache {
        out.push_str(&format!("\t  {} (cache)\n", cache.display()));
    }
    if found.missing_tops > 0 {
        out.push_str(&format!("\t  and {} vdevs that are in none of these files\n", found.missing_tops));
    }
    out.push('\n');
    out
}

/// Close a pool in order and forget where it is; its files stay
///
/// A pool that is mounted is unmounted first, which is refused while somebody uses it.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files
    #[arg(long)]
    json: bool,
}

/// Exports; the value is the exit code.
pub fn export(args: ExportArgs) -> anyhow::Result<u8> {
    let pool = args.pool.as_str();
    let (files, closed) = match release(pool)? {
        Some(files) => {
            let closed =
                pool_connection::check_name(pool, &files).is_ok_and(|found| found.state == State::Exported);
            (files, closed)
        }
        None => (pool_connection::files_of(pool, &args.files)?, false),
    };
    if files.iter().all(|file| !file.exists()) {
        eprintln!("poolwright: none of the files of {pool} is there; it is forgotten");
    } else if !closed {
        let files = PoolFiles { pool_file: files.clone(), force: args.files.force };
        PoolConnection::once::<()>(pool, &files, &Request::Sync)?;
    }
    registry::forget(pool)?;
    note_kept_log(pool);
    if args.json {
        print_json(&serde_json::json!({"pool": pool, "files": files}))?;
    } else {
        println!("{pool} exported");
    }
    Ok(0)
}

/// Removes the log of a pool that is closed, or says that it is kept.
pub(super) fn note_kept_log(pool: &str) {
    if let Some(log) = mount_log::remove_routine(pool) {
        tell!(
            "poolwright: note: the log of {pool} is kept, because it holds more than routine lines: {}",
            log.display()
        );
    }
}

/// Has the pool's owner unmount everything, and waits until it has let go of the files, which it returns; `None` without an
/// owner.
pub(super) fn release(pool: &str) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let released = pool_connection::ask_owner(pool, |owner| {
        let info: PoolInfo = owner.ask(&Request::Status)?;
        owner.ask::<()>(&Request::Release)?;
        Ok((info.files, owner.pid()))
    })?;
    let Some((files, pid)) = released else { return Ok(None) };
    wait_closed(pool, pid, &files)?;
    Ok(Some(files))
}

/// Waits until the owner, which has unmounted everything, has let go of the files.
fn wait_closed(pool: &str, pid: i32, files: &[PathBuf]) -> anyhow::Result<()> {
    let start = Instant::now();
    let answers = || {
        pool_connection::ask_owner(pool, |owner| owner.ask::<PoolInfo>(&Request::Status).map(|_| owner.pid()))
    };
    while answers()? == Some(pid) && start.elapsed() < ENDING {
        std::thread::sleep(Duration::from_millis(20));
    }
    while let Some(holder) =
        files.iter().find_map(|file| LockOwner::of(file)).filter(|holder| holder.pid == pid)
    {
        if start.elapsed() > ENDING {
            return Err(explained(Error::InUse {
                pool: pool.to_owned(),
                pid: holder.pid,
                what: holder.command,
                todo: "it unmounted, and is still flushing; export again when it has ended".into(),
            }));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
