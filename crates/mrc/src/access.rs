//! What a cache is asked for: a extent of a file as the trace has it, and an access to one record as a model sees it.

/// What an access does to its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Read by the database.
    Read,
    /// The whole record written: nothing has to be read first.
    Write,
    /// A part of the record written: the rest has to be read first if it is not in the cache.
    Update,
    /// Freed (truncated, punched, unlinked): leaves the cache, and is no request.
    Free,
}

impl Kind {
    /// Whether the access needs the record's content, so that it misses if the record is not cached.
    pub fn needs_content(self) -> bool {
        matches!(self, Kind::Read | Kind::Update)
    }
}

/// No byte of a file lies at or beyond this; a `Free` that reaches it says where the file ends from now on.
pub const END: u64 = 1 << 60;

/// A run of bytes of one file, as an input yields it: before a recordsize is chosen.
///
/// An object of a trace that knows no offsets is a extent of file 0: its id stands in `offset`, its size in `len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Nanoseconds since the start of the trace; 0 throughout where the source has no time.
    pub t_ns: u64,
    /// Number of the file in its source; 0 where there is one address space.
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes; at least 1.
    pub len: u64,
    /// `Read`, `Write` (of these bytes, whatever part of a record that is) or `Free`. A `Free` up to [`END`] also tells a
    /// file's length, when it is opened as when it is truncated.
    pub kind: Kind,
}

/// Name of a record within one run: for a file's record `file << 40 | index`, for an object its id.
pub type Key = u64;

/// An access to one record. 16 bytes, as every model reads all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Dense number of the record, from 0 in the order of first access ([`crate::Intern`]).
    pub record: u32,
    /// Bytes that the record takes in the cache: compressed, if it is compressed.
    pub bytes: u32,
    /// Milliseconds since the start of the trace.
    pub t_ms: u32,
    /// What is done to it.
    pub kind: Kind,
}
