//! Reads a trace, also one whose recorder was killed in the middle of a write.

use std::fs::File as Disk;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::properties::ReaderProperties;
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedRowGroupReader;

use crate::checksum::{SEAL_LEN, SEAL_MAGIC, crc32, seal};
use crate::error::{Error, Result, io};
use crate::schema::{self, FORMAT_VERSION, KEY_CHECKSUMS, KEY_FILES, KEY_META, KEY_VERSION};
use crate::{Event, File, Flags, Meta, Op};

const MAGIC: &[u8; 4] = b"PAR1";
/// Length of the footer's length and the magic behind it.
const TAIL: u64 = 8;
/// Far above any footer that [`crate::Writer`] makes; keeps a damaged length from taking the memory.
const FOOTER_LIMIT: u64 = 1 << 30;
/// Rows that one row group may claim to have; the writer's have 2^18.
const ROW_GROUP_LIMIT: i64 = 1 << 24;

/// An open trace. Cheap to keep: events are read only by [`Reader::events`] and [`Reader::row_group`].
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    file: Arc<Disk>,
    metadata: ParquetMetaData,
    meta: Meta,
    files: Vec<File>,
    columns: Columns,
    checksums: Vec<u32>,
    len: u64,
    good: u64,
}

/// Where each column that is read stands. Columns are found by name: later versions may add some.
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
}

impl Reader {
    /// Opens a trace. If its end is torn, the last complete footer before it is used ([`Reader::recovered`]).
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref().to_owned();
        let file = Disk::open(&path).map_err(io("open", &path))?;
        let stat = file.metadata().map_err(io("read", &path))?;
        let foreign = |why: &str| Error::NotATrace { path: path.clone(), why: why.to_owned() };
        if !stat.is_file() {
            return Err(foreign(if stat.is_dir() {
                "it is a directory"
            } else {
                "it is not a regular file"
            }));
        }
        let len = stat.len();
        if len == 0 {
            return Err(foreign("it is empty"));
        }
        // A trace starts with an empty checkpoint, so its first seal stands right behind the magic.
        let mut head = [0; 12];
        let known = (len as usize).min(head.len());
        file.read_exact_at(&mut head[..known], 0).map_err(io("read", &path))?;
        let expected = [MAGIC.as_slice(), SEAL_MAGIC].concat();
        if head[..known] != expected[..known] {
            return Err(foreign(if head.starts_with(MAGIC) {
                "it is a Parquet file of something else"
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
            .map_err(|e| corrupt(format!("its description cannot be read ({e})")))?;
        let files = serde_json::from_str(pair(KEY_FILES).unwrap_or(""))
            .map_err(|e| corrupt(format!("its file table cannot be read ({e})")))?;
        let columns = Columns::find(&metadata).map_err(corrupt)?;
        check_extents(&metadata, good).map_err(corrupt)?;
        let checksums = parse_checksums(pair(KEY_CHECKSUMS).unwrap_or(""))
            .filter(|sums| sums.len() == metadata.num_row_groups())
            .ok_or_else(|| corrupt("its checksums cannot be read".to_owned()))?;
        Ok(Reader { path, file: Arc::new(file), meta, files, columns, checksums, len, good, metadata })
    }

    /// The file it was opened from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the trace says of itself.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The file table.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// How many events it holds.
    pub fn len(&self) -> u64 {
        self.metadata.row_groups().iter().map(|group| group.num_rows() as u64).sum()
    }

    /// Whether it holds no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `Some(bytes)` if the end of the file is torn: how many bytes behind the last complete footer are not used.
    /// Other Parquet readers open the file once it is cut to [`Reader::good_len`].
    pub fn recovered(&self) -> Option<u64> {
        (self.len > self.good).then(|| self.len - self.good)
    }

    /// Length of the file up to and with the footer in use.
    pub fn good_len(&self) -> u64 {
        self.good
    }

    /// How many row groups there are.
    pub fn row_groups(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// All events, nearly sorted by time (exactly inside a row group). Holds one row group in memory.
    pub fn events(&self) -> Events<'_> {
        Events { reader: self, group: 0, current: Vec::new().into_iter() }
    }

    /// The events of one row group, sorted by time.
    ///
    /// # Panics
    /// If `index` is not below [`Reader::row_groups`].
    pub fn row_group(&self, index: usize) -> Result<Vec<Event>> {
        self.verify(index)?;
        self.decode(index).map_err(|why| self.corrupt(format!("row group {index}: {why}")))
    }

    fn corrupt(&self, why: String) -> Error {
        Error::Corrupt { path: self.path.clone(), why }
    }

    /// Compares a row group with its checksum, so that the decoder never sees damaged pages.
    fn verify(&self, index: usize) -> Result<()> {
        let (start, length) = extent(self.metadata.row_group(index));
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, start).map_err(io("read", &self.path))?;
        if crc32(&bytes) == self.checksums[index] {
            return Ok(());
        }
        Err(self.corrupt(format!("row group {index} does not match its checksum")))
    }

    fn decode(&self, index: usize) -> Result<Vec<Event>, String> {
        let group = self.metadata.row_group(index);
        let pages = self.metadata.page_index_for_row_group(index);
        let properties = Arc::new(ReaderProperties::builder().build());
        let reader = SerializedRowGroupReader::new(self.file.clone(), group, pages, properties)
            .map_err(|e| e.to_string())?;
        let rows = group.num_rows() as usize;
        let at = self.columns;
        let t_ns = take::<Int64Type>(&reader, at.t_ns, rows)?;
        let dur_ns = take::<Int64Type>(&reader, at.dur_ns, rows)?;
        let ops = decode_ops(&take::<ByteArrayType>(&reader, at.op, rows)?)?;
        let file = take::<Int32Type>(&reader, at.file, rows)?;
        let offset = take::<Int64Type>(&reader, at.offset, rows)?;
        let len = take::<Int64Type>(&reader, at.len, rows)?;
        let pid = take::<Int32Type>(&reader, at.pid, rows)?;
        let tid = take::<Int32Type>(&reader, at.tid, rows)?;
        let flags = take::<Int32Type>(&reader, at.flags, rows)?;
        if let Some(id) = file.iter().find(|&&id| id as u32 as usize >= self.files.len()) {
            return Err(format!("an event of file {}, of {} known", *id as u32, self.files.len()));
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
        };
        Ok((0..rows).map(event).collect())
    }
}

/// Iterates over the events of a [`Reader`]. After an error it goes on with the next row group.
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
            match self.reader.row_group(self.group - 1) {
                Ok(events) => self.current = events.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Columns {
    fn find(metadata: &ParquetMetaData) -> Result<Columns, String> {
        let ours = schema::descriptor();
        let theirs = metadata.file_metadata().schema_descr();
        let at = |name: &str| {
            let wanted = ours.columns().iter().find(|c| c.name() == name).expect("a column of our own table");
            let found = theirs.columns().iter().position(|c| {
                c.path().parts() == [name]
                    && c.physical_type() == wanted.physical_type()
                    && c.max_def_level() == 0
                    && c.max_rep_level() == 0
            });
            found.ok_or_else(|| format!("column {name} is missing or of another type"))
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
        })
    }
}

fn footer_value<'a>(metadata: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = metadata.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

fn parse_checksums(digits: &str) -> Option<Vec<u32>> {
    let sum = |hex: &[u8]| u32::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok();
    digits.as_bytes().chunks(8).map(sum).collect()
}

/// Start and length of a row group in the file. Its columns follow each other without gaps.
fn extent(group: &RowGroupMetaData) -> (u64, u64) {
    (group.file_offset().unwrap_or(0).max(0) as u64, group.compressed_size().max(0) as u64)
}

fn check_version(path: &Path, version: &str) -> Result<()> {
    match version.parse::<u32>() {
        Ok(n) if n <= FORMAT_VERSION => Ok(()),
        _ => Err(Error::Newer { path: path.to_owned(), version: version.to_owned() }),
    }
}

/// Every column chunk must lie in the file and every count be one that a writer can have made.
fn check_extents(metadata: &ParquetMetaData, end: u64) -> Result<(), String> {
    for (index, group) in metadata.row_groups().iter().enumerate() {
        if !(0..=ROW_GROUP_LIMIT).contains(&group.num_rows()) {
            return Err(format!("row group {index} claims {} events", group.num_rows()));
        }
        let (first, length) = extent(group);
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

/// The last complete footer and where it ends.
fn find_footer(file: &Disk, path: &Path, len: u64) -> Result<(ParquetMetaData, u64)> {
    if let Some(metadata) = footer_before(file, len).map_err(io("read", path))? {
        return Ok((metadata, len));
    }
    const STEP: u64 = 1 << 20;
    let mut end = len;
    while end > TAIL {
        let start = end.saturating_sub(STEP).max(4);
        let mut bytes = vec![0; (end - start) as usize];
        file.read_exact_at(&mut bytes, start).map_err(io("read", path))?;
        for at in (0..bytes.len().saturating_sub(MAGIC.len() - 1)).rev() {
            if &bytes[at..at + 4] != MAGIC {
                continue;
            }
            let stop = start + at as u64 + 4;
            let found = footer_before(file, stop).map_err(io("read", path))?;
            if let Some(metadata) = found {
                return Ok((metadata, stop));
            }
        }
        if start == 4 {
            break;
        }
        end = start + 3; // a magic may straddle two steps
    }
    Err(Error::Truncated { path: path.to_owned() })
}

/// The footer that ends exactly at `end`, if one does and matches its seal.
fn footer_before(file: &Disk, end: u64) -> std::io::Result<Option<ParquetMetaData>> {
    if end < 4 + SEAL_LEN + TAIL {
        return Ok(None);
    }
    let mut tail = [0; TAIL as usize];
    file.read_exact_at(&mut tail, end - TAIL)?;
    let length = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if &tail[4..] != MAGIC || length == 0 || length > (end - TAIL - SEAL_LEN - 4).min(FOOTER_LIMIT) {
        return Ok(None);
    }
    let start = end - TAIL - length;
    let mut found = [0; SEAL_LEN as usize];
    file.read_exact_at(&mut found, start - SEAL_LEN)?;
    if &found[..8] != SEAL_MAGIC {
        return Ok(None);
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, start)?;
    if seal(&bytes) != found {
        return Ok(None);
    }
    Ok(ParquetMetaDataReader::decode_metadata(&bytes).ok())
}

fn take<T: DataType>(
    group: &SerializedRowGroupReader<'_, Disk>,
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
