//! `poolwright pool status` and `pool list`.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

pub use poolwright_render::pool_status::tree;
use poolwright_render::pool_status::{self, ListOutput, ListRow, PoolStatus, StatusOutput};
use poolwright_userpool::label::{self, FoundPool, Label};
use poolwright_userpool::{FileFault, PoolInfo, Request, registry};

use super::scan;
use crate::commands::pool_connection::{self, PoolConnection, PoolFiles, parse_pool, print_json};
use crate::stdout;

/// Show a pool's vdevs, errors, last scrub and mounts, as `zpool status` does
///
/// A pool that is not mounted is opened for this. Errors are counted since the pool was opened. The exit code is 1 if a
/// pool cannot be opened or has errors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool; all known pools if left out
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"pools":[{pool, state, trouble, info, layout, last_scrub}]}
    #[arg(long)]
    json: bool,
}

/// Asks the pool's owner, or opens the pool, and reads the labels of its files.
fn status_of(pool: &str, files: &PoolFiles) -> anyhow::Result<PoolStatus> {
    let asked: poolwright_userpool::Result<PoolInfo> = PoolConnection::once(pool, files, &Request::Status);
    let entry = registry::find(pool)?;
    let paths = match &asked {
        Ok(info) => info.files.clone(),
        Err(_) => pool_connection::files_of(pool, files)?,
    };
    let (info, trouble) = match asked {
        Ok(info) => {
            let reports: Vec<String> = info.file_faults.iter().map(|fault| fault.report(pool)).collect();
            (Some(info), (!reports.is_empty()).then(|| reports.join("\n")))
        }
        Err(why) => (None, Some(format!("{why:#}"))),
    };
    let faults = info.as_ref().map_or(&[][..], |info| &info.file_faults);
    let layout = layout(pool, &paths, faults);
    let state = match &info {
        None => "UNAVAIL",
        Some(info) if info.file_faults.iter().any(|fault| fault.lost) => "UNAVAIL",
        Some(info) if info.stats.state != 0 => "SUSPENDED",
        Some(info) => info.vdevs.first().map_or("ONLINE", |root| &root.state),
    }
    .to_owned();
    let last_scrub = entry.and_then(|entry| entry.last_scrub);
    let cache_guids = layout.as_ref().map_or_else(Vec::new, cache_guids);
    Ok(PoolStatus { pool: pool.to_owned(), state, trouble, info, layout, last_scrub, cache_guids })
}

/// Returns the pool's vdevs from the labels of its files. The label of a removed file is read through the pool's owner.
pub fn layout(pool: &str, paths: &[PathBuf], faults: &[FileFault]) -> Option<FoundPool> {
    let read = |path: &PathBuf| {
        let fault = faults.iter().find(|fault| fault.path == *path);
        let label = Label::read(fault.map_or(path, |fault| &fault.content)).ok()??;
        Some((path.clone(), label))
    };
    let labels: Vec<_> = paths.iter().filter_map(read).collect();
    label::group(&labels).into_iter().find(|found| found.pool == pool)
}

/// Returns the GUIDs of the pool's cache files; 0 for a file without a label.
pub fn cache_guids(found: &FoundPool) -> Vec<u64> {
    let guid = |path: &PathBuf| Label::read(path).ok().flatten().map_or(0, |label| label.guid);
    found.cache.iter().map(guid).collect()
}

fn all(pool: Option<&String>, files: &PoolFiles) -> anyhow::Result<Vec<PoolStatus>> {
    let names = match pool {
        Some(pool) => vec![pool.clone()],
        None => pool_connection::known()?,
    };
    names.iter().map(|pool| status_of(pool, files)).collect()
}

/// Prints the status of the pools and returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let pools = all(args.pool.as_ref(), &args.files)?;
    let good = pools.iter().all(PoolStatus::is_good);
    if args.json {
        print_json(&StatusOutput { pools })?;
    } else if pools.is_empty() {
        println!("no known pools");
    } else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        let text = |status: &PoolStatus| {
            let scan = scan::line(status.info.as_ref().and_then(|info| info.scan.as_ref()));
            pool_status::text(status, &scan, now, stdout::terminal())
        };
        let texts: Vec<String> = pools.iter().map(text).collect();
        print!("{}", texts.join("\n"));
    }
    Ok(u8::from(!good))
}

/// List pools with their space
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// The pool; all known pools if left out
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// For scripts: no titles, fields separated by one tab
    #[arg(short = 'H')]
    script: bool,

    /// Sizes in bytes
    #[arg(short = 'p')]
    plain: bool,

    /// Print one JSON object: {"pools":[{name, size, allocated, free, health, pid, mounts}]}
    #[arg(long)]
    json: bool,
}

/// Lists the pools and returns the exit code.
pub fn list(args: ListArgs) -> anyhow::Result<u8> {
    let pools = all(args.pool.as_ref(), &args.files)?;
    for (pool, trouble) in pools.iter().filter_map(|s| Some((&s.pool, s.trouble.as_ref()?))) {
        eprintln!("poolwright: {pool}: {trouble}");
    }
    let failed = pools.iter().any(|s| s.info.is_none());
    let rows: Vec<ListRow> = pools.into_iter().map(ListRow::from).collect();
    if args.json {
        print_json(&ListOutput { pools: rows })?;
    } else {
        print!("{}", pool_status::list(&rows, args.script, args.plain, stdout::terminal()));
    }
    Ok(u8::from(failed))
}
