//! Turns extents into accesses to numbered records of one recordsize.

use crate::input::{CHUNK, Skipped, Unit};
use crate::record_map::{Cut, INDEX_BITS, Touched};
use crate::{Access, Extent, Intern, Key, Kind, RecordMap, Result};

/// Returns the bytes that a record takes in the cache, given its file, its index in it (or an object's id) and its
/// logical bytes.
pub type Sizes = Box<dyn Fn(u32, u64, u32) -> u32 + Send + Sync>;

/// The [`RecordMap`] and the [`Intern`] of one recordsize: all models that receive its accesses have the same record
/// numbers.
pub struct RecordStream {
    record_map: RecordMap,
    intern: Intern,
    sizes: Option<Sizes>,
    skipped: Skipped,
    /// Extents of the current chunk that were split.
    done: usize,
    requests: u64,
    chunk: Vec<Access>,
    /// Keys of the accesses at the end of the chunk that have no number yet.
    unnumbered: Vec<Key>,
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
            intern: Intern::default(),
            sizes: None,
            skipped: Skipped::default(),
            done: 0,
            requests: 0,
            chunk: Vec::with_capacity(CHUNK),
            unnumbered: Vec::with_capacity(CHUNK),
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

    /// Different records so far.
    pub fn records(&self) -> u64 {
        self.intern.keys().len() as u64
    }

    /// The keys of the records so far, by their numbers.
    pub fn keys(&self) -> &[Key] {
        self.intern.keys()
    }

    /// The accesses that the last call of [`RecordStream::cut`] made.
    pub fn accesses(&self) -> &[Access] {
        &self.chunk
    }

    /// Events that were skipped because keys cannot represent them at this recordsize.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    /// Bytes of memory used by the records and the chunk.
    pub fn memory(&self) -> usize {
        self.intern.memory()
            + self.chunk.capacity() * size_of::<Access>()
            + self.unnumbered.capacity() * size_of::<Key>()
    }

    /// Replaces the accesses by the next ones of `extents`, about [`CHUNK`] of them. Returns true while some of the
    /// extents are left: call it again with the same extents.
    ///
    /// # Errors
    /// [`Error::TooManyRecords`](crate::Error::TooManyRecords) if the trace has too many different records.
    pub fn cut(&mut self, extents: &[Extent]) -> Result<bool> {
        self.chunk.clear();
        while self.done < extents.len() {
            if self.chunk.len() >= CHUNK {
                self.number()?;
                return Ok(true);
            }
            let extent = &extents[self.done];
            self.done += 1;
            self.take(extent)?;
        }
        self.done = 0;
        self.number()?;
        Ok(false)
    }

    fn number(&mut self) -> Result<()> {
        let first = self.chunk.len() - self.unnumbered.len();
        let mut accesses = self.chunk[first..].iter_mut();
        self.intern.number_all(&self.unnumbered, |number| {
            if let Some(access) = accesses.next() {
                access.record = number;
            }
        })?;
        self.unnumbered.clear();
        Ok(())
    }

    fn take(&mut self, extent: &Extent) -> Result<()> {
        let RecordStream { record_map, sizes, requests, chunk, unnumbered, .. } = self;
        let t_ms = u32::try_from(extent.t_ns / 1_000_000).unwrap_or(u32::MAX);
        let touched = record_map.split(extent, |cut| {
            *requests += 1;
            let bytes = cached_bytes(sizes.as_ref(), extent.file, cut);
            chunk.push(Access { record: 0, bytes, t_ms, kind: cut.kind });
            unnumbered.push(cut.key);
        });
        match touched {
            Touched::Freed(first, last) => self.free(first, last, t_ms)?,
            Touched::TooFar => self.skipped.too_far += 1,
            Touched::Records | Touched::Nothing => {}
        }
        Ok(())
    }

    fn free(&mut self, first: Key, last: Key, t_ms: u32) -> Result<()> {
        self.number()?;
        let gone = |record| Access { record, bytes: 0, t_ms, kind: Kind::Free };
        self.chunk.extend(self.intern.range(first, last).into_iter().map(gone));
        Ok(())
    }
}

/// Bytes that the record of `cut` takes in the cache. The index of an object is its id.
pub(crate) fn cached_bytes(sizes: Option<&Sizes>, file: u32, cut: Cut) -> u32 {
    sizes.map_or(cut.bytes, |sizes| sizes(file, cut.key ^ (u64::from(file) << INDEX_BITS), cut.bytes))
}

#[cfg(test)]
mod tests;
