//! oracleGeneral, the traces of libCacheSim (<https://github.com/1a1a11a/libCacheSim>). Each request is a packed
//! little-endian record of 24 bytes: u32 seconds, u64 object, u32 size, i64 number of the next request for the object
//! (not used here). Reads and writes are not distinguished, and objects have no position in a file.

use std::path::Path;

use zerocopy::FromBytes;
use zerocopy::little_endian::{I64, U32, U64};

use super::source::{Source, malformed};
use super::{CHUNK, Input, LONGEST, Skipped, Unit};
use crate::{Extent, Kind, Result};

/// Bytes of a request.
const RECORD: usize = 24;
/// Bytes that are checked for text.
const HEAD: usize = 240;

/// A request.
#[derive(FromBytes)]
#[repr(C)]
struct Request {
    seconds: U32,
    object: U64,
    size: U32,
    next: I64,
}

/// An oracleGeneral file being read.
pub(super) struct Oracle {
    source: Source,
    buffer: Vec<u8>,
    records: u64,
    /// Times of the first and of the latest request, in seconds.
    first_s: Option<u32>,
    last_s: u32,
    skipped: Skipped,
}

impl Oracle {
    /// # Errors
    /// [`Error::Malformed`](crate::Error::Malformed) if the file ends within a record.
    pub(super) fn new(source: Source) -> Result<Oracle> {
        let left = source.len() % RECORD as u64;
        if !source.is_packed() && left != 0 {
            return Err(torn(source.path(), source.len() / RECORD as u64, left as usize));
        }
        let skipped = Skipped::default();
        Ok(Oracle { source, buffer: Vec::new(), records: 0, first_s: None, last_s: 0, skipped })
    }

    fn take(&mut self, record: &[u8; RECORD]) -> Option<Extent> {
        let Request { seconds, object, size, .. } = zerocopy::transmute!(*record);
        let (seconds, size) = (seconds.get(), u64::from(size.get()));
        if size == 0 || size > LONGEST {
            let skipped = &mut self.skipped;
            *(if size == 0 { &mut skipped.zero_length } else { &mut skipped.too_long }) += 1;
            return None;
        }
        let first = *self.first_s.get_or_insert(seconds);
        self.skipped.unsorted += u64::from(seconds < self.last_s);
        self.last_s = self.last_s.max(seconds);
        let t_ns = u64::from(self.last_s - first) * 1_000_000_000;
        Some(Extent { t_ns, file: 0, offset: object.get(), len: size, kind: Kind::Read })
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
            self.source.block((CHUNK * RECORD) as u64, &mut buffer)?;
            if self.records == 0 && is_text(&buffer) {
                let why =
                    "this is a text file: expected records of 24 bytes (time, object, size, next access)";
                return Err(malformed(self.source.path(), "record 1 (byte 0)", why));
            }
            let (whole, rest) = buffer.as_chunks::<RECORD>();
            extents.extend(whole.iter().filter_map(|record| self.take(record)));
            self.records += whole.len() as u64;
            if !rest.is_empty() {
                return Err(torn(self.source.path(), self.records, rest.len()));
            }
            self.buffer = buffer;
            if self.buffer.is_empty() {
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
        let Request { seconds, size, next, .. } = zerocopy::transmute!(*record);
        let is_sorted = seconds.get() >= last_s;
        last_s = seconds.get();
        is_sorted && (1..=LONGEST).contains(&size.get().into()) && (next == -1 || next > number as i64)
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
