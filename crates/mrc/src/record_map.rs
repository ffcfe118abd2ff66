//! From bytes of files to records of one recordsize.
//!
//! What is taken to have been there before a write decides whether the write has to read: below a file's known length
//! everything is there, beyond it nothing. A length is known from the extents that reach [`END`], and from what is
//! read and written later. Where no such extent came (a `.lis` trace), everything was there. A hole in the middle of a file
//! is taken for data.

use crate::input::Unit;
use crate::{END, Extent, Key, Kind, Result};

/// Bits of a key for the record's index in its file.
pub const INDEX_BITS: u32 = 40;
/// Files that can be told apart in a key.
const FILES: u32 = 1 << (64 - INDEX_BITS);
/// The least a block takes (`SPA_MINBLOCKSIZE`).
const SECTOR: u64 = 512;
/// The recordsizes that OpenZFS takes (`zfsprops(7)`).
const RECORDSIZES: std::ops::RangeInclusive<u64> = 512..=16 << 20;

/// One record, as a extent touches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The record.
    pub key: Key,
    /// Its logical size in bytes.
    pub bytes: u32,
    /// What is done to it; never `Free`.
    pub kind: Kind,
}

/// What becomes of a extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Its records were handed over.
    Records,
    /// Those of these keys, both ends included, are gone, as far as they were ever seen.
    Freed(Key, Key),
    /// No record.
    Nothing,
    /// It lies where no key reaches.
    TooFar,
}

/// What is known of a file.
#[derive(Clone, Copy, Debug)]
struct FileState {
    /// Below this there is data.
    data: u64,
    /// The longest it has been: a file that once had more than one block keeps its block size.
    longest: u64,
    /// Above this no record was touched, or was freed since.
    seen: u64,
}

const UNKNOWN: FileState = FileState { data: END, longest: END, seen: 0 };

/// Cuts extents into records.
#[derive(Debug)]
pub struct RecordMap {
    /// `None` where extents are objects.
    shift: Option<u32>,
    files: Vec<FileState>,
}

impl RecordMap {
    /// For extents that are objects.
    pub fn objects() -> RecordMap {
        RecordMap { shift: None, files: Vec::new() }
    }

    /// For records of `recordsize` bytes: a power of two from 512 to 16 MiB.
    pub fn records(recordsize: u64) -> Result<RecordMap> {
        if !recordsize.is_power_of_two() || !RECORDSIZES.contains(&recordsize) {
            return Err(crate::Error::Recordsize(recordsize));
        }
        Ok(RecordMap { shift: Some(recordsize.trailing_zeros()), files: Vec::new() })
    }

    /// For what an input yields, in records of its own size where none is asked for.
    pub fn of(unit: Unit, recordsize: Option<u64>) -> Result<RecordMap> {
        match unit {
            Unit::Objects => Ok(RecordMap::objects()),
            Unit::Bytes { recordsize: own } => RecordMap::records(recordsize.unwrap_or(own)),
        }
    }

    /// Bytes of a record; `None` where extents are objects.
    pub fn recordsize(&self) -> Option<u64> {
        self.shift.map(|shift| 1 << shift)
    }

    /// The file and index that a key names; objects are all of file 0.
    pub fn place(&self, key: Key) -> (u32, u64) {
        match self.shift {
            Some(_) => ((key >> INDEX_BITS) as u32, key & ((1 << INDEX_BITS) - 1)),
            None => (0, key),
        }
    }

    /// Hands over the records of one extent, in the order of their offsets.
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
        let base = u64::from(extent.file) << INDEX_BITS;
        for index in first..=last {
            let bytes = block(after, shift);
            let kind = match extent.kind {
                Kind::Read => Kind::Read,
                _ => written(extent.offset, end, index << shift, before, bytes, shift),
            };
            each(Cut { key: base | index, bytes: bytes as u32, kind });
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
        // A record that is freed in part stays.
        let first = extent.offset.div_ceil(1 << shift);
        let stop = if end >= before.seen { before.seen.div_ceil(1 << shift) } else { end >> shift };
        if first >= stop {
            return Touched::Nothing;
        }
        let base = u64::from(extent.file) << INDEX_BITS;
        Touched::Freed(base | first, base | (stop - 1))
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

/// Size of a file's blocks: the recordsize, or all of a file that fits in one block, rounded up to sectors.
fn block(file: FileState, shift: u32) -> u64 {
    if file.longest > 1 << shift { 1 << shift } else { file.longest.max(1).next_multiple_of(SECTOR) }
}

/// What a write of `[offset, end)` is to the record at `start`: a whole one reads nothing, nor does one where nothing was
/// before. The only block of a file that grows is read to be copied into a larger one (`zfs_grow_blocksize`).
fn written(offset: u64, end: u64, start: u64, before: FileState, bytes: u64, shift: u32) -> Kind {
    let whole = offset <= start && end >= start + bytes && block(before, shift) == bytes;
    if whole || start >= before.data { Kind::Write } else { Kind::Update }
}

#[cfg(test)]
mod tests;
