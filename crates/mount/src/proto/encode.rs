//! Encoding of answers.

use zerocopy::{Immutable, IntoBytes};

use super::wire::{Dirent, EntryOut};

/// Writes a structure to the start of `out` and returns its length; `None` if it does not fit.
pub fn put<T: IntoBytes + Immutable>(out: &mut [u8], value: &T) -> Option<usize> {
    let bytes = value.as_bytes();
    out.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(bytes.len())
}

/// A directory listing in a buffer of limited size.
pub struct Dirents<'a> {
    out: &'a mut [u8],
    used: usize,
}

impl<'a> Dirents<'a> {
    /// An empty listing of at most `out.len()` bytes.
    pub fn new(out: &'a mut [u8]) -> Dirents<'a> {
        Dirents { out, used: 0 }
    }

    /// Bytes filled.
    pub fn used(&self) -> usize {
        self.used
    }

    /// Size of the buffer in bytes.
    pub fn room(&self) -> usize {
        self.out.len()
    }

    /// Bytes that an entry with a name of this length takes.
    pub fn length(name: usize, plus: bool) -> usize {
        let head = size_of::<Dirent>() + if plus { size_of::<EntryOut>() } else { 0 };
        (head + name).next_multiple_of(8)
    }

    /// Adds an entry, with `plus` for READDIRPLUS. Returns false if the entry does not fit; nothing is added then.
    pub fn push(&mut self, name: &[u8], ino: u64, kind: u8, next: u64, plus: Option<&EntryOut>) -> bool {
        let len = Self::length(name.len(), plus.is_some());
        let Some(room) = self.out.get_mut(self.used..self.used + len) else { return false };
        let head = plus.map_or(Some(0), |entry| put(room, entry));
        let dirent = Dirent { ino, off: next, namelen: name.len() as u32, kind: u32::from(kind) };
        let Some(at) = head.and_then(|head| Some(head + put(&mut room[head..], &dirent)?)) else {
            return false;
        };
        let (text, padding) = room[at..].split_at_mut(name.len());
        text.copy_from_slice(name);
        padding.fill(0);
        self.used += len;
        true
    }
}
