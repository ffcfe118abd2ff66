//! `poolwright pool status` and `pool list`.

use std::path::PathBuf;

use poolwright_report::{Cell, Column, Table, Terminal, Unit};
use poolwright_userpool::label::{self, FoundPool, Vdev};
use poolwright_userpool::{FileFault, PoolInfo, Request, Scrub, registry};
use serde::Serialize;

use super::scan;
use crate::commands::pool_connection::{self, PoolConnection, PoolFiles, parse_pool, print_json};

/// Show a pool's layout, its errors, its last scrub, and who has it mounted where, as `zpool status` does
///
/// A pool that nobody has open is opened for this, so what is shown was tried. Errors are counted since the pool was
/// opened. Exit code 1 if a pool cannot be opened or has errors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool; left out, all that are known
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: {"pools":[{pool, state, trouble, info, layout, last_scrub}]}
    #[arg(long)]
    json: bool,
}

/// What is known of a pool, from inside and from its labels.
#[derive(Debug, Serialize)]
struct Status {
    pool: String,
    /// `ONLINE`, `DEGRADED`, `SUSPENDED` or `UNAVAIL`.
    state: String,
    /// Why it is not online.
    trouble: Option<String>,
    info: Option<PoolInfo>,
    layout: Option<FoundPool>,
    last_scrub: Option<Scrub>,
}

impl Status {
    fn of(pool: &str, files: &PoolFiles) -> anyhow::Result<Status> {
        let asked: poolwright_userpool::Result<PoolInfo> =
            PoolConnection::once(pool, files, &Request::Status);
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
        Ok(Status { pool: pool.to_owned(), state, trouble, info, layout, last_scrub })
    }

    fn is_good(&self) -> bool {
        let errors = |info: &PoolInfo| {
            info.stats.read_errors + info.stats.write_errors + info.stats.checksum_errors + info.data_errors
        };
        self.state == "ONLINE"
            && self.trouble.is_none()
            && self.info.as_ref().is_some_and(|info| errors(info) == 0)
            && self.layout.as_ref().is_some_and(|found| found.missing.is_empty())
    }

    fn missing(&self) -> &[PathBuf] {
        self.layout.as_ref().map_or(&[], |found| &found.missing)
    }
}

/// How a pool is made up, from the labels of its files. Those of a file that was removed are read through its owner.
pub fn layout(pool: &str, paths: &[PathBuf], faults: &[FileFault]) -> Option<FoundPool> {
    let read = |path: &PathBuf| {
        let fault = faults.iter().find(|fault| fault.path == *path);
        let label = label::Label::read(fault.map_or(path, |fault| &fault.content)).ok()??;
        Some((path.clone(), label))
    };
    let labels: Vec<_> = paths.iter().filter_map(read).collect();
    label::group(&labels).into_iter().find(|found| found.pool == pool)
}

fn all(pool: Option<&String>, files: &PoolFiles) -> anyhow::Result<Vec<Status>> {
    let names = match pool {
        Some(pool) => vec![pool.clone()],
        None => pool_connection::known()?,
    };
    names.iter().map(|pool| Status::of(pool, files)).collect()
}

/// Shows; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let pools = all(args.pool.as_ref(), &args.files)?;
    let good = pools.iter().all(Status::is_good);
    if args.json {
        print_json(&serde_json::json!({ "pools": pools }))?;
    } else if pools.is_empty() {
        println!("no pools are known here");
    } else {
        let texts: Vec<String> = pools.iter().map(text).collect();
        print!("{}", texts.join("\n"));
    }
    Ok(u8::from(!good))
}

fn text(status: &Status) -> String {
    let mut out = format!("  pool: {}\n state: {}\n", status.pool, status.state);
    if let Some(trouble) = &status.trouble {
        let lines = trouble.lines().map(|line| match line.strip_prefix("hint: ") {
            Some(hint) => format!("action: {hint}\n"),
            None => format!("status: {line}\n"),
        });
        out.extend(lines);
    }
    if let Some(info) = &status.info {
        out.push_str(&format!("  used: {}\n", users(info)));
    }
    let info = status.info.as_ref();
    if info.is_some() {
        out.push_str(&format!("  scan: {}\n", scan::line(info.and_then(|info| info.scan.as_ref()))));
    }
    out.push_str(&format!("config:\n\n{}", config(status)));
    if let Some(info) = info {
        let lost = info.file_faults.iter().find(|fault| fault.lost);
        let errors = match info.data_errors {
            _ if lost.is_some() => lost.map_or_else(String::new, |f| {
                format!("{} {}; changes fail with EIO", f.path.display(), f.change.description())
            }),
            0 => "No known data errors".to_owned(),
            n => format!("{n} blocks cannot be read whole"),
        };
        out.push_str(&format!("\nerrors: {errors}\n"));
    }
    out
}

fn users(info: &PoolInfo) -> String {
    if !info.owned {
        return "by nobody; opened for this status".to_owned();
    }
    let mounts: Vec<String> =
        info.mounts.iter().map(|m| format!("{} on {}", m.dataset, m.dir.display())).collect();
    let mounts = if mounts.is_empty() { "no mounts".to_owned() } else { mounts.join(", ") };
    format!("by process {} since {}: {mounts}", info.pid, super::ago(info.since_unix_s))
}

fn config(status: &Status) -> String {
    let mut columns = vec![
        Column::left("NAME"),
        Column::left("STATE"),
        Column::right("READ"),
        Column::right("WRITE"),
        Column::right("CKSUM"),
    ];
    let noted = status.info.as_ref().is_some_and(|info| !info.file_faults.is_empty());
    columns.extend(noted.then(|| Column::left("")));
    let width = columns.len();
    let mut table = Table::new(columns);
    let mut top = vec![Cell::text(&status.pool), Cell::text(&status.state)];
    if let Some(info) = &status.info {
        let s = &info.stats;
        top.extend(counts([s.read_errors, s.write_errors, s.checksum_errors]));
    }
    if noted {
        top.resize_with(width, || Cell::text(""));
    }
    table.row(top);
    let Some(found) = &status.layout else { return table.terminal(Terminal::stdout()) };
    for (heading, logs) in [(None, false), (Some("logs"), true)] {
        let vdevs: Vec<&Vdev> = found.vdevs.iter().filter(|v| v.is_log == logs).collect();
        if let (Some(heading), false) = (heading, vdevs.is_empty()) {
            table.row([Cell::text(heading), Cell::text("")]);
        }
        for vdev in vdevs {
            tree(vdev, 1, &mut |depth, title, vdev| {
                let mut cells = vec![Cell::text(format!("{}{title}", "  ".repeat(depth)))];
                cells.extend(cells_of(status, vdev));
                if noted {
                    cells.resize_with(width, || Cell::text(""));
                }
                table.row(cells);
            });
        }
    }
    if !found.cache.is_empty() {
        table.row([Cell::text("cache"), Cell::text("")]);
    }
    for path in &found.cache {
        let guid = label::Label::read(path).ok().flatten().map_or(0, |label| label.guid);
        let mut cells = vec![Cell::text(format!("  {}", path.display()))];
        cells.extend(health(status, guid, || &status.state));
        table.row(cells);
    }
    table.terminal(Terminal::stdout())
}

fn counts(errors: [u64; 3]) -> impl Iterator<Item = Cell> {
    errors.into_iter().map(|n| Cell::num(n as f64, Unit::Count))
}

/// State and errors of a vdev, as the open pool has it; of one that it does not have, what can be told otherwise.
fn health<'a>(status: &'a Status, guid: u64, otherwise: impl FnOnce() -> &'a str) -> Vec<Cell> {
    let guid = guid.to_string();
    match status.info.iter().flat_map(|info| &info.vdevs).find(|vdev| vdev.guid == guid) {
        Some(v) => {
            let errors = counts([v.read_errors, v.write_errors, v.checksum_errors]);
            [Cell::text(&v.state)].into_iter().chain(errors).collect()
        }
        None => vec![Cell::text(otherwise())],
    }
}

/// State, errors and, for a file that was changed behind the pool's back, what happened to it.
fn cells_of(status: &Status, vdev: &Vdev) -> Vec<Cell> {
    let faults = status.info.as_ref().map_or(&[][..], |info| &info.file_faults);
    let of = |leaf: &Vdev| faults.iter().find(|fault| Some(&fault.path) == leaf.path.as_ref());
    let mut cells = health(status, vdev.guid, || from_labels(status, vdev));
    if vdev.leaves().into_iter().any(|leaf| of(leaf).is_some_and(|fault| fault.lost)) {
        cells[0] = Cell::text("UNAVAIL");
    }
    if let (Some(fault), true) = (of(vdev), vdev.children.is_empty()) {
        cells.resize_with(4, || Cell::text(""));
        cells.push(Cell::text(format!("file {}", fault.change.description())));
    }
    cells
}

/// The state of a vdev of a pool that cannot be opened, or of a file that is gone.
fn from_labels<'a>(status: &'a Status, vdev: &Vdev) -> &'a str {
    let missing = status.missing();
    let gone = vdev.leaves().iter().any(|l| l.path.as_ref().is_some_and(|p| missing.contains(p)));
    match (gone, vdev.children.is_empty()) {
        (false, _) => &status.state,
        (true, true) => "MISSING",
        (true, false) => "DEGRADED",
    }
}

/// Walks a vdev and what it is made of: depth, title, vdev.
pub fn tree(vdev: &Vdev, depth: usize, each: &mut dyn FnMut(usize, &str, &Vdev)) {
    each(depth, &vdev.title(), vdev);
    vdev.children.iter().for_each(|child| tree(child, depth + 1, each));
}

/// List pools with their space
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// The pool; left out, all that are known
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: Option<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// For scripts: no heading, fields divided by one tab
    #[arg(short = 'H')]
    script: bool,

    /// Sizes as plain bytes
    #[arg(short = 'p')]
    plain: bool,

    /// Print one JSON object: {"pools":[{name, size, allocated, free, health, pid, mounts}]}
    #[arg(long)]
    json: bool,
}

/// One pool in the list.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    size: Option<u64>,
    allocated: Option<u64>,
    free: Option<u64>,
    /// As its state in `pool status`.
    health: String,
    /// Its owner, if it has one.
    pid: Option<u32>,
    mounts: Vec<poolwright_userpool::Mounted>,
}

/// Lists; the value is the exit code.
pub fn list(args: ListArgs) -> anyhow::Result<u8> {
    let pools = all(args.pool.as_ref(), &args.files)?;
    for (pool, trouble) in pools.iter().filter_map(|s| Some((&s.pool, s.trouble.as_ref()?))) {
        eprintln!("poolwright: {pool}: {trouble}");
    }
    let failed = pools.iter().any(|s| s.info.is_none());
    let rows: Vec<Row> = pools
        .into_iter()
        .map(|s| {
            let stats = s.info.as_ref().map(|info| info.stats);
            Row {
                name: s.pool,
                size: stats.map(|s| s.size),
                allocated: stats.map(|s| s.allocated),
                free: stats.map(|s| s.free),
                health: s.state,
                pid: s.info.as_ref().filter(|info| info.owned).map(|info| info.pid),
                mounts: s.info.map_or_else(Vec::new, |info| info.mounts),
            }
        })
        .collect();
    if args.json {
        print_json(&serde_json::json!({ "pools": rows }))?;
        return Ok(u8::from(failed));
    }
    let size = |bytes: Option<u64>| match bytes {
        None => "-".to_owned(),
        Some(bytes) if args.plain => bytes.to_string(),
        Some(bytes) => poolwright_trace::format_size(bytes),
    };
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|r| {
            let used = r.allocated.zip(r.size).map(|(a, s)| format!("{}%", a * 100 / s.max(1)));
            let owner = r.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
            vec![
                r.name.clone(),
                size(r.size),
                size(r.allocated),
                size(r.free),
                used.unwrap_or_else(|| "-".into()),
                r.health.clone(),
                owner,
            ]
        })
        .collect();
    const TITLES: &[&str] = &["NAME", "<SIZE", "<ALLOC", "<FREE", "<CAP", "HEALTH", "<PID"];
    print!("{}", listing(TITLES, &cells, args.script));
    Ok(u8::from(failed))
}

/// Rows under titles (`<`: to the right), or for scripts divided by tabs.
pub fn listing(titles: &[&str], rows: &[Vec<String>], script: bool) -> String {
    if script {
        return rows.iter().map(|row| row.join("\t") + "\n").collect();
    }
    if rows.is_empty() {
        return "nothing to list\n".to_owned();
    }
    let column = |title: &&str| match title.strip_prefix('<') {
        Some(title) => Column::right(title),
        None => Column::left(title),
    };
    let mut table = Table::new(titles.iter().map(column));
    rows.iter().for_each(|row| table.row(row.iter().map(Cell::text)));
    table.terminal(Terminal::stdout())
}
