//! `poolwright pool import` and `pool export`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use poolwright_control::label::{self, Found, State};
use poolwright_control::registry::{self, Entry};
use poolwright_control::{Client, Error, Holder, Request};

use super::reach::{self, PoolFiles, Reach, Refused, explained, parse_pool, print_json};

/// Find pools in files, or open one and remember where it is
///
/// With a directory only, says which pools its files hold. With a pool's name, opens that pool once (which plays back
/// what a killed process left in its logs), lists its datasets, and remembers its files under its name.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool; left out, the pools that are found are listed
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    /// All of its files
    #[arg(value_name = "FILE", conflicts_with = "dir")]
    files: Vec<PathBuf>,

    /// Look for pools in the files of this directory
    #[arg(short, long, value_name = "DIR", required_unless_present = "files")]
    dir: Option<PathBuf>,

    /// Print one JSON object: {"pools":[…]} where they are listed, else pool, files, datasets
    #[arg(long)]
    json: bool,
}

/// Imports; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let Some(pool) = &args.pool else {
        let dir = args.dir.as_deref().expect("clap asks for one of them");
        return list(dir, args.json);
    };
    let found = match &args.dir {
        Some(dir) => pick(pool, dir)?,
        None => reach::check_name(pool, &reach::ordered(&args.files)?)?,
    };
    refuse_incomplete(&found)?;
    refuse_other(pool, &found.files)?;
    if found.state == State::Active && Holder::of(&found.files[0]).is_none() {
        eprintln!("poolwright: {pool} was not exported by its last user{}", host_of(&found));
    }
    let files = PoolFiles { pool_file: found.files.clone() };
    let datasets: Vec<poolwright_control::DatasetInfo> = Reach::once(pool, &files, &Request::List)?;
    let last_scrub = registry::find(pool)?.and_then(|entry| entry.last_scrub);
    registry::save(&Entry { pool: pool.clone(), files: found.files.clone(), last_scrub })?;
    if args.json {
        print_json(&serde_json::json!({"pool": pool, "files": found.files, "datasets": datasets}))?;
        return Ok(0);
    }
    println!("{pool} imported from {} file(s):", found.files.len());
    for dataset in &datasets {
        let trouble = dataset.trouble.as_ref().map_or_else(String::new, |why| format!("  ({why})"));
        println!("  {}{trouble}", dataset.name);
    }
    Ok(0)
}

fn pick(pool: &str, dir: &Path) -> anyhow::Result<Found> {
    let found = label::scan(dir)?;
    let names: Vec<String> = found.iter().map(|f| f.pool.clone()).collect();
    let mut mine: Vec<Found> = found.into_iter().filter(|f| f.pool == pool).collect();
    match (mine.pop(), mine.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => {
            bail!("{} holds several pools called {pool}: name the files of one", dir.display())
        }
        (None, _) if names.is_empty() => bail!("{} holds no pool", dir.display()),
        (None, _) => bail!("{} holds no pool {pool}; it holds {}", dir.display(), names.join(", ")),
    }
}

fn refuse_incomplete(found: &Found) -> anyhow::Result<()> {
    if found.state == State::Destroyed {
        bail!("{} was destroyed with `zpool destroy`; only `zpool import -D` brings it back", found.pool);
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

fn host_of(found: &Found) -> String {
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
fn describe(found: &Found) -> String {
    let state = match (found.state, found.files.iter().find_map(|file| Holder::of(file))) {
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
    let owner = Client::connect(pool).map_err(explained)?;
    let files = match owner {
        Some(client) => release(pool, client)?,
        None => {
            let files = reach::files_of(pool, &args.files)?;
            if files.iter().all(|file| !file.exists()) {
                eprintln!("poolwright: none of the files of {pool} is there; it is forgotten");
            } else {
                Reach::once::<()>(pool, &args.files, &Request::Sync)?;
            }
            files
        }
    };
    registry::forget(pool)?;
    if args.json {
        print_json(&serde_json::json!({"pool": pool, "files": files}))?;
    } else {
        println!("{pool} exported");
    }
    Ok(0)
}

/// Has the owner unmount and waits until it let go of the files.
fn release(pool: &str, mut client: Client) -> anyhow::Result<Vec<PathBuf>> {
    let info: poolwright_control::PoolInfo = client.ask(&Request::Status).map_err(explained)?;
    client.ask::<()>(&Request::Release).map_err(explained)?;
    let start = Instant::now();
    while let Some(holder) = info.files.iter().find_map(|file| Holder::of(file)) {
        if start.elapsed() > Duration::from_secs(120) {
            return Err(explained(Error::InUse {
                pool: pool.to_owned(),
                pid: holder.pid,
                what: holder.command,
                todo: "it unmounted, and is still flushing; export again when it has ended".into(),
            }));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(info.files)
}
