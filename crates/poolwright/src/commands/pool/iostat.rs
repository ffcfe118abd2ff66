//! `poolwright pool iostat`: what the vdev files move, from differences of the owner's counters.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use poolwright_openzfs::{ArcStats, VdevHealth, VdevStats};
use poolwright_trace::{format_ns, format_size};
use poolwright_userpool::label::{FoundPool, Label, Vdev};
use poolwright_userpool::{Counters, Request};
use serde::Serialize;

use super::status::{listing, tree};
use crate::commands::options::parse_time;
use crate::commands::pool_connection::{PoolConnection, PoolFiles, parse_pool, print_json};
use crate::interrupt;

/// Show what a mounted pool reads and writes
///
/// Counted where the engine touches the files, labels and log included. The first report is the average since the pool
/// was opened, every other one is of the interval before it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Time between reports: 1, 500ms, 5s; left out, one report
    #[arg(value_name = "INTERVAL", value_parser = parse_time)]
    interval: Option<Duration>,

    /// How many reports; left out, until Ctrl-C
    #[arg(value_name = "COUNT", requires = "interval", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Each vdev file
    #[arg(short = 'v')]
    verbose: bool,

    /// Leave the average since the pool was opened out
    #[arg(short = 'y', requires = "interval")]
    no_first: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object per report: pool, seconds, allocated, free, total, files, vdevs, arc. Counters are those of
    /// the interval; sizes (allocated, free, and of arc size, target, max, compressed_size, uncompressed_size, l2_size) are
    /// as they are at its end
    #[arg(long)]
    json: bool,
}

/// What moved between two snapshots, or since the pool was opened.
#[derive(Debug, Serialize)]
struct Report {
    pool: String,
    seconds: f64,
    allocated: u64,
    free: u64,
    total: VdevStats,
    files: Vec<Moved>,
    /// Space and errors of each vdev, as they are.
    vdevs: Vec<VdevHealth>,
    arc: ArcStats,
}

#[derive(Debug, Serialize)]
struct Moved {
    path: PathBuf,
    #[serde(flatten)]
    moved: VdevStats,
}

/// Adds up.
fn sum<'a>(all: impl Iterator<Item = &'a VdevStats>) -> VdevStats {
    all.fold(VdevStats::default(), |a, b| VdevStats {
        read_bytes: a.read_bytes + b.read_bytes,
        write_bytes: a.write_bytes + b.write_bytes,
        read_ops: a.read_ops + b.read_ops,
        write_ops: a.write_ops + b.write_ops,
        flushes: a.flushes + b.flushes,
        read_ns: a.read_ns + b.read_ns,
        write_ns: a.write_ns + b.write_ns,
        flush_ns: a.flush_ns + b.flush_ns,
    })
}

impl Report {
    fn between(before: Option<&Counters>, now: &Counters) -> Report {
        let of = |path: &Path| before.and_then(|b| b.files.iter().find(|f| f.path == path)).map(|f| f.moved);
        let files: Vec<Moved> = now
            .files
            .iter()
            .map(|f| Moved { path: f.path.clone(), moved: f.moved.since(&of(&f.path).unwrap_or_default()) })
            .collect();
        let start = before.map_or(now.since_unix_ns, |b| b.time_unix_ns);
        Report {
            pool: now.pool.clone(),
            seconds: (now.time_unix_ns.saturating_sub(start) as f64 / 1e9).max(1e-9),
            allocated: now.stats.allocated,
            free: now.stats.free,
            total: sum(files.iter().map(|f| &f.moved)),
            files,
            vdevs: now.vdevs.clone(),
            arc: before.map_or(now.arc, |b| now.arc.since(&b.arc)),
        }
    }
}

/// Reports; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let mut connection = PoolConnection::open(&args.pool, &args.files)?;
    if args.interval.is_some() && matches!(connection, PoolConnection::Here(_)) {
        connection.finish()?;
        bail!("{} is not mounted, so nothing moves in it; `poolwright mount {0} DIR` mounts it", args.pool);
    }
    let layout = layout(&mut connection)?;
    let first: Counters = connection.ask(&Request::Counters)?;
    if !args.no_first {
        print(&args, &Report::between(None, &first), layout.as_ref())?;
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
        print(args, &Report::between(Some(&before), &now), layout)?;
        before = now;
    }
    Ok(())
}

fn layout(connection: &mut PoolConnection) -> anyhow::Result<Option<FoundPool>> {
    let info: poolwright_userpool::PoolInfo = connection.ask(&Request::Status)?;
    Ok(super::status::layout(&info.pool, &info.files, &info.file_faults))
}

fn print(args: &Args, report: &Report, layout: Option<&FoundPool>) -> anyhow::Result<()> {
    if args.json {
        return print_json(report);
    }
    let space = Some((report.allocated, report.free));
    let mut rows = vec![row(&report.pool, &report.total, report, space, Some(&report.arc))];
    if args.verbose {
        rows.extend(file_rows(report, layout));
    }
    const TITLES: &[&str] = &[
        "pool",
        "<alloc",
        "<free",
        "<reads/s",
        "<writes/s",
        "<flushes/s",
        "<read/s",
        "<write/s",
        "<read wait",
        "<write wait",
        "<flush wait",
        "<arc size",
        "<arc target",
        "<arc hit%",
    ];
    print!("{}", listing(TITLES, &rows, false));
    Ok(())
}

/// In the order and with the indents of the layout; without one, as they come.
fn file_rows(report: &Report, layout: Option<&FoundPool>) -> Vec<Vec<String>> {
    let moved = |path: &Path| report.files.iter().find(|f| f.path == path).map(|f| f.moved);
    let Some(found) = layout else {
        let line = |f: &Moved| row(&format!("  {}", f.path.display()), &f.moved, report, None, None);
        return report.files.iter().map(line).collect();
    };
    let mut rows = Vec::new();
    for vdev in &found.vdevs {
        tree(vdev, 1, &mut |depth, title, vdev| {
            let leaves = vdev.leaves();
            let all: Vec<VdevStats> = leaves.iter().filter_map(|leaf| moved(leaf.path.as_deref()?)).collect();
            let log = if vdev.is_log && depth == 1 { " (log)" } else { "" };
            let title = format!("{}{title}{log}", "  ".repeat(depth));
            rows.push(row(&title, &sum(all.iter()), report, space(report, vdev), None));
        });
    }
    for path in &found.cache {
        let title = format!("  {} (cache)", path.display());
        let guid = Label::read(path).ok().flatten().map_or(0, |label| label.guid);
        let space = space_of(report, &guid.to_string());
        rows.push(row(&title, &moved(path).unwrap_or_default(), report, space, None));
    }
    rows
}

/// Allocated and free bytes of a vdev. The files of a mirror or raidz have none of their own.
fn space(report: &Report, vdev: &Vdev) -> Option<(u64, u64)> {
    space_of(report, &vdev.guid.to_string())
}

fn space_of(report: &Report, guid: &str) -> Option<(u64, u64)> {
    let vdev = report.vdevs.iter().find(|v| v.guid == guid && v.size > 0)?;
    Some((vdev.allocated, vdev.size.saturating_sub(vdev.allocated)))
}

/// Accesses that the ARC answered, of all; `-` if there were none.
fn hit_ratio(arc: &ArcStats) -> String {
    match arc.hits + arc.iohits + arc.misses {
        0 => "-".to_owned(),
        all => format!("{:.1}", 100.0 * arc.hits as f64 / all as f64),
    }
}

fn row(
    title: &str,
    moved: &VdevStats,
    report: &Report,
    space: Option<(u64, u64)>,
    arc: Option<&ArcStats>,
) -> Vec<String> {
    let rate = |n: u64| n as f64 / report.seconds;
    let ops = |n: u64| match rate(n) {
        r if r < 10.0 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    };
    let bytes = |n: u64| format_size(rate(n) as u64);
    let wait = |ns: u64, n: u64| ns.checked_div(n).map_or_else(|| "-".to_owned(), format_ns);
    let size = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), format_size);
    vec![
        title.to_owned(),
        size(space.map(|(allocated, _)| allocated)),
        size(space.map(|(_, free)| free)),
        ops(moved.read_ops),
        ops(moved.write_ops),
        ops(moved.flushes),
        bytes(moved.read_bytes),
        bytes(moved.write_bytes),
        wait(moved.read_ns, moved.read_ops),
        wait(moved.write_ns, moved.write_ops),
        wait(moved.flush_ns, moved.flushes),
        size(arc.map(|arc| arc.size)),
        size(arc.map(|arc| arc.target)),
        arc.map_or_else(|| "-".to_owned(), hit_ratio),
    ]
}
