//! Imports traces of other tools, which requires no privileges. The only format so far is fio's I/O log.
//!
//! `fio` parses lines and passes files and events to a [`Sink`]. This module contains what another format would have in
//! common: file table, roles, durations, and positions of errors.

mod fio;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{Error, Result, io};
use crate::writer::write_whole;
use crate::{Encoding, Event, File, Meta, Summary, Writer, layout, path_text};
use poolwright_base::units::{counted, format_size};

pub use fio::{FORMAT, is_iolog};

/// The result of an import, as `trace import --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ImportSummary {
    /// The format of the source.
    pub format: String,
    /// The trace that was written.
    pub trace: PathBuf,
    /// The number of events.
    pub events: u64,
    /// The number of files in the trace's file table.
    pub files: usize,
    /// Length of the trace file in bytes.
    pub bytes: u64,
    /// Duration of the recording in seconds.
    pub duration_s: f64,
    /// How the trace differs from the source, in sentences.
    pub notes: Vec<String>,
}

impl ImportSummary {
    /// The result in one line of text.
    pub fn text(&self) -> String {
        format!(
            "{}: {} on {}, {} ({})\n",
            self.trace.display(),
            counted(self.events, "event"),
            counted(self.files as u64, "file"),
            format_size(self.bytes),
            self.format
        )
    }
}

/// The maximum length of a line in bytes; a longer line is an error.
const MAX_LINE: u64 = 1 << 20;

/// The lines of the source, counted from 1.
struct Lines<'a> {
    path: &'a Path,
    input: &'a mut dyn BufRead,
    number: u64,
    buffer: Vec<u8>,
}

impl Lines<'_> {
    /// Returns the next line without its line end, or `None` at the end of the source. Invalid UTF-8, which can only be
    /// in file names, is escaped as in a trace ([`path_text`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the source cannot be read or the line is longer than 1 MiB.
    fn next_line(&mut self) -> Result<Option<String>> {
        self.buffer.clear();
        let read = Read::take(&mut self.input, MAX_LINE).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(io("read", self.path))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if read as u64 == MAX_LINE && self.buffer.last() != Some(&b'\n') {
            return Err(self.error("the line is longer than 1 MiB: not a text trace"));
        }
        while let Some(b'\n' | b'\r') = self.buffer.last() {
            self.buffer.pop();
        }
        Ok(Some(path_text::encode(OsStr::from_bytes(&self.buffer))))
    }

    /// Returns an error at the last line read.
    fn error(&self, why: impl Into<String>) -> Error {
        Error::Parse { path: self.path.to_owned(), line: self.number.max(1), why: why.into() }
    }
}

/// Receives the files and events that an importer finds.
struct Sink {
    writer: Writer,
    ids: HashMap<String, u32>,
    last_ns: u64,
    notes: Vec<String>,
}

impl Sink {
    /// Returns the id of the file with the given path, adding it if it is new.
    fn file(&mut self, path: &str) -> u32 {
        if let Some(id) = self.ids.get(path) {
            return *id;
        }
        let id = self.writer.file(File { path: path.to_owned(), ..File::default() });
        self.ids.insert(path.to_owned(), id);
        id
    }

    /// Returns the id of the file with the given path, if it has been added.
    fn known(&self, path: &str) -> Option<u32> {
        self.ids.get(path).copied()
    }

    /// Adds an event. The file's size grows to include it.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be written.
    fn push(&mut self, event: Event) -> Result<()> {
        let end = event.offset.saturating_add(event.len);
        if self.writer.files().get(event.file as usize).is_some_and(|file| file.size < end) {
            self.writer.file_mut(event.file)?.size = end;
        }
        self.last_ns = self.last_ns.max(event.t_ns.saturating_add(event.dur_ns));
        self.writer.push(event)
    }

    /// Adds a kind of information that the source does not contain.
    fn unseen(&mut self, what: &str, count: u64) {
        self.writer.meta_mut().unseen.push((what.to_owned(), count));
    }

    /// Adds a sentence on how the trace differs from the source.
    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Assigns the roles, for which all paths must be known, and finishes the trace.
    fn finish(mut self) -> Result<Summary> {
        let layout = layout::detect_paths(self.writer.files().iter().map(|file| file.path.as_str()));
        for id in 0..self.writer.files().len() as u32 {
            let file = self.writer.file_mut(id)?;
            file.role = layout.and_then(|layout| layout.role_of(Path::new(&file.path)));
        }
        self.writer.meta_mut().duration_ns = self.last_ns;
        self.writer.finish()
    }
}

/// Imports `source` as a trace at `target`, which is created only if the import succeeds.
///
/// `format` is [`FORMAT`]. Without it, the first bytes of the source must be those of the format.
///
/// # Errors
///
/// Returns an error if the format is unknown, if the source is invalid or contains no event, or if the target cannot be
/// written.
pub fn import(source: &Path, format: Option<&str>, target: &Path) -> Result<ImportSummary> {
    let disk = std::fs::File::open(source).map_err(io("open", source))?;
    let mut input = BufReader::new(disk);
    let head = input.fill_buf().map_err(io("read", source))?;
    check_format(source, format, head)?;
    let meta = Meta {
        creator: concat!("poolwright ", env!("CARGO_PKG_VERSION")).to_owned(),
        probe_set: FORMAT.to_owned(),
        subject: format!("import:{}", path_text::encode(source)),
        ..Meta::default()
    };
    let mut lines = Lines { path: source, input: &mut input, number: 0, buffer: Vec::new() };
    let (summary, notes) = write_whole(target, |partial| {
        let writer = Writer::create(partial, meta)?;
        let mut sink = Sink { writer, ids: HashMap::new(), last_ns: 0, notes: Vec::new() };
        fio::import(&mut lines, &mut sink)?;
        if sink.writer.is_empty() {
            return Err(Error::Import { path: source.to_owned(), why: "it contains no events".to_owned() });
        }
        let notes = std::mem::take(&mut sink.notes);
        Ok((sink.finish()?, notes))
    })?;
    Ok(ImportSummary {
        format: FORMAT.to_owned(),
        trace: target.to_owned(),
        events: summary.events,
        files: summary.files,
        bytes: summary.bytes,
        duration_s: summary.duration_ns as f64 / 1e9,
        notes,
    })
}

fn check_format(source: &Path, format: Option<&str>, head: &[u8]) -> Result<()> {
    let path = source.to_owned();
    if head.is_empty() {
        return Err(Error::Import { path, why: "the file is empty".to_owned() });
    }
    if let Some(encoding) = Encoding::of(head) {
        return Err(Error::Encoded { path, encoding });
    }
    match format {
        Some(FORMAT) => Ok(()),
        Some(name) => Err(Error::Import { path, why: format!("unknown format {name:?} (known: {FORMAT})") }),
        None if is_iolog(head) => Ok(()),
        None => Err(Error::UnrecognisedFormat { path, known: FORMAT.to_owned() }),
    }
}
