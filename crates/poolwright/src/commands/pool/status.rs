//! `poolwright pool status` and `pool list`.

use std::time::{SystemTime, UNIX_EPOCH};

use poolwright_render::pool_status::{self, ListOutput, ListRow, StatusOutput};
use poolwright_zfs::user::PoolStatus;

use crate::commands::pool_connection::{self, PoolFiles, parse_pool, print_json};
use crate::stdout;

/// Show a pool's vdevs, errors, last scrub and mounts, as `zpool status` does
///
/// A pool that is not mounted is opened for this. Errors are counted since the pool was opened. The exit code is 1 if a
/// pool cannot be opened or has errors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool [default: all known pools]
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"pools":[{pool, state, trouble, info, layout, last_scrub}]}
    #[arg(long)]
    json: bool,
}

fn all(pool: Option<&String>, files: &PoolFiles) -> anyhow::Result<Vec<PoolStatus>> {
    let names = match pool {
        Some(pool) => vec![pool.clone()],
        None => pool_connection::known()?,
    };
    Ok(names.iter().map(|pool| PoolStatus::of(pool, files)).collect::<Result<_, _>>()?)
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
        let text = |status| pool_status::text(status, now, stdout::terminal());
        let texts: Vec<String> = pools.iter().map(text).collect();
        print!("{}", texts.join("\n"));
    }
    Ok(u8::from(!good))
}

/// List pools with their space
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// The pool [default: all known pools]
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// For scripts: no headers, fields separated by a single tab
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
        eprintln!("poolwright: warning: {pool}: {trouble}");
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
