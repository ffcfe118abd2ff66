//! Divisions of memory between a database's own cache and the ARC below it.
//!
//! The trace must have the requests to the database's own cache. Each division models both caches: an LRU of pages, and
//! below it a model of the ARC. The ARC receives a read of the record of every page that misses in the buffer pool, and
//! a write of every dirty page that the buffer pool evicts. The same page may be in both caches, so an even division gains less than the
//! sum of its parts.
//!
//! Not modelled: checkpoints (a dirty page is written when it is evicted, so the ARC sees fewer writes than in
//! reality), the database's read-ahead, and caches other than LRU.

use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Access, Key, Kind, file_of, index_of, key};
use crate::curve::Counts;
use crate::{Error, Intern, Model, Result};

mod buffer_pool;
use buffer_pool::BufferPool;

/// The memory to divide, and the sizes of pages and records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of both caches together.
    pub total_bytes: u64,
    /// Number of divisions, from all for the ARC to all for the database; at least 2.
    pub divisions: u32,
    /// The smallest ARC in bytes. Divisions with a smaller one are left out, except for the one without an ARC.
    pub least_arc_bytes: u64,
    /// Bytes of a page, a power of two; `None` for a trace of objects, each of which is its own record.
    pub page_bytes: Option<u64>,
    /// The recordsize of the dataset in bytes, a power of two that is at least a page.
    pub recordsize: u64,
    /// Bytes of a record in the ARC: the recordsize, or less if it is compressed.
    pub record_bytes: u32,
}

/// The counts of one division.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// Bytes of the database's own cache.
    pub database_bytes: u64,
    /// Bytes of the ARC.
    pub arc_bytes: u64,
    /// Requests to the database's cache.
    pub requests: u64,
    /// Pages that the database's cache read because it did not have them.
    pub database_reads: u64,
    /// Dirty pages that the database's cache evicted.
    pub write_backs: u64,
    /// Dirty pages in the database's cache at the end.
    pub dirty_at_end: u64,
    /// Reads of records from the device.
    pub device_reads: u64,
}

/// All divisions of one amount of memory.
pub struct Partition {
    divisions: Vec<Division>,
}

struct Division {
    buffer_pool: BufferPool,
    arc: Box<dyn Model>,
    records: Intern,
    /// Shift from the index of a page to that of its record.
    shift: u32,
    /// Bytes of a record; `None` if it has the size of the page or object.
    record_bytes: Option<u32>,
    below: Vec<Access>,
    /// The sizes of the caches, and the counts of the requests to them.
    share: Share,
}

impl Partition {
    /// The divisions of `shape`. `arc` makes the model of an ARC of the given bytes.
    ///
    /// # Errors
    /// [`Error::SmallRecords`](crate::Error::SmallRecords) if a page does not lie in one record.
    pub fn new(shape: &Shape, arc: impl Fn(u64) -> Box<dyn Model>) -> Result<Partition> {
        let shift = match shape.page_bytes {
            None => 0,
            Some(page) if page.is_power_of_two() && shape.recordsize.is_power_of_two() => {
                let records = shape.recordsize / page;
                records.checked_ilog2().ok_or(Error::SmallRecords { page, recordsize: shape.recordsize })?
            }
            Some(page) => return Err(Error::SmallRecords { page, recordsize: shape.recordsize }),
        };
        let parts = u64::from(shape.divisions.max(2) - 1);
        let division = |i: u64| {
            let database_bytes = (u128::from(shape.total_bytes) * u128::from(i) / u128::from(parts)) as u64;
            let arc_bytes = shape.total_bytes - database_bytes;
            (arc_bytes == 0 || arc_bytes >= shape.least_arc_bytes).then(|| Division {
                buffer_pool: BufferPool::new(database_bytes),
                arc: arc(arc_bytes),
                records: Intern::default(),
                shift,
                record_bytes: shape.page_bytes.map(|_| shape.record_bytes),
                below: Vec::new(),
                share: Share { database_bytes, arc_bytes, ..Share::default() },
            })
        };
        Ok(Partition { divisions: (0..=parts).filter_map(division).collect() })
    }

    /// Processes accesses to pages, as [`Model::feed`] does.
    pub fn feed(&mut self, chunk: &[Access], keys: &[Key]) {
        self.divisions.par_iter_mut().for_each(|division| division.feed(chunk, keys));
    }

    /// The counts of each division so far, in ascending order of the database's cache.
    pub fn shares(&self) -> Vec<Share> {
        self.divisions.iter().map(Division::share).collect()
    }
}

/// Divisions whose reads differ by less than this share are considered equal.
const AS_GOOD: f64 = 0.02;

/// The best division: of those whose device reads are within 2 % of the minimum, the one with the largest database
/// cache, because a hit there needs no system call, copy or decompression.
pub fn best(shares: &[Share]) -> Option<Share> {
    let fewest = shares.iter().map(|s| s.device_reads).min()?;
    let limit = (fewest as f64 * (1.0 + AS_GOOD)) as u64;
    shares.iter().copied().filter(|s| s.device_reads <= limit).max_by_key(|s| s.database_bytes)
}

impl Division {
    fn share(&self) -> Share {
        Share {
            dirty_at_end: self.buffer_pool.dirty(),
            device_reads: self.arc.counts().iter().map(Counts::device_reads).sum(),
            ..self.share
        }
    }

    fn feed(&mut self, chunk: &[Access], keys: &[Key]) {
        for access in chunk {
            self.request(access, keys);
        }
        self.arc.feed(&self.below, self.records.keys());
        self.below.clear();
    }

    fn request(&mut self, access: &Access, keys: &[Key]) {
        if access.kind == Kind::Free {
            self.buffer_pool.remove(access.record);
            // Other pages of the same record may still be in use.
            if self.shift == 0 {
                self.ask(access, Kind::Free, keys);
            }
            return;
        }
        self.share.requests += 1;
        let writes = access.kind != Kind::Read;
        if !self.buffer_pool.touch(access.record, writes) {
            if access.kind.needs_content() {
                self.share.database_reads += 1;
                self.ask(access, Kind::Read, keys);
            }
            self.insert(access, writes, keys);
        }
    }

    fn insert(&mut self, access: &Access, dirty: bool, keys: &[Key]) {
        if !self.buffer_pool.insert(access.record, access.bytes, dirty) {
            // The page is larger than the whole cache, so it is not cached.
            if dirty {
                self.write_back(access, keys);
            }
            return;
        }
        while let Some((record, bytes, dirty)) = self.buffer_pool.overflow() {
            if dirty {
                self.write_back(&Access { record, bytes, ..*access }, keys);
            }
        }
    }

    fn write_back(&mut self, access: &Access, keys: &[Key]) {
        self.share.write_backs += 1;
        let kind = if self.shift == 0 { Kind::Write } else { Kind::Update };
        self.ask(access, kind, keys);
    }

    fn ask(&mut self, page: &Access, kind: Kind, keys: &[Key]) {
        let key = record_of(keys[page.record as usize], self.shift);
        // There are at most as many records as pages, and all pages have numbers.
        let Ok(record) = self.records.number(key) else { return };
        let bytes = self.record_bytes.unwrap_or(page.bytes);
        self.below.push(Access { record, bytes, kind, t_ms: page.t_ms });
    }
}

/// The key of the record that a page lies in.
fn record_of(page: Key, shift: u32) -> Key {
    if shift == 0 { page } else { key(file_of(page), index_of(page) >> shift) }
}

#[cfg(test)]
mod tests;
