//! Writes a trace that can be opened even if the writer is killed at any time.
//!
//! Row groups and footers are only appended. A checkpoint is one `write` of the row groups since the previous
//! checkpoint, followed by a footer that lists *all* row groups; earlier footers remain in between as dead bytes. The
//! file therefore ends in a valid footer except during that call, and [`crate::Reader`] falls back to the previous
//! footer. A seal before each footer and a checksum per row group detect torn or damaged ones.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedRowGroupWriter, TrackedWrite};
use parquet::schema::types::SchemaDescPtr;
use poolwright_base::{Part, private};

use crate::checksum::seal;
use crate::error::{Error, Result, io};
use crate::row_group::write_columns;
use crate::schema::{self, FORMAT_VERSION, KEY_CHECKSUMS, KEY_FILES, KEY_META, KEY_VERSION};
use crate::{Event, File, Meta};

/// Events per row group; they take 22 MiB of memory until they are encoded.
const ROW_GROUP_EVENTS: usize = 1 << 18;
/// The maximum number of encoded bytes that wait for the next checkpoint.
const PENDING_LIMIT: usize = 32 << 20;
/// The number of events after which `push` checks the time.
const CLOCK_EVERY: u64 = 4096;
/// The minimum interval of checkpoints: the maximum loss from a kill early in a recording.
const CHECKPOINT_MIN: Duration = Duration::from_secs(5);
/// The maximum loss from a kill later in a recording, as a share of the recorded time; so footers stay a small part of
/// the file.
const CHECKPOINT_SHARE: f64 = 0.02;
/// The maximum rate of footer bytes (footers repeat the file table), in bytes per second.
const FOOTER_BYTES_PER_SECOND: f64 = 256.0 * 1024.0;

/// The bytes after a footer's Thrift bytes: their length and the magic.
const TAIL: usize = 8;

/// Summary of a written trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// The trace's path.
    pub path: PathBuf,
    /// The number of events.
    pub events: u64,
    /// The number of files in its table.
    pub files: usize,
    /// Its length in bytes.
    pub bytes: u64,
    /// The duration in nanoseconds: from [`Meta`], otherwise from the start of the recording to the end of the last
    /// operation.
    pub duration_ns: u64,
}

/// Writes one trace. The trace appears under its name with the first checkpoint that contains an event, or when it is
/// finished. If dropped without [`Writer::finish`], the writer still tries to write its buffered events; a trace
/// without events then leaves no file, and an older file of its name unchanged.
pub struct Writer {
    path: PathBuf,
    /// The temporary file until the trace contains an event; `None` once it has its final name.
    part: Option<Part>,
    out: std::fs::File,
    /// Length of the file in bytes, up to and including its last complete footer.
    good: u64,
    /// The bytes after `good` that the next checkpoint writes. It counts positions from the start of the file.
    pending: TrackedWrite<Vec<u8>>,
    schema: SchemaDescPtr,
    properties: WriterPropertiesPtr,
    row_groups: Vec<RowGroupMetaData>,
    /// The row groups' checksums, as in the footer.
    checksums: String,
    events: Vec<Event>,
    files: Vec<File>,
    meta: Meta,
    pushed: u64,
    /// The number of events up to the last checkpoint.
    written: u64,
    last_end_ns: u64,
    started: Instant,
    checkpointed: Instant,
    footer_bytes: usize,
    /// Whether anything changed since the last checkpoint.
    dirty: bool,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Open,
    Failed,
    Finished,
}

impl Writer {
    /// Starts a trace at `path`. On return, an empty trace is on disk beside it.
    ///
    /// An older trace or an empty file of that name is replaced once there is an event.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotOverwritten`] if a file of that name is not a trace, and an I/O error if the file cannot be
    /// written.
    pub fn create(path: impl AsRef<Path>, meta: Meta) -> Result<Writer> {
        let path = path.as_ref().to_owned();
        refuse_foreign(&path)?;
        let location = real_path_of(&path).map_err(io("create", &path))?;
        // A trace is private, because it contains file names and how each file is used. A device or a pipe already
        // exists.
        let opened = match &location {
            Some(location) => Part::create(location, private::FILE).map(|(part, out)| (Some(part), out)),
            None => OpenOptions::new().write(true).open(&path).map(|out| (None, out)),
        };
        let (part, out) = opened.map_err(io("create", &path))?;
        let now = Instant::now();
        let mut writer = Writer {
            path,
            part,
            out,
            good: 0,
            pending: TrackedWrite::new(Vec::new()),
            schema: schema::descriptor(),
            properties: schema::properties(),
            row_groups: Vec::new(),
            checksums: String::new(),
            events: Vec::new(),
            files: Vec::new(),
            meta,
            pushed: 0,
            written: 0,
            last_end_ns: 0,
            started: now,
            checkpointed: now,
            footer_bytes: 0,
            dirty: true,
            state: State::Open,
        };
        writer.encoded(|w| Ok(w.pending.write_all(b"PAR1")?))?;
        writer.checkpoint()?;
        Ok(writer)
    }

    /// Refuses to record to a path that holds an earlier recording, or another file.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Recorded`], [`Error::NotOverwritten`], or an I/O error if the file cannot be read.
    pub fn refuse_recording(path: &Path) -> Result<()> {
        refuse_foreign(path)?;
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() && found.len() > 0 => Err(Error::Recorded(path.to_owned())),
            _ => Ok(()),
        }
    }

    /// Adds a file to the table and returns its id for [`Event::file`]. The caller must add each path once.
    pub fn file(&mut self, file: File) -> u32 {
        self.dirty = true;
        self.files.push(file);
        (self.files.len() - 1) as u32
    }

    /// Returns a file's table entry for modification. Rows that are already encoded keep the earlier path and role.
    ///
    /// # Errors
    ///
    /// Returns [`Error::UnknownFile`] if the id was not registered.
    pub fn file_mut(&mut self, id: u32) -> Result<&mut File> {
        self.dirty = true;
        let known = self.files.len();
        self.files.get_mut(id as usize).ok_or(Error::UnknownFile { file: id, known })
    }

    /// Returns the current file table.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the current metadata.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the metadata for modification. A duration of 0 is replaced by the end of the last operation.
    pub fn meta_mut(&mut self) -> &mut Meta {
        self.dirty = true;
        &mut self.meta
    }

    /// Returns the number of events pushed so far.
    pub fn len(&self) -> u64 {
        self.pushed
    }

    /// Whether no event was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.pushed == 0
    }

    /// Adds an event. Events may arrive slightly out of order: the rows of a row group are sorted by time. Some calls
    /// encode a row group (about 50 ms) or write a checkpoint.
    ///
    /// # Errors
    ///
    /// Returns an error if the event's file is not registered, or if the trace cannot be written.
    pub fn push(&mut self, event: Event) -> Result<()> {
        if event.file as usize >= self.files.len() {
            return Err(Error::UnknownFile { file: event.file, known: self.files.len() });
        }
        self.check_open()?;
        self.dirty = true;
        self.last_end_ns = self.last_end_ns.max(event.t_ns.saturating_add(event.dur_ns));
        self.events.push(event);
        self.pushed += 1;
        if self.events.len() >= ROW_GROUP_EVENTS {
            self.encode_row_group()?;
            if self.pending.inner().len() >= PENDING_LIMIT {
                return self.checkpoint();
            }
        }
        if self.pushed.is_multiple_of(CLOCK_EVERY) { self.tick() } else { Ok(()) }
    }

    /// Writes a checkpoint if one is due. A recorder calls this about once a second, so that the last events of an idle
    /// database also reach the disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be written.
    pub fn tick(&mut self) -> Result<()> {
        if self.dirty
            && self.checkpointed.elapsed() >= checkpoint_interval(self.started.elapsed(), self.footer_bytes)
        {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Writes all buffered events. A kill after this call loses none of them, but a power cut may.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be written.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.check_open()?;
        if !self.dirty {
            return Ok(());
        }
        self.encode_row_group()?;
        let footer = self.footer()?;
        self.encoded(|w| {
            w.pending.write_all(&seal(&footer[..footer.len() - TAIL]))?;
            w.pending.write_all(&footer)?;
            Ok(w.pending.flush()?)
        })?;
        let bytes = std::mem::take(self.pending.inner_mut());
        if let Err(error) = self.out.write_all(&bytes) {
            self.state = State::Failed;
            // Otherwise, on a full disk, other readers would find the torn end instead of the good footer before it.
            let _ = self.out.set_len(self.good);
            // Until the trace has its final name, dropping this writer removes it.
            let events = if self.part.is_some() { 0 } else { self.written };
            return Err(Error::CutShort { path: self.path.clone(), events, source: error });
        }
        self.good += bytes.len() as u64;
        self.written = self.pushed;
        self.footer_bytes = footer.len();
        self.checkpointed = Instant::now();
        self.dirty = false;
        if self.row_groups.is_empty() { Ok(()) } else { self.publish() }
    }

    /// Renames the trace to its final name.
    fn publish(&mut self) -> Result<()> {
        let Some(part) = &self.part else { return Ok(()) };
        // Replace the target of a symbolic link, not the link.
        let location = std::fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        part.rename(&location).map_err(io("create", &self.path))?;
        self.part = None;
        Ok(())
    }

    /// Writes the rest and makes it durable. Without events, the result is an empty trace.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be written.
    pub fn finish(mut self) -> Result<Summary> {
        self.checkpoint()?;
        self.publish()?;
        self.out.sync_all().map_err(io("sync", &self.path))?;
        self.state = State::Finished;
        Ok(Summary {
            path: self.path.clone(),
            events: self.pushed,
            files: self.files.len(),
            bytes: self.good,
            duration_ns: self.effective_meta().duration_ns,
        })
    }

    fn check_open(&self) -> Result<()> {
        if self.state == State::Failed { Err(Error::Poisoned(self.path.clone())) } else { Ok(()) }
    }

    fn effective_meta(&self) -> Meta {
        let mut meta = self.meta.clone();
        if meta.duration_ns == 0 {
            meta.duration_ns = self.last_end_ns;
        }
        meta
    }

    /// Runs an encoding step. If it fails, `pending` is unusable.
    fn encoded<T>(&mut self, step: impl FnOnce(&mut Writer) -> Result<T, ParquetError>) -> Result<T> {
        step(self).map_err(|source| {
            self.state = State::Failed;
            Error::Encode { path: self.path.clone(), source }
        })
    }

    fn encode_row_group(&mut self) -> Result<()> {
        if self.events.is_empty() {
            return Ok(());
        }
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.t_ns);
        let start = self.pending.bytes_written() as u64 - self.good;
        let group = self.encoded(|w| {
            let (schema, properties) = (w.schema.clone(), w.properties.clone());
            let ordinal = w.row_groups.len() as i32;
            let mut group = SerializedRowGroupWriter::new(schema, properties, &mut w.pending, ordinal, None);
            write_columns(&mut group, &w.files, &events)?;
            let metadata = group.close()?.as_ref().clone();
            w.pending.flush()?;
            Ok(metadata)
        })?;
        let checksum = crc32fast::hash(&self.pending.inner()[start as usize..]);
        self.row_groups.push(group);
        self.checksums.push_str(&format!("{checksum:08x}"));
        events.clear();
        self.events = events;
        Ok(())
    }

    fn footer(&mut self) -> Result<Vec<u8>> {
        let json = |value: serde_json::Result<String>| value.expect("strings and integers are valid JSON");
        let pairs = vec![
            KeyValue::new(KEY_VERSION.to_owned(), FORMAT_VERSION.to_string()),
            KeyValue::new(KEY_CHECKSUMS.to_owned(), self.checksums.clone()),
            KeyValue::new(KEY_META.to_owned(), json(serde_json::to_string(&self.effective_meta()))),
            KeyValue::new(KEY_FILES.to_owned(), json(serde_json::to_string(&self.files))),
        ];
        let rows = self.row_groups.iter().map(RowGroupMetaData::num_rows).sum();
        let creator = Some(self.properties.created_by().to_owned());
        let file = FileMetaData::new(1, rows, creator, Some(pairs), self.schema.clone(), None);
        let metadata = ParquetMetaData::new(file, std::mem::take(&mut self.row_groups));
        let mut footer = Vec::new();
        let written = ParquetMetaDataWriter::new(&mut footer, &metadata).finish();
        self.row_groups = ParquetMetaDataBuilder::from(metadata).take_row_groups();
        self.encoded(|_| written)?;
        Ok(footer)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.state == State::Open {
            // A destructor cannot report an error. The last checkpoint is on disk in any case.
            let _ = self.checkpoint();
        }
    }
}

/// Returns the interval between the last checkpoint and the next.
fn checkpoint_interval(recorded: Duration, footer_bytes: usize) -> Duration {
    let cost = Duration::from_secs_f64(footer_bytes as f64 / FOOTER_BYTES_PER_SECOND);
    CHECKPOINT_MIN.max(recorded.mul_f64(CHECKPOINT_SHARE)).max(cost)
}

/// Returns the real path of a trace at `path`, following links, or `None` if it cannot be replaced (a device, for
/// example).
fn real_path_of(path: &Path) -> std::io::Result<Option<PathBuf>> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Ok(None),
        Ok(_) => drop(OpenOptions::new().write(true).open(path)?), // do not replace a write-protected trace
        Err(_) => {}
    }
    let location = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    Ok(location.file_name().is_some().then_some(location))
}

/// Refuses to overwrite a file that is not a trace, such as a data file given to `-o` by mistake.
fn refuse_foreign(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => match crate::Reader::open(path) {
            Ok(_) | Err(Error::Truncated(_) | Error::Newer { .. } | Error::Corrupt { .. }) => Ok(()),
            Err(failed @ Error::Io(_)) => Err(failed),
            Err(_) => Err(Error::NotOverwritten(path.to_owned())),
        },
        _ => Ok(()), // the creation that follows reports other errors better
    }
}

/// Has `write` make a file beside `target`, and gives it this name if it succeeds. Otherwise an earlier trace of the name stays.
///
/// # Errors
///
/// Returns [`Error::NotOverwritten`] if `target` is not a trace, the error of `write`, or an I/O error if the file cannot be renamed.
pub(crate) fn write_whole<T>(target: &Path, write: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
    refuse_foreign(target)?;
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    let partial = target.with_file_name(name);
    let written = write(&partial).and_then(|done| {
        std::fs::rename(&partial, target).map_err(io("create", target))?;
        Ok(done)
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&partial); // the first error is reported
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates a recording and returns the total bytes of its footers and of its row groups.
    fn simulate(hours: u64, events_per_second: f64, table_bytes: usize) -> (f64, f64) {
        // Measured on recordings of databases: bytes per event, bytes per row group in a footer.
        const EVENT: f64 = 18.0;
        const GROUP: f64 = 750.0;
        let (mut now, mut groups, mut footers, mut written) = (0.0, 0.0, 0.0, 0.0);
        while now < hours as f64 * 3600.0 {
            let footer = groups * GROUP + table_bytes as f64;
            let due = checkpoint_interval(Duration::from_secs_f64(now), footer as usize).as_secs_f64();
            let full = PENDING_LIMIT as f64 / EVENT / events_per_second;
            let step = due.min(full);
            now += step;
            groups += (step * events_per_second / ROW_GROUP_EVENTS as f64).ceil();
            written += step * events_per_second * EVENT;
            footers += footer;
        }
        (footers, written)
    }

    #[test]
    fn footers_stay_a_small_part_of_a_long_recording() {
        for (hours, rate) in [(1, 1_000.0), (1, 20_000.0), (24, 20_000.0), (6, 100_000.0)] {
            let (footers, written) = simulate(hours, rate, 20_000);
            let bound = (0.25 * written).max(f64::from(16 << 20));
            assert!(footers < bound, "{hours} h at {rate}/s: {footers} of {written}");
        }
        let (footers, _) = simulate(24, 100.0, 10 << 20);
        assert!(footers <= 24.0 * 3600.0 * FOOTER_BYTES_PER_SECOND);
    }

    #[test]
    fn a_kill_loses_at_most_what_the_format_promises() {
        let hour = Duration::from_secs(3600);
        assert_eq!(checkpoint_interval(Duration::ZERO, 0), CHECKPOINT_MIN);
        assert_eq!(checkpoint_interval(hour, 0), hour.mul_f64(CHECKPOINT_SHARE));
    }
}
