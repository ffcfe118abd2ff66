//! Requests to a cache: an extent of a file as in the trace, and an access to one record as a model receives it.

/// The effect of an access on its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Reads the record.
    Read,
    /// Writes the whole record, so no read is needed.
    Write,
    /// Writes a part of the record. The rest must be read first if it is not in the cache.
    Update,
    /// Frees the record (truncate, punch, unlink): it leaves the cache. Not a request.
    Free,
}

impl Kind {
    /// Whether the access needs the content of the record: then it reads from the device if the record is not cached.
    pub fn needs_content(self) -> bool {
        matches!(self, Kind::Read | Kind::Update)
    }
}

/// Files have no byte at or beyond this offset. A `Free` up to here sets the end of the file.
pub const END: u64 = 1 << 60;

/// A range of bytes of one file, as an input yields it, before a recordsize is chosen.
///
/// An object of a trace without offsets is an extent of file 0, with its id in `offset` and its size in `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Nanoseconds since the start of the trace; always 0 if the source has no times.
    pub t_ns: u64,
    /// Number of the file in its source; 0 if there is one address space.
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes; at least 1.
    pub len: u64,
    /// `Read`, `Write` (of these bytes, which may be a part of a record) or `Free`. A `Free` up to [`END`] also sets
    /// the file's length, when the file is opened as well as when it is truncated.
    pub kind: Kind,
}

impl Extent {
    /// Milliseconds since the start of the trace.
    pub fn t_ms(&self) -> u32 {
        u32::try_from(self.t_ns / 1_000_000).unwrap_or(u32::MAX)
    }
}

/// Identifies a record within one run: [`key`] for a record of a file, the id for an object.
pub type Key = u64;

/// Bits of a key for the index of the record in its file.
pub(crate) const INDEX_BITS: u32 = 40;

/// The key of a record of a file.
pub(crate) fn key(file: u64, index: u64) -> Key {
    file << INDEX_BITS | index
}

/// The file of a key.
pub(crate) fn file_of(key: Key) -> u64 {
    key >> INDEX_BITS
}

/// The index of a key's record in its file.
pub(crate) fn index_of(key: Key) -> u64 {
    key & ((1 << INDEX_BITS) - 1)
}

/// An access to one record. It has only 16 bytes, because every model reads all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Dense number of the record, from 0 in the order of first access ([`crate::Intern`]).
    pub record: u32,
    /// Bytes that the record takes in the cache, after compression.
    pub bytes: u32,
    /// Milliseconds since the start of the trace.
    pub t_ms: u32,
    /// The operation.
    pub kind: Kind,
}
