//! oracleGeneral, the traces of libCacheSim (<https://github.com/1a1a11a/libCacheSim>). Each request is a packed
//! little-endian record of 24 bytes: u32 seconds, u64 object, u32 size, i64 number of the next request for the object
//! (not used here). Reads and writes are not distinguished, and objects have no position in a file.

use std::path::Path;

use super::source::{Source, malformed};
use super::{CHUNK, Input, LONGEST, Skipped, Unit};
use crate::{Extent, Kind, Result};

/// Bytes of a request.
const RECORD: usize = 24;
/// Bytes that are checked for text.
const HEAD: usize = 240;

/// An oracleGeneral file being read.
pub struct Oracle {
    source: Source,
    buffer: Vec<u8>,
    records: u64,
    /// Times of the first and of the latest request, in seconds.
    first_s: Option<u32>,
    last_s: u32,
    skipped: Skipped,
}

impl Oracle {
    /// Opens a file, plain or compressed by zstd.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) if the file cannot be opened; [`Error::Malformed`](crate::Error::Malformed) if it ends
    /// within a record.
    pub fn open(path: &Path) -> Result<Oracle> {
        Source::open(path).and_then(Oracle::new)
    }

    pub(super) fn new(source: Source) -> Result<Oracle> {
        let left = source.len() % RECORD as u64;
        if !source.is_packed() && left != 0 {
            return Err(torn(source.path(), source.len() / RECORD as u64, left as usize));
        }
        let buffer = vec![0; CHUNK * RECORD];
        Ok(Oracle { source, buffer, records: 0, first_s: None, last_s: 0, skipped: Skipped::default() })
    }

    fn take(&mut self, record: &[u8; RECORD]) -> Option<Extent> {
        let seconds = u32::from_le_bytes(record[..4].try_into().expect("4 of 24 bytes"));
        let object = u64::from_le_bytes(record[4..12].try_into().expect("8 of 24 bytes"));
        let size = u64::from(u32::from_le_bytes(record[12..16].try_into().expect("4 of 24 bytes")));
        if size == 0 || size > LONGEST {
            let skipped = &mut self.skipped;
            *(if size == 0 { &mut skipped.zero_length } else { &mut skipped.too_long }) += 1;
            return None;
        }
        let first = *self.first_s.get_or_insert(seconds);
        self.skipped.unsorted += u64::from(seconds < self.last_s);
        self.last_s = self.last_s.max(seconds);
        let t_ns = u64::from(self.last_s - first) * 1_000_000_000;
        Some(Extent { t_ns, file: 0, offset: object, len: size, kind: Kind::Read })
    }
}

impl Input for Oracle {
    fn format(&self) -> &'static str {
        "oraclegeneral"
    }

    fn unit(&self) -> Unit {
        Unit::Objects
    }

    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()> {
        extents.clear();
        // A chunk without a valid request is not the end.
        while extents.is_empty() {
            let mut buffer = std::mem::take(&mut self.buffer);
            let end = self.source.fill(&mut buffer, 0)?;
            if self.records == 0 && is_text(&buffer[..end]) {
                let why =
                    "this is a text file: expected records of 24 bytes (time, object, size, next access)";
                return Err(malformed(self.source.path(), "record 1 (byte 0)", why));
            }
            let (whole, rest) = buffer[..end].as_chunks::<RECORD>();
            extents.extend(whole.iter().filter_map(|record| self.take(record)));
            self.records += whole.len() as u64;
            let rest = rest.len();
            self.buffer = buffer;
            if rest != 0 {
                return Err(torn(self.source.path(), self.records, rest));
            }
            if end == 0 {
                break;
            }
        }
        Ok(())
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn duration_ns(&self) -> u64 {
        u64::from(self.last_s - self.first_s.unwrap_or(self.last_s)) * 1_000_000_000
    }

    fn progress(&self) -> Option<f64> {
        Some(self.source.progress())
    }
}

/// Whether a file that begins with `head` may be of this format: possible sizes, ascending times, and no next access
/// before the request.
pub(super) fn recognises(head: &[u8]) -> bool {
    let records = head.as_chunks::<RECORD>().0;
    let mut last_s = 0;
    let plausible = |(number, record): (usize, &[u8; RECORD])| {
        let seconds = u32::from_le_bytes(record[..4].try_into().expect("4 of 24 bytes"));
        let size = u32::from_le_bytes(record[12..16].try_into().expect("4 of 24 bytes"));
        let next = i64::from_le_bytes(record[16..].try_into().expect("8 of 24 bytes"));
        let sorted = seconds >= last_s;
        last_s = seconds;
        sorted && size > 0 && u64::from(size) <= LONGEST && (next == -1 || next > number as i64)
    };
    !records.is_empty() && records.iter().enumerate().all(plausible)
}

/// Whether a file that begins with `head` is text.
pub(super) fn is_text(head: &[u8]) -> bool {
    let head = &head[..head.len().min(HEAD)];
    !head.is_empty() && head.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t' | b'\n' | b'\r'))
}

fn torn(path: &Path, records: u64, left: usize) -> crate::Error {
    let location = format!("record {} (byte {})", records + 1, records * RECORD as u64);
    malformed(path, location, format!("truncated after {left} of 24 bytes\nhint: copy the file again"))
}
