//! Locked byte ranges of files.

use poolwright_trace::{Event, Flags};

/// A byte range, and whether it is locked for reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LockRange {
    pub offset: u64,
    /// Length in bytes; 0 means to the end of the file.
    pub len: u64,
    pub shared: bool,
}

impl LockRange {
    pub fn of(event: &Event) -> LockRange {
        LockRange { offset: event.offset, len: event.len, shared: event.flags.contains(Flags::SHARED) }
    }

    fn end(&self) -> u64 {
        if self.len == 0 { u64::MAX } else { self.offset.saturating_add(self.len) }
    }

    pub fn overlaps(&self, other: &LockRange) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    pub fn conflicts(&self, other: &LockRange) -> bool {
        self.overlaps(other) && !(self.shared && other.shared)
    }
}
