//! Turns extents into accesses to numbered records of one recordsize.

use crate::access::key;
use crate::input::{CHUNK, Unit};
use crate::record_map::{Cut, Touched};
use crate::{Access, Extent, Intern, Key, Kind, RecordMap, Result};

/// Returns the bytes that a record takes in the cache, given its file, its index in it (or an object's id) and its
/// logical bytes.
pub type Sizes = Box<dyn Fn(u32, u64, u32) -> u32 + Send + Sync>;

/// Numbers the records of a chunk of accesses, many at a time.
#[derive(Debug, Default)]
pub(crate) struct Numbering {
    intern: Intern,
    chunk: Vec<Access>,
    /// Keys of the accesses at the end of the chunk that have no number yet.
    unnumbered: Vec<Key>,
}

impl Numbering {
    /// Adds an access to the record of `key`; [`Numbering::number`] sets its number.
    pub fn push(&mut self, key: Key, access: Access) {
        self.chunk.push(access);
        self.unnumbered.push(key);
    }

    /// Adds a `Free` of each known record from `first` to `last`.
    pub fn free(&mut self, first: Key, last: Key, t_ms: u32) -> Result<()> {
        self.number()?;
        let gone = |record| Access { record, bytes: 0, t_ms, kind: Kind::Free };
        self.chunk.extend(self.intern.range(first, last).into_iter().map(gone));
        Ok(())
    }

    /// Gives every access of the chunk the number of its record.
    pub fn number(&mut self) -> Result<()> {
        let first = self.chunk.len() - self.unnumbered.len();
        for (access, key) in self.chunk[first..].iter_mut().zip(&self.unnumbered) {
            access.record = self.intern.number(*key)?;
        }
        self.unnumbered.clear();
        Ok(())
    }

    /// Starts the next chunk.
    pub fn clear(&mut self) {
        self.chunk.clear();
        self.unnumbered.clear();
    }

    /// The accesses of the chunk.
    pub fn accesses(&self) -> &[Access] {
        &self.chunk
    }

    /// The keys of the records so far, by their numbers.
    pub fn keys(&self) -> &[Key] {
        self.intern.keys()
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.intern.memory()
            + self.chunk.capacity() * size_of::<Access>()
            + self.unnumbered.capacity() * size_of::<Key>()
    }
}

/// Turns extents into accesses to all records, without models.
pub struct RecordStream {
    record_map: RecordMap,
    sizes: Option<Sizes>,
    records: Numbering,
    too_far: u64,
    requests: u64,
}

impl RecordStream {
    /// For the extents of an input with this unit, in records of `recordsize` bytes, or of the input's recordsize if
    /// `None`.
    ///
    /// # Errors
    /// [`Error::Recordsize`](crate::Error::Recordsize) if the recordsize is invalid.
    pub fn new(unit: Unit, recordsize: Option<u64>) -> Result<RecordStream> {
        Ok(RecordStream {
            record_map: RecordMap::of(unit, recordsize)?,
            sizes: None,
            records: Numbering::default(),
            too_far: 0,
            requests: 0,
        })
    }

    /// Sets the sizes of records in the cache; `None` for the logical sizes.
    pub fn with_sizes(self, sizes: Option<Sizes>) -> RecordStream {
        RecordStream { sizes, ..self }
    }

    /// Bytes of a record; `None` for objects.
    pub fn recordsize(&self) -> Option<u64> {
        self.record_map.recordsize()
    }

    /// Accesses to records so far, without frees.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// The keys of the records so far, by their numbers.
    pub fn keys(&self) -> &[Key] {
        self.records.keys()
    }

    /// The number of events that were skipped because keys cannot represent them at this recordsize.
    pub fn too_far(&self) -> u64 {
        self.too_far
    }

    /// Passes the accesses of `extents` to `see`, about [`CHUNK`] at a time, with the keys of all records so far.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if the trace has too many different records; an error of
    /// `see`.
    pub fn each(
        &mut self,
        extents: &[Extent],
        mut see: impl FnMut(&[Access], &[Key]) -> Result<()>,
    ) -> Result<()> {
        for (n, extent) in extents.iter().enumerate() {
            self.take(extent)?;
            if self.records.accesses().len() >= CHUNK || n + 1 == extents.len() {
                self.records.number()?;
                see(self.records.accesses(), self.records.keys())?;
                self.records.clear();
            }
        }
        Ok(())
    }

    fn take(&mut self, extent: &Extent) -> Result<()> {
        let RecordStream { record_map, sizes, requests, records, .. } = self;
        let touched = record_map.split(extent, |cut| {
            *requests += 1;
            records.push(cut.key, access(sizes.as_ref(), extent, cut));
        });
        match touched {
            Touched::Freed(first, last) => self.records.free(first, last, extent.t_ms())?,
            Touched::TooFar => self.too_far += 1,
            Touched::Records | Touched::Nothing => {}
        }
        Ok(())
    }
}

/// The access to the record of `cut`, which has no number yet.
pub(crate) fn access(sizes: Option<&Sizes>, extent: &Extent, cut: Cut) -> Access {
    // The index of an object is its id.
    let index = cut.key ^ key(extent.file.into(), 0);
    let bytes = sizes.map_or(cut.bytes, |sizes| sizes(extent.file, index, cut.bytes));
    Access { record: 0, bytes, t_ms: extent.t_ms(), kind: cut.kind }
}

#[cfg(test)]
mod tests;
