//! `pool iostat`: the I/O of a pool and of its vdevs, from differences between counters.

use std::path::{Path, PathBuf};

use poolwright_openzfs::{ArcStats, VdevHealth, VdevStats};
use poolwright_report::Terminal;
use poolwright_trace::{format_ns, format_size};
use poolwright_zfs::user::Counters;
use poolwright_zfs::user::label::{FoundPool, Vdev};
use schemars::JsonSchema;
use serde::Serialize;

use crate::listing::{NONE, listing};

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

/// The I/O between two readings of the counters, or since the pool was opened. Sizes are in bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct IoReport {
    /// The pool's name.
    pub pool: String,
    /// Length of the interval in seconds.
    pub seconds: f64,
    /// Allocated bytes at the end of the interval.
    pub allocated: u64,
    /// Free bytes at the end of the interval.
    pub free: u64,
    /// The I/O of all files.
    pub total: VdevStats,
    /// The I/O of each file.
    pub files: Vec<FileIo>,
    /// Space and errors of each vdev at the end of the interval.
    pub vdevs: Vec<VdevHealth>,
    /// ARC accesses in the interval, and sizes at its end.
    pub arc: ArcStats,
}

/// The I/O of one file in an interval.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileIo {
    /// The file.
    pub path: PathBuf,
    /// Its I/O.
    #[serde(flatten)]
    pub moved: VdevStats,
}

impl IoReport {
    /// Returns the I/O from `before` to `now`, or since the pool was opened if `before` is `None`.
    pub fn between(before: Option<&Counters>, now: &Counters) -> IoReport {
        let of = |path: &Path| before.and_then(|b| b.files.iter().find(|f| f.path == path)).map(|f| f.moved);
        let files: Vec<FileIo> = now
            .files
            .iter()
            .map(|f| FileIo { path: f.path.clone(), moved: f.moved.since(&of(&f.path).unwrap_or_default()) })
            .collect();
        let start = before.map_or(now.since_unix_ns, |b| b.time_unix_ns);
        IoReport {
            pool: now.pool.clone(),
            seconds: (now.time_unix_ns.saturating_sub(start) as f64 / 1e9).max(1e-9),
            allocated: now.stats.allocated,
            free: now.stats.free,
            total: sum(files.iter().map(|f| f.moved)),
            files,
            vdevs: now.vdevs.clone(),
            arc: before.map_or(now.arc, |b| now.arc.since(&b.arc)),
        }
    }

    /// The I/O of the file at `path`.
    fn of_file(&self, path: &Path) -> Option<VdevStats> {
        self.files.iter().find(|f| f.path == path).map(|f| f.moved)
    }

    /// Allocated and free bytes of a vdev; `None` for the files of a mirror or raidz, which have none of their own.
    fn space(&self, guid: u64) -> Option<(u64, u64)> {
        let guid = guid.to_string();
        let vdev = self.vdevs.iter().find(|v| v.guid == guid && v.size > 0)?;
        Some((vdev.allocated, vdev.size.saturating_sub(vdev.allocated)))
    }
}

fn sum(all: impl Iterator<Item = VdevStats>) -> VdevStats {
    all.fold(VdevStats::default(), |sum, one| sum.plus(&one))
}

/// Renders one report: a row for the pool.
pub fn text(report: &IoReport, terminal: Terminal) -> String {
    listing(TITLES, &[pool_row(report)], false, terminal)
}

/// Renders one report: a row for the pool, and one for each vdev and file. Without a layout, files are in the engine's
/// order.
pub fn text_of_files(report: &IoReport, layout: Option<&FoundPool>, terminal: Terminal) -> String {
    let mut rows = vec![pool_row(report)];
    match layout {
        Some(layout) => rows.extend(vdev_rows(report, layout)),
        None => {
            let file = |f: &FileIo| row(&format!("  {}", f.path.display()), &f.moved, report, None, None);
            rows.extend(report.files.iter().map(file));
        }
    }
    listing(TITLES, &rows, false, terminal)
}

fn pool_row(report: &IoReport) -> Vec<String> {
    let space = Some((report.allocated, report.free));
    row(&report.pool, &report.total, report, space, Some(&report.arc))
}

/// Rows in the order of the layout, indented by depth.
fn vdev_rows(report: &IoReport, layout: &FoundPool) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for (depth, vdev) in layout.vdevs.iter().flat_map(Vdev::walk) {
        let files = vdev.leaves().filter_map(|leaf| leaf.path.as_deref());
        let moved = sum(files.filter_map(|path| report.of_file(path)));
        let log = if vdev.is_log && depth == 0 { " (log)" } else { "" };
        let title = format!("{}{}{log}", "  ".repeat(1 + depth), vdev.title());
        rows.push(row(&title, &moved, report, report.space(vdev.guid), None));
    }
    for path in &layout.cache {
        let title = format!("  {} (cache)", path.display());
        let space = report.space(layout.guid_of(path));
        rows.push(row(&title, &report.of_file(path).unwrap_or_default(), report, space, None));
    }
    rows
}

/// ARC hits in per cent of all accesses; [`NONE`] without accesses.
fn hit_ratio(arc: &ArcStats) -> String {
    arc.hit_ratio().map_or_else(|| NONE.to_owned(), |ratio| format!("{:.1}", 100.0 * ratio))
}

fn row(
    title: &str,
    moved: &VdevStats,
    report: &IoReport,
    space: Option<(u64, u64)>,
    arc: Option<&ArcStats>,
) -> Vec<String> {
    let rate = |n: u64| n as f64 / report.seconds;
    let ops = |n: u64| match rate(n) {
        r if r < 10.0 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    };
    let bytes = |n: u64| format_size(rate(n) as u64);
    let wait = |ns: u64, n: u64| ns.checked_div(n).map_or_else(|| NONE.to_owned(), format_ns);
    let size = |n: Option<u64>| n.map_or_else(|| NONE.to_owned(), format_size);
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
        arc.map_or_else(|| NONE.to_owned(), hit_ratio),
    ]
}
