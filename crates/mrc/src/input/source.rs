//! The bytes of a trace file, decompressed if needed.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use poolwright_host::{cannot, private, regular};

use crate::{Error, Result};

/// The first bytes of a zstd file (RFC 8878, 3.1.1).
pub(super) const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes per read from the file.
const BUFFER: usize = 1 << 18;
/// Bytes from which the format is detected.
const HEAD: usize = 1 << 12;

/// A trace file that is read once, from beginning to end.
pub(super) struct Source {
    path: PathBuf,
    bytes: Box<dyn Read + Send>,
    packed: bool,
    /// Length of the file on disk, in bytes.
    len: u64,
    taken: Arc<AtomicU64>,
    /// Decompressed bytes returned so far.
    given: u64,
    /// The first bytes, as long as they were not returned.
    head: Vec<u8>,
}

/// Counts the bytes read from the file.
struct Counted {
    file: File,
    taken: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

impl Source {
    /// Opens a file, and decompresses it if it begins like a zstd file.
    pub fn open(path: &Path) -> Result<Source> {
        let mut file = regular::open(path).map_err(|e| match private::refusal(&e) {
            None => cannot("open", path)(e),
            Some(_) => {
                let why = if path.is_dir() { "it is a directory" } else { "it is not a regular file" };
                cannot("read", path)(std::io::Error::other(why))
            }
        })?;
        let stat = file.metadata().map_err(cannot("read", path))?;
        let mut head = Vec::new();
        (&mut file).take(4).read_to_end(&mut head).map_err(cannot("read", path))?;
        std::io::Seek::rewind(&mut file).map_err(cannot("read", path))?;
        let packed = head == ZSTD_MAGIC;
        let taken = Arc::new(AtomicU64::new(0));
        let counted = Counted { file, taken: Arc::clone(&taken) };
        let bytes: Box<dyn Read + Send> = if packed {
            let buffered = BufReader::with_capacity(BUFFER, counted);
            Box::new(zstd::stream::read::Decoder::with_buffer(buffered).map_err(cannot("read", path))?)
        } else {
            Box::new(counted)
        };
        let path = path.to_owned();
        Ok(Source { path, bytes, packed, len: stat.len(), taken, given: 0, head: Vec::new() })
    }

    /// The first bytes of the file, decompressed; they will be returned again.
    pub fn head(&mut self) -> Result<&[u8]> {
        let mut head = vec![0; HEAD];
        let end = self.fill(&mut head, 0)?;
        head.truncate(end);
        self.given = 0;
        self.head = head;
        Ok(&self.head)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is compressed.
    pub fn is_packed(&self) -> bool {
        self.packed
    }

    /// Its length on disk.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Share of the file that was read.
    pub fn progress(&self) -> f64 {
        self.taken.load(Ordering::Relaxed) as f64 / self.len.max(1) as f64
    }

    /// Fills `buffer` from `start` on, up to the end of the file, and returns the end of the data in it.
    pub fn fill(&mut self, buffer: &mut [u8], start: usize) -> Result<usize> {
        let mut end = start;
        if !self.head.is_empty() {
            let take = self.head.len().min(buffer.len() - end);
            buffer[end..end + take].copy_from_slice(&self.head[..take]);
            self.head.drain(..take);
            end += take;
            self.given += take as u64;
        }
        while end < buffer.len() {
            match self.bytes.read(&mut buffer[end..]) {
                Ok(0) => break,
                Ok(read) => {
                    end += read;
                    self.given += read as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(end)
    }

    /// An error of the decompressor means a damaged file; one of the system does not.
    fn failed(&self, error: std::io::Error) -> Error {
        if !self.packed || error.raw_os_error().is_some() {
            return cannot("read", &self.path)(error).into();
        }
        let location = format!("byte {} of the decompressed data", self.given);
        let why = match error.kind() {
            ErrorKind::UnexpectedEof => "the zstd data is truncated".to_owned(),
            _ => format!("the zstd data is damaged ({error})"),
        };
        malformed(&self.path, location, format!("{why}\nhint: copy the file again"))
    }
}

/// An error at a position in a file.
pub(super) fn malformed(path: &Path, location: impl Into<String>, why: impl Into<String>) -> Error {
    Error::Malformed { path: path.to_owned(), location: location.into(), why: why.into() }
}
