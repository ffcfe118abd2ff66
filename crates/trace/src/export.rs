//! Exports traces: CSV, fio's I/O log for `fio --read_iolog`, and a trace whose names are replaced.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result, io};
use crate::layout::Role;
use crate::schema::{COLUMNS, NO_GAP};
use crate::writer::write_whole;
use crate::{Event, File, Gap, Op, Pseudonyms, Reader, Writer, path_text};

/// The name of the format of [`export_trace`].
const TRACE: &str = "trace";

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// All columns of the trace, with a header line; fields are quoted as in RFC 4180.
    Csv,
    /// fio's I/O log, version 3.
    FioIolog,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 2] = [Format::Csv, Format::FioIolog];

    /// Returns the name of the format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::FioIolog => "fio-iolog",
        }
    }
}

/// The result of an export, as `trace export --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ExportSummary {
    /// The format that was written.
    pub format: String,
    /// The file that was written.
    pub output: PathBuf,
    /// The number of events written.
    pub events: u64,
    /// Operation → number of its events that the format cannot represent.
    pub skipped: BTreeMap<String, u64>,
}

/// Writes all events of `reader` to `out` as text. `target` is the name of `out` in messages.
///
/// # Errors
///
/// Returns an error if the trace is damaged, if `out` cannot be written, or if the format cannot represent a file name.
pub fn export(
    reader: &Reader,
    format: Format,
    pseudonyms: Option<&Pseudonyms>,
    out: &mut dyn Write,
    target: &Path,
) -> Result<ExportSummary> {
    let files = match pseudonyms {
        Some(pseudonyms) => Cow::Owned(hidden(reader, pseudonyms)),
        None => Cow::Borrowed(reader.files()),
    };
    let mut done = summary(format.name(), target);
    match format {
        Format::Csv => csv(reader, &files, out, target, &mut done)?,
        Format::FioIolog => fio_iolog(reader, &files, out, target, &mut done)?,
    }
    out.flush().map_err(io("write", target))?;
    Ok(done)
}

/// Writes a trace with all events of `reader`, and pseudonyms instead of names, to `target`, which is replaced if it is a trace.
///
/// # Errors
///
/// Returns an error if the trace is damaged, or if `target` cannot be written or is another file than a trace. There is then no new trace.
pub fn export_trace(reader: &Reader, pseudonyms: &Pseudonyms, target: &Path) -> Result<ExportSummary> {
    let events = write_whole(target, |part| {
        let mut writer = Writer::create(part, pseudonyms.meta(reader.meta()))?;
        for file in hidden(reader, pseudonyms) {
            writer.file(file);
        }
        for event in reader.events() {
            writer.push(event?)?;
        }
        Ok(writer.finish()?.events)
    })?;
    Ok(ExportSummary { events, ..summary(TRACE, target) })
}

/// The file table with pseudonyms.
fn hidden(reader: &Reader, pseudonyms: &Pseudonyms) -> Vec<File> {
    reader.files().iter().map(|file| pseudonyms.file(file)).collect()
}

fn summary(format: &str, target: &Path) -> ExportSummary {
    ExportSummary {
        format: format.to_owned(),
        output: target.to_owned(),
        events: 0,
        skipped: BTreeMap::new(),
    }
}

fn csv(
    reader: &Reader,
    files: &[File],
    out: &mut dyn Write,
    target: &Path,
    done: &mut ExportSummary,
) -> Result<()> {
    let paths: Vec<_> = files.iter().map(|file| quoted(&file.path)).collect();
    let roles: Vec<_> = files.iter().map(|file| file.role.map_or("", Role::name)).collect();
    writeln!(out, "{}", COLUMNS.map(|column| column.name).join(",")).map_err(io("write", target))?;
    for event in reader.events() {
        let Event { t_ns, dur_ns, op, file, offset, len, pid, tid, flags, gap } = event?;
        let (path, role) = (&paths[file as usize], &roles[file as usize]);
        let op = op.name();
        write!(out, "{t_ns},{dur_ns},{op},{file},{path},{role},{offset},{len},{pid},{tid},{},", flags.0)
            .map_err(io("write", target))?;
        match gap {
            Some(gap) => {
                let Gap { cpu_ns, ready_ns, wake_ns, waker, served_ns } = gap;
                writeln!(out, "{cpu_ns},{ready_ns},{wake_ns},{waker},{served_ns}")
            }
            None => writeln!(out, "{NO_GAP},0,0,0,0"),
        }
        .map_err(io("write", target))?;
        done.events += 1;
    }
    Ok(())
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn fio_iolog(
    reader: &Reader,
    files: &[File],
    out: &mut dyn Write,
    target: &Path,
    done: &mut ExportSummary,
) -> Result<()> {
    let used = used_files(reader)?;
    let names = || files.iter().zip(&used).filter(|(_, used)| **used).map(|(file, _)| &file.path);
    if let Some(path) = names().find(|path| path.is_empty() || path.contains(char::is_whitespace)) {
        let why = format!(
            "fio cannot read the file name {path:?}, which is empty or contains blanks; export to CSV instead"
        );
        return Err(Error::Export { path: target.to_owned(), why });
    }
    // The path is written as the host's bytes.
    let put = |out: &mut dyn Write, time: u64, path: &str, rest: std::fmt::Arguments<'_>| {
        let path = path_text::decode(path);
        write!(out, "{time} ")
            .and_then(|()| out.write_all(path.as_os_str().as_bytes()))
            .and_then(|()| writeln!(out, " {rest}"))
            .map_err(io("write", target))
    };
    out.write_all(b"fio version 3 iolog\n").map_err(io("write", target))?;
    for action in ["add", "open"] {
        for path in names() {
            put(out, 0, path, format_args!("{action}"))?;
        }
    }
    let mut now = 0;
    for event in reader.events() {
        let event = event?;
        let Some(action) = fio_action(&event) else {
            *done.skipped.entry(event.op.name().to_owned()).or_default() += 1;
            continue;
        };
        now = (event.t_ns / 1000).max(now); // fio requires ascending times
        let path = &files[event.file as usize].path;
        put(out, now, path, format_args!("{action} {} {}", event.offset, event.len))?;
        done.events += 1;
    }
    for path in names() {
        put(out, now, path, format_args!("close"))?;
    }
    Ok(())
}

/// Returns which files have exported events. fio would open, and so create, each file that is added.
fn used_files(reader: &Reader) -> Result<Vec<bool>> {
    let mut used = vec![false; reader.files().len()];
    for event in reader.events() {
        let event = event?;
        used[event.file as usize] |= fio_action(&event).is_some();
    }
    Ok(used)
}

fn fio_action(event: &Event) -> Option<&'static str> {
    match event.op {
        Op::Read if event.len > 0 => Some("read"),
        Op::Write if event.len > 0 => Some("write"),
        Op::Punch if event.len > 0 => Some("trim"),
        Op::Fsync => Some("sync"),
        Op::Fdatasync => Some("datasync"),
        _ => None,
    }
}
