//! `poolwright pool scrub`.

use poolwright_openzfs::ScanState;
use poolwright_render::pool_scan;
use poolwright_zfs::user::json_output::PoolScrub;
use poolwright_zfs::user::{ScrubHow, lifecycle};

use crate::commands::pool_connection::{PoolFiles, parse_pool, print_json};

/// Read and check every block of a pool, and repair damaged blocks where possible
///
/// A mounted pool is scrubbed in the background by its mount process; `pool status` shows the progress, and -w waits for
/// the end. A pool that is not mounted is opened for the scrub, so this verb always waits. Exit code 1 if a finished scrub
/// has found errors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Wait until the scrub ends, even if it is already running
    #[arg(short = 'w', conflicts_with = "stop")]
    wait: bool,

    /// Stop the running scrub
    #[arg(short = 's')]
    stop: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: the pool, state (scanning, finished, canceled), start time, seconds, bytes allocated, errors
    /// by kind, bytes repaired, blocks lost
    #[arg(long)]
    json: bool,
}

/// Scrubs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let how = match (args.wait, args.stop) {
        (_, true) => ScrubHow::Stop,
        (true, _) => ScrubHow::Wait,
        _ => ScrubHow::Start,
    };
    let scrub = lifecycle::scrub(&args.pool, how, &args.files)?;
    let has_errors = scrub.state == ScanState::Finished && scrub.errors() + scrub.lost > 0;
    if args.json {
        print_json(&PoolScrub { pool: args.pool, scrub })?;
    } else {
        println!("{}: {}", args.pool, pool_scan::text(&scrub));
    }
    Ok(u8::from(has_errors))
}
