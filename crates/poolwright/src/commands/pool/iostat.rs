//! `poolwright pool iostat`: the I/O of a pool, from differences between the owner's counters.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use poolwright_render::pool_iostat::{self, IoReport};
use poolwright_zfs::user::label::FoundPool;
use poolwright_zfs::user::{Counters, Request};

use crate::commands::options::parse_time;
use crate::commands::pool_connection::{PoolConnection, PoolFiles, parse_pool, print_json};
use crate::{interrupt, stdout};

/// Show the I/O of a mounted pool
///
/// Counts the engine's I/O to the vdev files, including labels and the intent log. The first report is the average since
/// the pool was opened; each further report covers the interval before it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Time between reports, such as 1, 500ms or 5s [default: one report]
    #[arg(value_name = "INTERVAL", value_parser = parse_time)]
    interval: Option<Duration>,

    /// Number of reports [default: until Ctrl-C]
    #[arg(value_name = "COUNT", requires = "interval", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Show each vdev and file
    #[arg(short = 'v')]
    verbose: bool,

    /// Omit the average since the pool was opened
    #[arg(short = 'y', requires = "interval")]
    no_first: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object per report: pool, seconds, allocated, free, total, files, vdevs, arc. Counters cover
    /// the interval; sizes (allocated, free, and arc's size, target, max, compressed_size, uncompressed_size, l2_size) are
    /// those at its end
    #[arg(long)]
    json: bool,
}

/// Prints the reports and returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let mut connection = PoolConnection::open(&args.pool, &args.files)?;
    if args.interval.is_some() && matches!(connection, PoolConnection::Here(_)) {
        connection.finish()?;
        bail!("{} is not mounted, so it has no I/O\nhint: `poolwright mount {0} DIR` mounts it", args.pool);
    }
    let layout = layout(&mut connection)?;
    let first: Counters = connection.ask(&Request::Counters)?;
    if !args.no_first {
        print(&args, &IoReport::between(None, &first), layout.as_ref())?;
    }
    if let Some(interval) = args.interval {
        let done = u64::from(!args.no_first);
        let left = args.count.map_or(u64::MAX, |count| count - done.min(count));
        follow(&args, &mut connection, first, interval, left, layout.as_ref())?;
    }
    connection.finish()?;
    Ok(0)
}

fn follow(
    args: &Args,
    connection: &mut PoolConnection,
    mut before: Counters,
    interval: Duration,
    reports: u64,
    layout: Option<&FoundPool>,
) -> anyhow::Result<()> {
    let stop = interrupt::watch().context("cannot watch for Ctrl-C")?;
    let mut next = Instant::now() + interval;
    for _ in 0..reports {
        while let Some(left) = next.checked_duration_since(Instant::now()) {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
        next += interval;
        let now: Counters = connection.ask(&Request::Counters)?;
        print(args, &IoReport::between(Some(&before), &now), layout)?;
        before = now;
    }
    Ok(())
}

fn layout(connection: &mut PoolConnection) -> anyhow::Result<Option<FoundPool>> {
    let info: poolwright_zfs::user::PoolInfo = connection.ask(&Request::Status)?;
    Ok(poolwright_zfs::user::layout(&info.pool, &info.files, &info.file_faults))
}

fn print(args: &Args, report: &IoReport, layout: Option<&FoundPool>) -> anyhow::Result<()> {
    if args.json {
        return print_json(report);
    }
    let terminal = stdout::terminal();
    let text = match args.verbose {
        true => pool_iostat::text_of_files(report, layout, terminal),
        false => pool_iostat::text(report, terminal),
    };
    print!("{text}");
    Ok(())
}
