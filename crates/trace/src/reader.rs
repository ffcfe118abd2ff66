//! Reads a trace, including one whose recorder was killed during a write.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File as Disk;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedRowGroupReader;
use poolwright_base::{private, regular};

use crate::checksum::SEAL_MAGIC;
use crate::error::{Error, Result, io};
use crate::event::MAX_CALL;
use crate::pages;
use crate::schema::{
    self, COLUMNS, FORMAT_VERSION, GAP_COLUMNS, KEY_CHECKSUMS, KEY_FILES, KEY_META, KEY_VERSION,
    SERVED_COLUMN,
};
use crate::{Event, File, Flags, Gap, Meta, Op};

mod footer;
mod part;
use footer::{MAGIC, find_footer, footer_value};
use part::{Part, extent};

/// The maximum number of rows that a row group may claim; the writer's row groups have 2^18.
const ROW_GROUP_LIMIT: i64 = 1 << 20;
/// The maximum size of a row group in the file, in bytes; the writer's have a few MiB.
const ROW_GROUP_BYTES: u64 = 256 << 20;

thread_local! {
    static DECODING: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is decoding a trace's pages. [`Reader`] catches a panic there and returns an [`Error`], so a
/// panic hook need not report it.
pub fn is_decoding() -> bool {
    DECODING.get()
}

/// An open trace. It reads events only in [`Reader::events`] and [`Reader::row_group`].
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: Disk,
    metadata: ParquetMetaData,
    meta: Meta,
    files: Vec<File>,
    columns: Columns,
    checksums: Vec<u32>,
    len: u64,
    good: u64,
}

/// The index of each column that is read. Columns are found by name, because later versions may add some.
type Columns = BTreeMap<&'static str, usize>;

impl Reader {
    /// Opens a trace. If its end is torn, the last complete footer is used ([`Reader::recovered`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, is not a trace, has a later format, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref().to_owned();
        let foreign = |why: &str| Error::NotATrace { path: path.clone(), why: why.to_owned() };
        let file = regular::open(&path).map_err(|why| match private::refusal(&why) {
            Some(_) if path.is_dir() => foreign("it is a directory"),
            Some(_) => foreign("it is not a regular file"),
            None => io("open", &path)(why),
        })?;
        let len = file.metadata().map_err(io("read", &path))?.len();
        if len == 0 {
            return Err(foreign("it is empty"));
        }
        // A trace starts with an empty checkpoint, so its first seal follows the magic.
        let mut head = [0; 12];
        let known = (len as usize).min(head.len());
        file.read_exact_at(&mut head[..known], 0).map_err(io("read", &path))?;
        let expected = [MAGIC.as_slice(), SEAL_MAGIC].concat();
        if head[..known] != expected[..known] {
            return Err(foreign(if head.starts_with(MAGIC) {
                "it is a Parquet file with other contents"
            } else {
                "it is not a Parquet file"
            }));
        }
        let (metadata, good) = find_footer(&file, &path, len)?;
        let pair = |key: &str| footer_value(&metadata, key);
        let Some(version) = pair(KEY_VERSION) else {
            return Err(foreign("its footer has no version"));
        };
        check_version(&path, version)?;
        let corrupt = |why: String| Error::Corrupt { path: path.clone(), why };
        let meta = serde_json::from_str(pair(KEY_META).unwrap_or(""))
            .map_err(|e| corrupt(format!("invalid metadata ({e})")))?;
        let files: Vec<File> = serde_json::from_str(pair(KEY_FILES).unwrap_or(""))
            .map_err(|e| corrupt(format!("invalid file table ({e})")))?;
        let columns = find_columns(&metadata).map_err(corrupt)?;
        check_extents(&metadata, good).map_err(corrupt)?;
        let checksums = parse_checksums(pair(KEY_CHECKSUMS).unwrap_or(""))
            .filter(|sums| sums.len() == metadata.num_row_groups())
            .ok_or_else(|| corrupt("invalid checksums".to_owned()))?;
        Ok(Reader { path, file, meta, files, columns, checksums, len, good, metadata })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the metadata of the trace.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the file table.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns the number of events.
    pub fn len(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows() as u64).sum()
    }

    /// Whether the trace has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes after the last complete footer if the end of the file is torn. Other Parquet readers
    /// can open the file after it is truncated to [`Reader::good_len`].
    pub fn recovered(&self) -> Option<u64> {
        (self.len > self.good).then(|| self.len - self.good)
    }

    /// Returns the length of the file in bytes, up to and including the footer in use.
    pub fn good_len(&self) -> u64 {
        self.good
    }

    /// Returns a checksum of the trace's metadata, file table and events, as text. Copies of a trace have the same
    /// fingerprint.
    pub fn fingerprint(&self) -> String {
        let parts =
            [KEY_META, KEY_FILES, KEY_CHECKSUMS].map(|key| footer_value(&self.metadata, key).unwrap_or(""));
        format!("crc32:{:08x}:{}", crc32fast::hash(parts.join("\n").as_bytes()), self.len())
    }

    /// Returns the number of row groups.
    pub fn row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Returns all events, nearly sorted by time (exactly within a row group). One row group at a time is in memory.
    pub fn events(&self) -> Events<'_> {
        Events { reader: self, group: 0, current: Vec::new().into_iter() }
    }

    /// Returns the events of one row group, sorted by time.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or the row group is damaged.
    ///
    /// # Panics
    ///
    /// Panics if `index` is not below [`Reader::row_groups`].
    pub fn row_group(&self, index: usize) -> Result<Vec<Event>> {
        let bytes = self.verified(index)?;
        // A checksum detects accidental damage, but a hostile file has valid checksums. The decoder panics on some
        // invalid pages.
        DECODING.set(true);
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode(index, bytes)));
        DECODING.set(false);
        let events = decoded.unwrap_or_else(|_| Err("invalid pages".to_owned()));
        events.map_err(|why| self.corrupt(format!("row group {index}: {why}")))
    }

    fn corrupt(&self, why: String) -> Error {
        Error::Corrupt { path: self.path.clone(), why }
    }

    /// Reads a row group and compares it with its checksum, so that the decoder never sees damaged pages.
    fn verified(&self, index: usize) -> Result<Bytes> {
        let (start, length) = extent(self.metadata.row_group(index));
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(io("read", &self.path))?;
        if crc32fast::hash(&bytes) == self.checksums[index] {
            return Ok(Bytes::from(bytes));
        }
        Err(self.corrupt(format!("row group {index} does not match its checksum")))
    }

    /// Decodes the checked bytes in memory, because the file may change in the meantime.
    fn decode(&self, index: usize, bytes: Bytes) -> Result<Vec<Event>, String> {
        let group = self.metadata.row_group(index);
        let source = Part::new(group, bytes);
        let pages = self.metadata.page_index_for_row_group(index);
        let properties = Arc::new(ReaderProperties::builder().build());
        let reader = SerializedRowGroupReader::new(Arc::new(source.clone()), group, pages, properties)
            .map_err(|e| e.to_string())?;
        let rows = group.num_rows() as usize;
        for &column in self.columns.values() {
            let chunk = source.of(group.column(column)).ok_or("a column lies outside the row group")?;
            pages::check(chunk, rows as u64).map_err(|why| format!("column {column}: {why}"))?;
        }
        let int32 = |name: &str| take::<Int32Type>(&reader, self.columns[name], rows);
        let int64 = |name: &str| take::<Int64Type>(&reader, self.columns[name], rows);
        let (t_ns, dur_ns, offset, len) = (int64("t_ns")?, int64("dur_ns")?, int64("offset")?, int64("len")?);
        let (file, pid, tid, flags) = (int32("file")?, int32("pid")?, int32("tid")?, int32("flags")?);
        let ops = decode_ops(&take::<ByteArrayType>(&reader, self.columns["op"], rows)?)?;
        let gaps = self.decode_gaps(&reader, rows)?;
        if let Some(id) = file.iter().find(|&&id| id as u32 as usize >= self.files.len()) {
            return Err(format!(
                "an event refers to file {}, but the trace has only {} files",
                *id as u32,
                self.files.len()
            ));
        }
        let event = |i: usize| Event {
            t_ns: t_ns[i].max(0) as u64,
            dur_ns: dur_ns[i].max(0) as u64,
            op: ops[i],
            file: file[i] as u32,
            offset: offset[i].max(0) as u64,
            len: len[i].max(0) as u64,
            pid: pid[i] as u32,
            tid: tid[i] as u32,
            flags: Flags(flags[i] as u16),
            gap: gaps.as_ref().and_then(|gaps| gaps[i]),
        };
        let possible = |event: Event| Event {
            len: if event.moves_bytes() { event.len.min(MAX_CALL) } else { event.len },
            ..event
        };
        Ok((0..rows).map(event).map(possible).collect())
    }

    /// Decodes the gaps; `None` for a trace written before their columns existed.
    fn decode_gaps(
        &self,
        group: &SerializedRowGroupReader<'_, Part>,
        rows: usize,
    ) -> Result<Option<Vec<Option<Gap>>>, String> {
        let [cpu, ready, wake, waker] = GAP_COLUMNS;
        let Some(cpu) = self.columns.get(cpu) else { return Ok(None) };
        let cpu = take::<Int64Type>(group, *cpu, rows)?;
        let int32 = |name: &str| take::<Int32Type>(group, self.columns[name], rows);
        let (ready, wake, waker) = (int32(ready)?, int32(wake)?, int32(waker)?);
        let served = self.columns.get(SERVED_COLUMN).map(|_| int32(SERVED_COLUMN)).transpose()?;
        let gap = |i: usize| {
            let cpu_ns = u64::try_from(cpu[i]).ok()?; // negative: unknown
            Some(Gap {
                cpu_ns,
                ready_ns: ready[i] as u32,
                wake_ns: wake[i] as u32,
                waker: waker[i] as u32,
                served_ns: served.as_ref().map_or(0, |served| served[i] as u32),
            })
        };
        Ok(Some((0..rows).map(gap).collect()))
    }
}

/// An iterator over the events of a [`Reader`]. After an error, it continues with the next row group.
pub struct Events<'a> {
    reader: &'a Reader,
    group: usize,
    current: std::vec::IntoIter<Event>,
}

impl Iterator for Events<'_> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        loop {
            if let Some(event) = self.current.next() {
                return Some(Ok(event));
            }
            if self.group >= self.reader.row_groups() {
                return None;
            }
            self.group += 1;
            self.current = Vec::new().into_iter(); // free this row group before reading the next
            match self.reader.row_group(self.group - 1) {
                Ok(events) => self.current = events.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

fn find_columns(metadata: &ParquetMetaData) -> Result<Columns, String> {
    let ours = schema::descriptor();
    let theirs = metadata.file_metadata().schema_descr();
    let has = |name: &str| theirs.columns().iter().any(|c| c.path().parts() == [name]);
    let has_gaps = GAP_COLUMNS.iter().any(|name| has(name));
    let is_read = |name: &str| match name {
        "path" | "role" => false, // those of the file table are read
        SERVED_COLUMN => has_gaps && has(name),
        _ => has_gaps || !GAP_COLUMNS.contains(&name),
    };
    let mut columns = Columns::new();
    for (name, wanted) in COLUMNS.iter().map(|c| c.name).zip(ours.columns()).filter(|(name, _)| is_read(name))
    {
        let found = theirs.columns().iter().position(|c| {
            c.path().parts() == [name]
                && c.physical_type() == wanted.physical_type()
                && c.max_def_level() == 0
                && c.max_rep_level() == 0
        });
        let found = found.ok_or_else(|| format!("column {name} is missing or has the wrong type"))?;
        columns.insert(name, found);
    }
    Ok(columns)
}

fn parse_checksums(digits: &str) -> Option<Vec<u32>> {
    let sum = |hex: &[u8]| u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok();
    digits.as_bytes().chunks(8).map(sum).collect()
}

fn check_version(path: &Path, version: &str) -> Result<()> {
    match version.parse::<u32>() {
        Ok(n) if n <= FORMAT_VERSION => Ok(()),
        _ => Err(Error::Newer { path: path.to_owned(), version: version.to_owned() }),
    }
}

/// Checks that every column chunk lies in the file, and that every count is within the limits of the writer.
fn check_extents(metadata: &ParquetMetaData, end: u64) -> Result<(), String> {
    for (index, group) in metadata.row_groups().iter().enumerate() {
        if !(0..=ROW_GROUP_LIMIT).contains(&group.num_rows()) {
            return Err(format!("row group {index} claims {} events", group.num_rows()));
        }
        let (first, length) = extent(group);
        if length > ROW_GROUP_BYTES {
            return Err(format!("row group {index} claims {length} bytes"));
        }
        let mut inside = first.checked_add(length).is_some_and(|stop| stop <= end);
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            inside &= start >= 4
                && column.data_page_offset() >= start
                && column.compressed_size() >= 0
                && start.checked_add(column.compressed_size()).is_some_and(|stop| stop as u64 <= end);
        }
        if !inside {
            return Err(format!("row group {index} points outside the file"));
        }
    }
    Ok(())
}

fn take<T: DataType>(
    group: &SerializedRowGroupReader<'_, Part>,
    column: usize,
    rows: usize,
) -> Result<Vec<T::T>, String> {
    let read = || -> Result<Vec<T::T>, ParquetError> {
        let mut reader = get_typed_column_reader::<T>(group.get_column_reader(column)?);
        let mut values = Vec::with_capacity(rows);
        while values.len() < rows {
            let (records, _, _) = reader.read_records(rows - values.len(), None, None, &mut values)?;
            if records == 0 {
                break;
            }
        }
        Ok(values)
    };
    let values = read().map_err(|e| format!("column {column}: {e}"))?;
    if values.len() == rows {
        Ok(values)
    } else {
        Err(format!("column {column}: {} of {rows} values", values.len()))
    }
}

fn decode_ops(names: &[ByteArray]) -> Result<Vec<Op>, String> {
    let decode = |name: &ByteArray| {
        let text = std::str::from_utf8(name.data()).ok();
        text.and_then(Op::from_name).ok_or_else(|| format!("unknown operation {:?}", text.unwrap_or("?")))
    };
    names.iter().map(decode).collect()
}

#[cfg(test)]
mod tests;
