//! `pool status` in the form of `zpool status`, and `pool list`.

use poolwright_base::quoted;
use poolwright_report::text::age;
use poolwright_report::{Cell, Column, Table, Terminal, Unit};
use poolwright_zfs::user::label::{FoundPool, Vdev};
use poolwright_zfs::user::{Mounted, PoolInfo, PoolStatus, scan_text};
use schemars::JsonSchema;
use serde::Serialize;

use crate::listing::{NONE, listing, size};
use crate::pool_scan;

/// Renders one pool. `now_unix_s` is the current time.
pub fn text(status: &PoolStatus, now_unix_s: u64, terminal: Terminal) -> String {
    let mut out = format!("  pool: {}\n state: {}\n", status.pool, status.state);
    if let Some(trouble) = &status.trouble {
        let lines = trouble.lines().map(|line| match line.strip_prefix("hint: ") {
            Some(hint) => format!("action: {hint}\n"),
            None => format!("status: {line}\n"),
        });
        out.extend(lines);
    }
    if let Some(info) = &status.info {
        let scan = scan_text::status_line(info.scan.as_ref(), pool_scan::size);
        out.push_str(&format!("  used: {}\n  scan: {scan}\n", users(info, now_unix_s)));
    }
    out.push_str(&format!("config:\n\n{}", config(status, terminal)));
    if let Some(info) = &status.info {
        out.push_str(&format!("\nerrors: {}\n", data_errors(info)));
    }
    out
}

fn data_errors(info: &PoolInfo) -> String {
    if let Some(fault) = info.file_faults.iter().find(|fault| fault.lost) {
        return format!("{} {}; changes fail with EIO", quoted(&fault.path), fault.change.description());
    }
    match info.data_errors {
        0 => "No known data errors".to_owned(),
        1 => "1 block is damaged and cannot be repaired".to_owned(),
        n => format!("{n} blocks are damaged and cannot be repaired"),
    }
}

fn users(info: &PoolInfo, now_unix_s: u64) -> String {
    if !info.owned {
        return "not mounted; opened to read its status".to_owned();
    }
    let mounts: Vec<String> =
        info.mounts.iter().map(|m| format!("{} on {}", m.dataset, m.dir.display())).collect();
    let mounts = if mounts.is_empty() { "no mounts".to_owned() } else { mounts.join(", ") };
    let since = age(now_unix_s.saturating_sub(info.since_unix_s));
    format!("by process {} for {since}: {mounts}", info.pid)
}

/// The table of vdevs with their states and errors.
fn config(status: &PoolStatus, terminal: Terminal) -> String {
    let mut columns = vec![
        Column::left("NAME"),
        Column::left("STATE"),
        Column::right("READ"),
        Column::right("WRITE"),
        Column::right("CKSUM"),
    ];
    let has_faults = status.info.as_ref().is_some_and(|info| !info.file_faults.is_empty());
    columns.extend(has_faults.then(|| Column::left("")));
    // Rows with a remark need a cell in every column before it.
    let width = if has_faults { columns.len() } else { 0 };
    let filled = |mut cells: Vec<Cell>| {
        cells.resize_with(width.max(cells.len()), || Cell::text(""));
        cells
    };
    let mut table = Table::new(columns);
    let mut top = vec![Cell::text(&status.pool), Cell::text(&status.state)];
    if let Some(info) = &status.info {
        let s = &info.stats;
        top.extend(counts([s.read_errors, s.write_errors, s.checksum_errors]));
    }
    table.row(filled(top));
    let Some(found) = &status.layout else { return table.terminal(terminal) };
    for (heading, logs) in [(None, false), (Some("logs"), true)] {
        let vdevs: Vec<&Vdev> = found.vdevs.iter().filter(|v| v.is_log == logs).collect();
        if let (Some(heading), false) = (heading, vdevs.is_empty()) {
            table.row([Cell::text(heading), Cell::text("")]);
        }
        for (depth, vdev) in vdevs.into_iter().flat_map(Vdev::walk) {
            let mut cells = vec![Cell::text(format!("{}{}", "  ".repeat(1 + depth), vdev.title()))];
            cells.extend(vdev_cells(status, vdev));
            table.row(filled(cells));
        }
    }
    if !found.cache.is_empty() {
        table.row([Cell::text("cache"), Cell::text("")]);
    }
    for path in &found.cache {
        let mut cells = vec![Cell::text(format!("  {}", path.display()))];
        cells.extend(health(status, found.guid_of(path), || &status.state));
        table.row(cells);
    }
    let spares = spares(status, found);
    if !spares.is_empty() {
        table.row([Cell::text("spares"), Cell::text("")]);
    }
    for (name, state) in spares {
        table.row([Cell::text(format!("  {name}")), Cell::text(state)]);
    }
    table.terminal(terminal)
}

/// The names and states of the spares: of an open pool, those of its list; otherwise those whose labels were found.
fn spares<'a>(status: &'a PoolStatus, found: &FoundPool) -> Vec<(String, &'a str)> {
    let Some(info) = &status.info else {
        return found.spares.iter().map(|path| (path.display().to_string(), &*status.state)).collect();
    };
    let name = |guid: &str| match guid.parse().ok().and_then(|guid| found.file_of(guid)) {
        Some(path) => path.display().to_string(),
        None => guid.to_owned(),
    };
    info.vdevs.iter().filter(|vdev| vdev.spare).map(|spare| (name(&spare.guid), &*spare.state)).collect()
}

fn counts(errors: [u64; 3]) -> impl Iterator<Item = Cell> {
    errors.into_iter().map(|n| Cell::num(n as f64, Unit::Count))
}

/// The state and the errors of a vdev in the open pool; only `otherwise` if the pool does not have it open.
fn health<'a>(status: &'a PoolStatus, guid: u64, otherwise: impl FnOnce() -> &'a str) -> Vec<Cell> {
    let guid = guid.to_string();
    match status.info.iter().flat_map(|info| &info.vdevs).find(|vdev| vdev.guid == guid) {
        Some(v) => {
            let errors = counts([v.read_errors, v.write_errors, v.checksum_errors]);
            [Cell::text(&v.state)].into_iter().chain(errors).collect()
        }
        None => vec![Cell::text(otherwise())],
    }
}

/// The state and the errors of a vdev and, if another program changed its file while the pool was open, that change.
fn vdev_cells(status: &PoolStatus, vdev: &Vdev) -> Vec<Cell> {
    let faults = status.info.as_ref().map_or(&[][..], |info| &info.file_faults);
    let of = |leaf: &Vdev| faults.iter().find(|fault| Some(&fault.path) == leaf.path.as_ref());
    let mut cells = health(status, vdev.guid, || state_from_labels(status, vdev));
    if vdev.leaves().any(|leaf| of(leaf).is_some_and(|fault| fault.lost)) {
        cells[0] = Cell::text("UNAVAIL");
    }
    if let (Some(fault), true) = (of(vdev), vdev.children.is_empty()) {
        cells.resize_with(4, || Cell::text(""));
        cells.push(Cell::text(format!("file {}", fault.change.description())));
    }
    cells
}

/// The state of a vdev that no open pool has: its file is missing, or the pool cannot be opened.
fn state_from_labels<'a>(status: &'a PoolStatus, vdev: &Vdev) -> &'a str {
    let missing = status.layout.as_ref().map_or(&[][..], |found| &found.missing);
    let is_missing = vdev.leaves().any(|l| l.path.as_ref().is_some_and(|p| missing.contains(p)));
    match (is_missing, vdev.children.is_empty()) {
        (false, _) => &status.state,
        (true, true) => "MISSING",
        (true, false) => "DEGRADED",
    }
}

/// The JSON of `pool status --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct StatusOutput {
    /// The pools.
    pub pools: Vec<PoolStatus>,
}

/// The JSON of `pool list --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListOutput {
    /// The pools.
    pub pools: Vec<ListRow>,
}

/// A pool in `pool list`; sizes are in bytes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListRow {
    /// The pool's name.
    pub name: String,
    /// Size of the pool in bytes; this and the next two are `None` if the pool cannot be opened.
    pub size: Option<u64>,
    /// Allocated space in bytes.
    pub allocated: Option<u64>,
    /// Free space in bytes.
    pub free: Option<u64>,
    /// The state, as in [`PoolStatus`].
    pub health: String,
    /// ID of the process that has the pool mounted.
    pub pid: Option<u32>,
    /// The pool's mounts.
    pub mounts: Vec<Mounted>,
}

impl From<PoolStatus> for ListRow {
    fn from(status: PoolStatus) -> ListRow {
        let stats = status.info.as_ref().map(|info| info.stats);
        ListRow {
            name: status.pool,
            size: stats.map(|s| s.size),
            allocated: stats.map(|s| s.allocated),
            free: stats.map(|s| s.free),
            health: status.state,
            pid: status.info.as_ref().filter(|info| info.owned).map(|info| info.pid),
            mounts: status.info.map_or_else(Vec::new, |info| info.mounts),
        }
    }
}

/// Renders the list of pools. `script` and `plain` are those of [`listing`] and [`size`].
pub fn list(rows: &[ListRow], script: bool, plain: bool, terminal: Terminal) -> String {
    let used = |r: &ListRow| r.allocated.zip(r.size).map(|(a, s)| format!("{}%", a * 100 / s.max(1)));
    let table = Table::of(rows)
        .left("NAME", |r| r.name.as_str())
        .right("SIZE", |r| size(r.size, plain))
        .right("ALLOC", |r| size(r.allocated, plain))
        .right("FREE", |r| size(r.free, plain))
        .right("CAP", |r| used(r).unwrap_or_else(|| NONE.to_owned()))
        .left("HEALTH", |r| r.health.as_str())
        .right("PID", |r| r.pid.map_or_else(|| NONE.to_owned(), |pid| pid.to_string()))
        .table();
    listing(&table, script, terminal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_cannot_be_opened_shows_why_and_what_to_do() {
        let status = PoolStatus {
            pool: "tank".into(),
            state: "UNAVAIL".into(),
            trouble: Some("no file was found\nhint: name the directory with -d".into()),
            info: None,
            layout: None,
            last_scrub: None,
        };
        let text = text(&status, 0, Terminal::PLAIN);
        let start = "  pool: tank\n state: UNAVAIL\nstatus: no file was found\naction: name the directory with -d\nconfig:\n\n";
        assert!(text.starts_with(start), "{text}");
        assert!(!status.is_good() && !text.contains("errors:"), "{text}");
    }
}
