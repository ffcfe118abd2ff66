//! `poolwright pool destroy`.

use poolwright_zfs::user::json_output::ClosedPool;
use poolwright_zfs::user::lifecycle;

use super::import::note_kept_log;
use crate::commands::pool_connection::{PoolFiles, parse_pool, print_json};

/// Destroy a pool; `pool import -D` can recover it while its files exist
///
/// The files stay, with labels that mark the pool as destroyed: remove them to free their space. Refuses a mounted pool (exit code 3); -f
/// unmounts it first, unless programs use it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Unmount the pool first (unlike --force)
    #[arg(short = 'f')]
    force: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files
    #[arg(long)]
    json: bool,
}

/// Destroys; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let pool = args.pool.as_str();
    let files = lifecycle::destroy(pool, args.force, &args.files)?;
    note_kept_log(pool);
    if args.json {
        print_json(&ClosedPool { pool: pool.to_owned(), files })?;
    } else {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        println!("{pool} destroyed; its files stay: {}", names.join(", "));
    }
    Ok(0)
}
