//! `pool iostat`: the I/O of a pool and of its vdevs, from differences between counters.

use std::path::{Path, PathBuf};

use poolwright_base::units::{format_ns, format_size};
use poolwright_openzfs::{ArcStats, VdevHealth, VdevStats};
use poolwright_report::{Table, Terminal};
use poolwright_zfs::user::Counters;
use poolwright_zfs::user::label::{FoundPool, Vdev};
use schemars::JsonSchema;
use serde::Serialize;

use crate::listing::{NONE, listing, size};

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

/// A row of the table: the pool, a vdev or a file.
#[derive(Clone, Copy)]
struct Row<'a> {
    title: &'a str,
    moved: VdevStats,
    /// Allocated and free bytes.
    space: Option<(u64, u64)>,
    arc: Option<&'a ArcStats>,
}

/// Renders one report: a row for the pool.
pub fn text(report: &IoReport, terminal: Terminal) -> String {
    listing(&table(report, &[]), false, terminal)
}

/// Renders one report: a row for the pool, and one for each vdev and file. Without a layout, files are in the engine's
/// order.
pub fn text_of_files(report: &IoReport, layout: Option<&FoundPool>, terminal: Terminal) -> String {
    let rows = match layout {
        Some(layout) => vdev_rows(report, layout),
        None => report.files.iter().map(|f| (format!("  {}", f.path.display()), f.moved, None)).collect(),
    };
    listing(&table(report, &rows), false, terminal)
}

/// The name of a vdev, its I/O, and its allocated and free bytes.
type VdevRow = (String, VdevStats, Option<(u64, u64)>);

/// Rows in the order of the layout, indented by depth.
fn vdev_rows(report: &IoReport, layout: &FoundPool) -> Vec<VdevRow> {
    let mut rows = Vec::new();
    for (depth, vdev) in layout.vdevs.iter().flat_map(Vdev::walk) {
        let files = vdev.leaves().filter_map(|leaf| leaf.path.as_deref());
        let moved = sum(files.filter_map(|path| report.of_file(path)));
        let log = if vdev.is_log && depth == 0 { " (log)" } else { "" };
        let title = format!("{}{}{log}", "  ".repeat(1 + depth), vdev.title());
        rows.push((title, moved, report.space(vdev.guid)));
    }
    for path in &layout.cache {
        let moved = report.of_file(path).unwrap_or_default();
        rows.push((format!("  {} (cache)", path.display()), moved, report.space(layout.guid_of(path))));
    }
    rows
}

/// ARC hits in per cent of all accesses; [`NONE`] without accesses.
fn hit_ratio(arc: &ArcStats) -> String {
    arc.hit_ratio().map_or_else(|| NONE.to_owned(), |ratio| format!("{:.1}", 100.0 * ratio))
}

/// The table of the pool and of the vdevs in `rows`.
fn table(report: &IoReport, rows: &[VdevRow]) -> Table {
    let rate = |n: u64| n as f64 / report.seconds;
    let ops = |n: u64| match rate(n) {
        r if r < 10.0 => format!("{r:.1}"),
        r => format!("{r:.0}"),
    };
    let bytes = |n: u64| format_size(rate(n) as u64);
    let wait = |ns: u64, n: u64| ns.checked_div(n).map_or_else(|| NONE.to_owned(), format_ns);
    let space = Some((report.allocated, report.free));
    let pool = Row { title: &report.pool, moved: report.total, space, arc: Some(&report.arc) };
    let vdevs =
        rows.iter().map(|(title, moved, space)| Row { title, moved: *moved, space: *space, arc: None });
    Table::of([pool].into_iter().chain(vdevs))
        .left("pool", |row| row.title)
        .right("alloc", |row| size(row.space.map(|(allocated, _)| allocated), false))
        .right("free", |row| size(row.space.map(|(_, free)| free), false))
        .right("reads/s", |row| ops(row.moved.read_ops))
        .right("writes/s", |row| ops(row.moved.write_ops))
        .right("flushes/s", |row| ops(row.moved.flushes))
        .right("read/s", |row| bytes(row.moved.read_bytes))
        .right("write/s", |row| bytes(row.moved.write_bytes))
        .right("read wait", |row| wait(row.moved.read_ns, row.moved.read_ops))
        .right("write wait", |row| wait(row.moved.write_ns, row.moved.write_ops))
        .right("flush wait", |row| wait(row.moved.flush_ns, row.moved.flushes))
        .right("arc size", |row| size(row.arc.map(|arc| arc.size), false))
        .right("arc target", |row| size(row.arc.map(|arc| arc.target), false))
        .right("arc hit%", |row| row.arc.map_or_else(|| NONE.to_owned(), hit_ratio))
        .table()
}
