//! `poolwright pool scrub`, and the text of a scrub or resilver as in `zpool status`.

use poolwright_openzfs::{Scan, ScanState};
use poolwright_trace::format_size;
use poolwright_userpool::json_output::PoolScrub;
use poolwright_userpool::{Scrub, ScrubHow, lifecycle, scan_text};

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

    /// Wait until the scrub ends, also if it is running already
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
        println!("{}: {}", args.pool, done(&scrub));
    }
    Ok(u8::from(has_errors))
}

/// The result of a scrub, as text.
fn done(scrub: &Scrub) -> String {
    match scrub.state {
        ScanState::Scanning => {
            return "scrub started; `poolwright pool status` shows the progress".to_owned();
        }
        ScanState::Canceled => return "scrub stopped".to_owned(),
        ScanState::Finished => {}
    }
    let found = match scrub.errors() + scrub.lost {
        0 => "no errors".to_owned(),
        _ => format!(
            "{} read, {} write and {} checksum errors, {} repaired, {} blocks lost",
            scrub.read_errors,
            scrub.write_errors,
            scrub.checksum_errors,
            size(scrub.repaired),
            scrub.lost
        ),
    };
    format!("{} checked in {:.1} s, {found}", format_size(scrub.allocated), scrub.seconds)
}

/// The text after `scan:` in `zpool status`.
pub fn line(scan: Option<&Scan>) -> String {
    scan_text::status_line(scan, size)
}

/// A size as `zpool` prints it: 0 has a unit too.
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes}B") } else { format_size(bytes) }
}
