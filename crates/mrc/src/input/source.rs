//! The bytes of a trace file, decompressed if needed.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use poolwright_base::{cannot, private, regular};

use crate::{Error, Result};

/// The first bytes of a zstd file (RFC 8878, 3.1.1).
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Bytes per read from the file.
const BUFFER: usize = 1 << 18;
/// Bytes from which the format is detected.
const HEAD: u64 = 1 << 12;

/// A trace file that is read once, from beginning to end.
pub(super) struct Source {
    path: PathBuf,
    bytes: Box<dyn BufRead + Send>,
    packed: bool,
    /// Length of the file on disk, in bytes.
    len: u64,
    taken: Arc<AtomicU64>,
    /// Decompressed bytes returned so far.
    given: u64,
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
        let buffered = BufReader::with_capacity(BUFFER, counted);
        let bytes: Box<dyn BufRead + Send> = if packed {
            let decoder = zstd::stream::read::Decoder::with_buffer(buffered).map_err(cannot("read", path))?;
            Box::new(BufReader::with_capacity(BUFFER, decoder))
        } else {
            Box::new(buffered)
        };
        Ok(Source { path: path.to_owned(), bytes, packed, len: stat.len(), taken, given: 0 })
    }

    /// The first bytes of the file, decompressed; they will be returned again.
    pub fn head(&mut self) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        self.next(&mut head, |bytes, head| bytes.take(HEAD).read_to_end(head))?;
        self.given = 0;
        let rest = std::mem::replace(&mut self.bytes, Box::new(std::io::empty()));
        self.bytes = Box::new(Cursor::new(head.clone()).chain(rest));
        Ok(head)
    }

    /// Replaces the contents of `line` by the next line and its line break, or by the first `max` bytes of a longer one;
    /// nothing at the end of the file.
    pub fn line(&mut self, max: u64, line: &mut Vec<u8>) -> Result<()> {
        self.next(line, |bytes, line| bytes.take(max).read_until(b'\n', line))
    }

    /// Replaces the contents of `block` by the next `len` bytes; fewer at the end of the file.
    pub fn block(&mut self, len: u64, block: &mut Vec<u8>) -> Result<()> {
        self.next(block, |bytes, block| bytes.take(len).read_to_end(block))
    }

    fn next(
        &mut self,
        buffer: &mut Vec<u8>,
        read: impl FnOnce(&mut dyn BufRead, &mut Vec<u8>) -> std::io::Result<usize>,
    ) -> Result<()> {
        buffer.clear();
        let done = read(&mut *self.bytes, buffer);
        self.given += buffer.len() as u64;
        done.map(drop).map_err(|error| self.failed(error))
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
