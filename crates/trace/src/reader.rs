//! Reads a trace, including one whose recorder was killed during a write.

use std::cell::Cell;
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
use poolwright_host::{private, regular};

use crate::checksum::{SEAL_MAGIC, crc32};
use crate::error::{Error, Result, io};
use crate::event::MAX_CALL;
use crate::pages;
use crate::schema::{
    self, FORMAT_VERSION, GAP_COLUMNS, KEY_CHECKSUMS, KEY_FILES, KEY_META, KEY_VERSION, SERVED_COLUMN,
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
#[derive(Clone, Copy, Debug)]
struct Columns {
    t_ns: usize,
    dur_ns: usize,
    op: usize,
    file: usize,
    offset: usize,
    len: usize,
    pid: usize,
    tid: usize,
    flags: usize,
    /// In the order of [`GAP_COLUMNS`]; `None` in a trace written before these columns existed.
    gap: Option<[usize; 4]>,
    /// The column of [`Gap::served_ns`].
    served: Option<usize>,
}

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
        let columns = Columns::find(&metadata).map_err(corrupt)?;
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
        format!("crc32:{:08x}:{}", crc32(parts.join("\n").as_bytes()), self.len())
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
        if crc32(&bytes) == self.checksums[index] {
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
        let at = self.columns;
        for column in at.all() {
            let chunk = source.of(group.column(column)).ok_or("a column lies outside the row group")?;
            pages::check(chunk, rows as u64).map_err(|why| format!("column {column}: {why}"))?;
        }
        let t_ns = take::<Int64Type>(&reader, at.t_ns, rows)?;
        let dur_ns = take::<Int64Type>(&reader, at.dur_ns, rows)?;
        let ops = decode_ops(&take::<ByteArrayType>(&reader, at.op, rows)?)?;
        let file = take::<Int32Type>(&reader, at.file, rows)?;
        let offset = take::<Int64Type>(&reader, at.offset, rows)?;
        let len = take::<Int64Type>(&reader, at.len, rows)?;
        let pid = take::<Int32Type>(&reader, at.pid, rows)?;
        let tid = take::<Int32Type>(&reader, at.tid, rows)?;
        let flags = take::<Int32Type>(&reader, at.flags, rows)?;
        let gaps = at.gap.map(|gap| decode_gaps(&reader, gap, at.served, rows)).transpose()?;
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

impl Columns {
    fn all(&self) -> impl Iterator<Item = usize> {
        let c = self;
        let always = [c.t_ns, c.dur_ns, c.op, c.file, c.offset, c.len, c.pid, c.tid, c.flags];
        always.into_iter().chain(c.gap.into_iter().flatten()).chain(c.served)
    }

    fn find(metadata: &ParquetMetaData) -> Result<Columns, String> {
        let ours = schema::descriptor();
        let theirs = metadata.file_metadata().schema_descr();
        let at = |name: &str| {
            let wanted =
                ours.columns().iter().find(|c| c.name() == name).expect("column of the column table");
            let found = theirs.columns().iter().position(|c| {
                c.path().parts() == [name]
                    && c.physical_type() == wanted.physical_type()
                    && c.max_def_level() == 0
                    && c.max_rep_level() == 0
            });
            found.ok_or_else(|| format!("column {name} is missing or has the wrong type"))
        };
        let has = |name: &str| theirs.columns().iter().any(|c| c.path().parts() == [name]);
        let [cpu, ready, wake, waker] = GAP_COLUMNS;
        let gap = if GAP_COLUMNS.iter().any(|name| has(name)) {
            Some([at(cpu)?, at(ready)?, at(wake)?, at(waker)?])
        } else {
            None
        };
        Ok(Columns {
            t_ns: at("t_ns")?,
            dur_ns: at("dur_ns")?,
            op: at("op")?,
            file: at("file")?,
            offset: at("offset")?,
            len: at("len")?,
            pid: at("pid")?,
            tid: at("tid")?,
            flags: at("flags")?,
            gap,
            served: if gap.is_some() && has(SERVED_COLUMN) { Some(at(SERVED_COLUMN)?) } else { None },
        })
    }
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

fn decode_gaps(
    group: &SerializedRowGroupReader<'_, Part>,
    at: [usize; 4],
    served: Option<usize>,
    rows: usize,
) -> Result<Vec<Option<Gap>>, String> {
    let cpu = take::<Int64Type>(group, at[0], rows)?;
    let ready = take::<Int32Type>(group, at[1], rows)?;
    let wake = take::<Int32Type>(group, at[2], rows)?;
    let waker = take::<Int32Type>(group, at[3], rows)?;
    let served = served.map(|at| take::<Int32Type>(group, at, rows)).transpose()?;
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
    Ok((0..rows).map(gap).collect())
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
