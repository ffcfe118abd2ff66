//! Splits extents into records of one recordsize.
//!
//! A write must read the record first if only a part of the record is written and there was data before. There is data
//! below the file's known length, and none beyond it. A length is known from extents that reach [`END`], and from later
//! reads and writes. Without such an extent (a `.lis` trace), there was data everywhere. A hole in the middle of a file
//! counts as data.

use poolwright_base::recordsize::is_recordsize;

use crate::access::{INDEX_BITS, key};
use crate::input::Unit;
use crate::{END, Extent, Key, Kind, Result};

/// Number of files that a key can represent.
const FILES: u32 = 1 << (64 - INDEX_BITS);
/// The smallest block in bytes (`SPA_MINBLOCKSIZE`).
const SECTOR: u64 = 512;

/// The part of an extent in one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The record.
    pub key: Key,
    /// Its logical size in bytes.
    pub bytes: u32,
    /// The operation; never `Free`.
    pub kind: Kind,
}

/// The effect of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Its records were passed on.
    Records,
    /// The records of this range of keys, both ends included, are freed, if they exist.
    Freed(Key, Key),
    /// No record is affected.
    Nothing,
    /// The offset is too large for a key.
    TooFar,
}

/// The state of a file.
#[derive(Clone, Copy, Debug)]
struct FileState {
    /// The offset below which there is data.
    data: u64,
    /// The largest length so far: a file that once had more than one block keeps its block size.
    longest: u64,
    /// The offset above which no record was accessed, or all were freed since.
    seen: u64,
}

const UNKNOWN: FileState = FileState { data: END, longest: END, seen: 0 };

/// Splits extents into records.
#[derive(Debug)]
pub struct RecordMap {
    /// `None` if extents are objects.
    shift: Option<u32>,
    files: Vec<FileState>,
}

impl RecordMap {
    /// For extents that are objects.
    pub fn objects() -> RecordMap {
        RecordMap { shift: None, files: Vec::new() }
    }

    /// For records of `recordsize` bytes: a power of two from 512 to 16 MiB.
    ///
    /// # Errors
    /// [`Error::Recordsize`](crate::Error::Recordsize) for any other size.
    pub fn records(recordsize: u64) -> Result<RecordMap> {
        if !is_recordsize(recordsize) {
            return Err(crate::Error::Recordsize(recordsize));
        }
        Ok(RecordMap { shift: Some(recordsize.trailing_zeros()), files: Vec::new() })
    }

    /// For the extents of an input with this unit, in records of `recordsize` bytes, or of the input's recordsize if
    /// `None`.
    ///
    /// # Errors
    /// [`Error::Recordsize`](crate::Error::Recordsize) if the recordsize is invalid.
    pub fn of(unit: Unit, recordsize: Option<u64>) -> Result<RecordMap> {
        match unit {
            Unit::Objects => Ok(RecordMap::objects()),
            Unit::Bytes { recordsize: own } => RecordMap::records(recordsize.unwrap_or(own)),
        }
    }

    /// Bytes of a record; `None` if extents are objects.
    pub fn recordsize(&self) -> Option<u64> {
        self.shift.map(|shift| 1 << shift)
    }

    /// Calls `each` for the records of one extent, in the order of their offsets.
    pub fn split(&mut self, extent: &Extent, mut each: impl FnMut(Cut)) -> Touched {
        let Some(shift) = self.shift else {
            return object(extent, each);
        };
        let end = extent.offset.saturating_add(extent.len);
        if extent.file >= FILES || end > END {
            return Touched::TooFar;
        }
        if extent.kind == Kind::Free {
            return self.free(extent, shift);
        }
        if extent.len == 0 {
            return Touched::Nothing;
        }
        let (first, last) = (extent.offset >> shift, (end - 1) >> shift);
        if last >> INDEX_BITS != 0 {
            return Touched::TooFar;
        }
        let before = self.known(extent.file);
        let after = FileState {
            data: before.data.max(end),
            longest: before.longest.max(end),
            seen: before.seen.max(end),
        };
        self.files[extent.file as usize] = after;
        let file = u64::from(extent.file);
        for index in first..=last {
            let bytes = block(after, shift);
            let kind = match extent.kind {
                Kind::Read => Kind::Read,
                _ => written(extent.offset, end, index << shift, before, bytes, shift),
            };
            each(Cut { key: key(file, index), bytes: bytes as u32, kind });
        }
        Touched::Records
    }

    fn known(&mut self, file: u32) -> FileState {
        let file = file as usize;
        if file >= self.files.len() {
            self.files.resize(file + 1, UNKNOWN);
        }
        self.files[file]
    }

    fn free(&mut self, extent: &Extent, shift: u32) -> Touched {
        let before = self.known(extent.file);
        let end = extent.offset + extent.len;
        if end == END {
            let longest =
                if before.longest == END { extent.offset } else { before.longest.max(extent.offset) };
            let seen = before.seen.min(extent.offset);
            self.files[extent.file as usize] = FileState { data: extent.offset, longest, seen };
        }
        // A record of which only a part is freed stays.
        let first = extent.offset.div_ceil(1 << shift);
        let stop = if end >= before.seen { before.seen.div_ceil(1 << shift) } else { end >> shift };
        if first >= stop {
            return Touched::Nothing;
        }
        let file = u64::from(extent.file);
        Touched::Freed(key(file, first), key(file, stop - 1))
    }
}

fn object(extent: &Extent, mut each: impl FnMut(Cut)) -> Touched {
    match extent.kind {
        Kind::Free => Touched::Freed(extent.offset, extent.offset),
        kind => {
            each(Cut { key: extent.offset, bytes: u32::try_from(extent.len).unwrap_or(u32::MAX), kind });
            Touched::Records
        }
    }
}

/// The block size of a file: the recordsize, or the length rounded up to sectors if the file fits into one block.
fn block(file: FileState, shift: u32) -> u64 {
    if file.longest > 1 << shift { 1 << shift } else { file.longest.max(1).next_multiple_of(SECTOR) }
}

/// The kind of a write of `[offset, end)` for the record at `start`. A whole write reads nothing, nor does a write
/// where there was no data. If the only block of a file grows, it is read and copied into a larger one
/// (`zfs_grow_blocksize`).
fn written(offset: u64, end: u64, start: u64, before: FileState, bytes: u64, shift: u32) -> Kind {
    let whole = offset <= start && end >= start + bytes && block(before, shift) == bytes;
    if whole || start >= before.data { Kind::Write } else { Kind::Update }
}

#[cfg(test)]
mod tests;
