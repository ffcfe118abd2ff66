//! Compares recordings with the log of a program that performs I/O in every way that the recorder claims to see or to
//! count: `completeness/io.c`, on each file system.
//!
//! `REWRITE=1` writes the columns of the file systems that were tested into the table of `docs/recorded-io.md`, and keeps the others. The
//! column `zfs` comes from a guest (`scripts/test-kernel.sh recorded`), which has no compiler: `POOLWRIGHT_IO` names the compiled program.

mod common;

mod completeness {
    pub mod file_systems;
    pub mod log;
}

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Live, permitted, scratch, skip};
use completeness::file_systems::{BlockDevice, FILE_SYSTEMS, Mounted};
use completeness::log::{Line, Log};
use poolwright_record::Subject;
use poolwright_trace::{Op, Trace};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recorded-io.md");

/// The cell of a call that the file system does not have.
const LACKS: &str = "–";

/// What a recording shows of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cell {
    Recorded,
    Counted,
    /// The file system does not have the call.
    Lacks,
}

/// Compiles the program, or returns `None` and prints that the test is skipped.
fn compiled(scratch: &Path) -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("POOLWRIGHT_IO") {
        return Some(program.into());
    }
    if !common::installed("cc") {
        return None;
    }
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/completeness/io.c");
    let program = scratch.join("io");
    let status =
        Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).status().expect("cc starts");
    assert!(status.success(), "cc cannot compile {source}");
    Some(program)
}

/// Runs the program in `dir` under a recorder.
fn record(program: &Path, dir: &Path, out: &Path, by_pid: bool, device: Option<&Path>) -> (Trace, Log) {
    let mut child = Command::new(program)
        .arg(dir)
        .env("DEVICE", device.unwrap_or(Path::new("")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let subject = if by_pid { Subject::Pid(child.id()) } else { Subject::Dir(dir.to_owned()) };
    let live = Live::start(subject, out).expect("recording is permitted");
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the program failed");
    let (summary, trace) = if by_pid { live.join() } else { live.finish() };
    assert_eq!(summary.meta.lost_events, 0);
    (trace, Log::parse(&String::from_utf8(output.stdout).unwrap()))
}

/// The recorded operations of each row, and the page faults.
fn recorded(trace: &Trace, dir: &Path) -> BTreeMap<String, (Vec<Line>, Vec<Line>)> {
    let mut rows: BTreeMap<String, (Vec<Line>, Vec<Line>)> = BTreeMap::new();
    for event in &trace.events {
        let Ok(path) = Path::new(&trace.files[event.file as usize].path).strip_prefix(dir) else { continue };
        let mut parts = path.components();
        let Some(row) = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned()) else {
            continue;
        };
        let offset = if event.op == Op::Rename { 0 } else { event.offset };
        let file = parts.as_path().to_string_lossy().into_owned();
        let line = Line { op: event.op.name().to_owned(), file, offset, len: event.len };
        let (operations, faults) = rows.entry(row).or_default();
        if event.op == Op::Map && event.dur_ns == 0 { faults.push(line) } else { operations.push(line) }
    }
    rows
}

/// Returns the differences between the log and the trace, and the cell of each row.
fn compare(trace: &Trace, log: &Log, dir: &Path) -> (Vec<String>, BTreeMap<String, Cell>) {
    let mut wrong = Vec::new();
    let mut cells = BTreeMap::new();
    let mut recorded = recorded(trace, dir);
    for (name, row) in &log.rows {
        let (mut found, faults) = recorded.remove(name).unwrap_or_default();
        if row.lacks {
            cells.insert(name.clone(), Cell::Lacks);
            continue;
        }
        cells.insert(name.clone(), if row.counts.is_empty() { Cell::Recorded } else { Cell::Counted });
        let mut expected = row.operations.clone();
        if expected.iter().any(|line| line.file == "?") {
            found.iter_mut().for_each(|line| line.file = "?".to_owned());
        }
        expected.sort();
        found.sort();
        if expected != found {
            let missing: Vec<_> = difference(&expected, &found);
            let excess: Vec<_> = difference(&found, &expected);
            wrong.push(format!("{name}: not recorded {missing:?}, but recorded {excess:?}"));
        }
        for touch in &row.touches {
            let hit = |fault: &Line| {
                fault.file == touch.file
                    && fault.offset <= touch.offset
                    && touch.offset < fault.offset + fault.len
            };
            if !faults.iter().any(hit) {
                wrong.push(format!("{name}: no page fault covers {touch:?}: {faults:?}"));
            }
        }
    }
    for (words, count) in log.counts() {
        let seen =
            trace.meta.unseen.iter().filter(|(what, _)| what.contains(&words)).map(|(_, n)| *n).sum::<u64>();
        // Some entries count the calls of any process.
        if seen < count {
            wrong.push(format!("unseen: {count} of '{words}' expected, found {seen}"));
        }
    }
    (wrong, cells)
}

/// The lines of `a` that are not in `b`.
fn difference(a: &[Line], b: &[Line]) -> Vec<String> {
    let mut rest = b.to_vec();
    let mut out = Vec::new();
    for line in a {
        match rest.iter().position(|other| other == line) {
            Some(at) => drop(rest.swap_remove(at)),
            None => out.push(line.to_string()),
        }
    }
    out
}

#[test]
fn every_way_is_recorded_or_counted() {
    if !permitted() {
        return;
    }
    let scratch = scratch();
    let Some(program) = compiled(scratch.path()) else { return };
    let wanted = std::env::var("FILE_SYSTEM").ok();
    let (mut columns, mut rows) = (Columns::new(), Vec::new());
    let mut wrong = Vec::new();
    for system in FILE_SYSTEMS.iter().filter(|fs| wanted.as_deref().is_none_or(|name| name == fs.name)) {
        let mounted = match Mounted::new(system, scratch.path()) {
            Ok(mounted) => mounted,
            Err(why) => {
                skip(format!("{}: {why}", system.name));
                continue;
            }
        };
        for by_pid in [false, true] {
            let dir = mounted.dir.join(if by_pid { "by-pid" } else { "by-dir" });
            std::fs::create_dir(&dir).unwrap();
            let device = if by_pid { BlockDevice::new(&scratch.path().join("device")).ok() } else { None };
            let out = scratch.path().join("t.parquet");
            let (trace, log) =
                record(&program, &dir, &out, by_pid, device.as_ref().map(|device| device.path()));
            let (found, cells) = compare(&trace, &log, &dir);
            let how = if by_pid { "--pid" } else { "--dir" };
            wrong.extend(found.into_iter().map(|what| format!("{} {how}: {what}", system.name)));
            println!("{} {how}: {} rows, unseen {:?}", system.name, cells.len(), trace.meta.unseen);
            if by_pid {
                rows = log.order();
                columns.insert(system.name.to_owned(), cells);
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    println!("{}", table(&rows, &found_cells(&columns)));
    document(&rows, &columns);
}

/// The cells of each tested file system by row.
type Columns = BTreeMap<String, BTreeMap<String, Cell>>;

/// The name of a row in the table.
fn label(row: &str) -> String {
    format!("`{}`", row.trim_end_matches('_'))
}

fn found_cells(columns: &Columns) -> Cells {
    let of = |(name, cells): (&String, &BTreeMap<String, Cell>)| -> Vec<((String, String), String)> {
        let text = |cell: &Cell| match cell {
            Cell::Recorded => "recorded",
            Cell::Counted => "counted",
            Cell::Lacks => LACKS,
        };
        cells.iter().map(|(row, cell)| ((label(row), name.clone()), text(cell).to_owned())).collect()
    };
    columns.iter().flat_map(of).collect()
}

/// The cells as a table in Markdown. A file system without any has no column.
fn table(rows: &[String], cells: &Cells) -> String {
    let is_there = |name: &&str| cells.keys().any(|(_, column)| column == name);
    let names: Vec<&str> = FILE_SYSTEMS.iter().map(|fs| fs.name).filter(is_there).collect();
    let mut text = format!("| way | {} |\n| --- |{}\n", names.join(" | "), " --- |".repeat(names.len()));
    for row in rows {
        let cell = |name: &&str| cells.get(&(label(row), (*name).to_owned())).map_or(LACKS, String::as_str);
        writeln!(text, "| {} | {} |", label(row), names.iter().map(cell).collect::<Vec<_>>().join(" | "))
            .unwrap();
    }
    text
}

/// Compares the columns with those in the documentation, or writes them there.
fn document(rows: &[String], columns: &Columns) {
    const BEGIN: &str = "<!-- table:begin -->\n\n";
    const END: &str = "\n<!-- table:end -->";
    let text = std::fs::read_to_string(DOCUMENT).expect("the document exists");
    let (head, rest) = text.split_once(BEGIN).expect("the document has the table's begin");
    let (old, tail) = rest.split_once(END).expect("the document has the table's end");
    let (mut old, new) = (cells(old), found_cells(columns));
    if std::env::var_os("REWRITE").is_some() && !columns.is_empty() {
        old.extend(new);
        let table = table(rows, &old);
        std::fs::write(DOCUMENT, format!("{head}{BEGIN}{table}{END}{tail}")).unwrap();
        return;
    }
    let hint = "docs/recorded-io.md is out of date: run this test with REWRITE=1";
    for (at, cell) in &new {
        let known = old.get(at);
        assert!(known.is_some(), "{at:?} is missing; {hint}");
        // Whether a file system has a call depends on the kernel.
        let known = known.filter(|known| *known != LACKS && cell != LACKS);
        assert!(known.is_none_or(|known| known == cell), "{at:?} is {cell}; {hint}");
    }
}

/// What a table has for a row and a file system.
type Cells = BTreeMap<(String, String), String>;

/// The cells of a table in Markdown.
fn cells(table: &str) -> Cells {
    let mut lines =
        table.lines().map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    let columns = lines.next().unwrap_or_default();
    let mut found = Cells::new();
    for row in lines.skip(1) {
        let pairs = columns.iter().zip(&row).skip(2).filter(|(column, _)| !column.is_empty());
        found.extend(pairs.map(|(column, cell)| ((row[1].clone(), column.clone()), cell.clone())));
    }
    found
}
