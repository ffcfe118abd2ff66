//! OpenZFS's ARC since 2.2, which differs from the textbook's.
//!
//! A read takes the same path as in the engine: a [`dbuf`](dbuf::Dbufs) for the record and the dbufs of its indirect
//! blocks, then the [`Arc`](arc::Arc) with its states, ghosts, balance and eviction. `docs/arc.md` explains what is
//! modelled, and compares the model with the engine.

mod arc;
mod block;
mod dbuf;
mod evict;
mod l2;
mod options;
mod prefetch;
mod sum;
#[cfg(test)]
mod tests;

pub use options::{GRAIN, MIN_SAMPLED, Options, PrimaryCache, Structures};

use crate::access::{self, file_of, index_of};
use crate::list::NONE;
use crate::{Access, Counts, Intern, Key, Kind, Model};
use arc::Arc;
use block::{Block, DIRTY, HELD, META, SECOND};
use dbuf::Dbufs;
use l2::Second;
use prefetch::Streams;
use std::collections::HashMap;

/// Pointers in an indirect block, as a power of two: 128K of 128 bytes each.
const POINTERS: u32 = 10;

/// Interval in milliseconds at which prefetched blocks that are not to be kept are evicted: half of their minimum
/// lifetime.
const FLUSH_MS: u32 = 500;

/// How often dirty data is synced, in milliseconds (`zfs_txg_timeout`).
const TXG_MS: u32 = 5000;

/// A model of an ARC of one size.
#[derive(Debug)]
pub struct OpenZfs {
    arc: Arc,
    dbufs: Dbufs,
    /// Number of records of each file, if known.
    lengths: HashMap<u64, u64>,
    /// Indirect blocks by level and key.
    indirect: HashMap<(u8, Key), u32>,
    dirty: Dirty,
    ahead: Option<ReadAhead>,
    second: Second,
    flushed_ms: u32,
    counts: Counts,
    metadata_misses: u64,
    second_hits: u64,
    record_loads: u64,
}

/// State of the prefetcher. Records that were not accessed yet have blocks too, so blocks have their own numbers.
#[derive(Debug, Default)]
struct ReadAhead {
    names: Intern,
    files: HashMap<u64, OneFile>,
    /// Moving average of the compressed sizes of recent records in bytes, as the size of records that were not accessed
    /// yet.
    bytes: i64,
}

#[derive(Debug, Default)]
struct OneFile {
    streams: Streams,
    /// Its last record, as far as known.
    last: u64,
}

/// The open transaction group.
#[derive(Debug, Default)]
struct Dirty {
    records: Vec<u32>,
    bytes: u64,
    /// Bytes written, counting rewritten records each time.
    written: u64,
    /// When the previous group was closed.
    since_ms: u32,
}

impl OpenZfs {
    /// An empty ARC.
    pub fn new(options: Options) -> OpenZfs {
        OpenZfs {
            arc: Arc::new(options),
            // `dbuf_cache_shift`: a thirty-second of the ARC.
            dbufs: Dbufs::new(options.cache_bytes >> 5),
            lengths: HashMap::new(),
            indirect: HashMap::new(),
            dirty: Dirty::default(),
            ahead: (options.prefetch && options.offsets).then(ReadAhead::default),
            second: Second::new(options.l2arc_bytes),
            flushed_ms: 0,
            counts: Counts { cache_bytes: options.cache_bytes, ..Counts::default() },
            metadata_misses: 0,
            second_hits: 0,
            record_loads: 0,
        }
    }

    /// Reads of indirect blocks so far; they are not requests.
    pub fn metadata_misses(&self) -> u64 {
        self.metadata_misses
    }

    /// Records that a read loaded into a dbuf, from the ARC or from the device. A compressed record is decompressed
    /// each time.
    pub fn record_loads(&self) -> u64 {
        self.record_loads
    }

    /// Misses that the L2ARC answered.
    pub fn l2arc_hits(&self) -> u64 {
        self.second_hits
    }

    /// The state of the ARC, to compare with the engine's `arcstats`.
    pub fn state(&self) -> String {
        let arc = &self.arc;
        let mb = |bytes: i64| format!("{:.1}", bytes as f64 / 1048576.0);
        let [mru, mfu, mru_ghost, mfu_ghost, uncached, anon] =
            arc.size.map(|[data, meta]| format!("{}+{}", mb(data), mb(meta)));
        let share = |x: u64| x as f64 / (1u64 << 32) as f64;
        format!(
            "used {} (most {}) mru {mru} mfu {mfu} ghosts {mru_ghost} {mfu_ghost} uncached {uncached} anon {anon} meta {:.3} pd {:.3} pm {:.3} rounds {}",
            mb(arc.used.value()),
            mb(arc.largest),
            share(arc.balance.meta),
            share(arc.balance.data_mru),
            share(arc.balance.meta_mru),
            arc.evictions,
        )
    }

    /// Sets the length of a file in records. The prefetcher stops at the end of the file. Without a known length that
    /// is the last record accessed so far.
    pub fn set_file_records(&mut self, file: u32, records: u64) {
        self.lengths.insert(file.into(), records);
        if let Some(ahead) = &mut self.ahead {
            ahead.files.entry(file.into()).or_default().last = records.saturating_sub(1);
        }
    }

    /// The block of the accessed record.
    fn block(&mut self, access: &Access, key: Key) -> u32 {
        let Some(ahead) = &mut self.ahead else {
            if access.record as usize == self.arc.blocks.records.len() {
                self.add(key, access.bytes);
            }
            return access.record;
        };
        ahead.bytes += (i64::from(access.bytes) - ahead.bytes) / 64;
        let file = ahead.files.entry(file_of(key)).or_default();
        file.last = file.last.max(index_of(key));
        self.named(key, access.bytes)
    }

    /// The block of a record by its key, created if there is none.
    fn named(&mut self, key: Key, bytes: u32) -> u32 {
        let Some(Ok(id)) = self.ahead.as_mut().map(|ahead| ahead.names.number(key)) else {
            unreachable!("the caller numbers its records, and has not run out of numbers");
        };
        if id as usize == self.arc.blocks.records.len() {
            self.add(key, bytes);
        }
        id
    }

    /// Processes a read or write and the prefetch that it triggers, and returns whether it missed.
    fn in_stream(&mut self, id: u32, key: Key, kind: Kind, now: u32) -> bool {
        let record_bytes = u64::from(self.arc.options.record_bytes);
        let write = kind != Kind::Read;
        let mut stream = None;
        if let Some(file) = self.ahead.as_mut().and_then(|ahead| ahead.files.get_mut(&file_of(key))) {
            stream = file.streams.access(index_of(key), file.last, record_bytes, write, now);
        }
        let missed = match kind {
            Kind::Read => self.read(id, now),
            _ => self.write(id, kind == Kind::Update, now),
        };
        if let Some(at) = stream {
            self.read_ahead(file_of(key), at, missed && !write, now);
        }
        missed
    }

    fn read_ahead(&mut self, file: u64, at: usize, missed: bool, now: u32) {
        let Some(ahead) = &mut self.ahead else { return };
        let Some(of_file) = ahead.files.get_mut(&file) else { return };
        let (wanted, last, bytes) = (of_file.streams.run(at, missed), of_file.last, ahead.bytes as u32);
        for record in wanted.records.0..wanted.records.1.min(last + 1) {
            let id = self.named(access::key(file, record), bytes.max(512));
            if self.arc.blocks.at(id).flags & HELD != 0 {
                continue;
            }
            let parent = self.arc.blocks.at(id).parent;
            if parent != NONE {
                match self.arc.blocks.at(parent).flags & HELD {
                    0 => self.arc.read_ahead(parent, now),
                    _ => self.arc.touch(parent, now),
                }
            }
            self.arc.read_ahead(id, now);
        }
        let pointers = 1 << POINTERS;
        let indirect =
            wanted.indirect.0.div_ceil(pointers)..wanted.indirect.1.min(last + 1).div_ceil(pointers);
        for index in indirect {
            let id = self.parent(1, access::key(file, index << POINTERS), last);
            if id == NONE {
                continue;
            }
            if self.arc.blocks.at(id).flags & HELD == 0 {
                self.arc.read_ahead(id, now);
            }
        }
    }

    /// Adds the block of a new record, and its indirect blocks.
    fn add(&mut self, key: Key, bytes: u32) {
        let Options { offsets, span, .. } = self.arc.options;
        let index = (index_of(key) as f64 / span) as u64;
        let known = self.lengths.get(&file_of(key)).map_or(0, |records| (*records as f64 / span) as u64);
        let last = index.max(known.saturating_sub(1));
        let parent = if offsets { self.parent(1, access::key(file_of(key), index), last) } else { NONE };
        let records = &mut self.arc.blocks.records;
        if records.len() == records.capacity() {
            // Grow by a quarter instead of doubling.
            records.reserve_exact(1024.max(records.len() / 4));
        }
        records.push(Block::new(parent, bytes));
    }

    /// The indirect block of a level above `key`, in a file whose last record is `last`. A file of one record has none,
    /// a file of up to 1024 records has one.
    fn parent(&mut self, level: u8, key: Key, last: u64) -> u32 {
        if last == 0 {
            return NONE;
        }
        let (file, index) = (file_of(key), index_of(key) >> POINTERS);
        let at = access::key(file, index);
        if let Some(&id) = self.indirect.get(&(level, at)) {
            return id;
        }
        let above = self.parent(level + 1, at, last >> POINTERS);
        let id = META | self.arc.blocks.indirect.len() as u32;
        self.arc.blocks.indirect.push(Block::new(above, self.arc.options.indirect_bytes));
        self.indirect.insert((level, at), id);
        id
    }

    /// The time of an access in milliseconds: its own, or derived from its number.
    fn now(&self, access: &Access) -> u32 {
        match u64::from(self.arc.options.requests_per_s) {
            0 => access.t_ms,
            rate => (self.counts.requests * 1000 / rate) as u32,
        }
    }

    /// Reads a record through its dbuf, and returns whether it missed.
    fn read(&mut self, id: u32, now: u32) -> bool {
        let (arc, dbufs) = (&mut self.arc, &mut self.dbufs);
        let missed = if arc.blocks.at(id).flags & HELD != 0 {
            arc.touch(id, now);
            dbufs.busy(arc, id);
            false
        } else {
            dbufs.hold_parent(arc, id, now, &mut self.metadata_misses);
            let second = arc.blocks.at(id).flags & SECOND != 0;
            let missed = !arc.read(id, now);
            self.second_hits += u64::from(missed && second);
            self.record_loads += 1;
            missed
        };
        if arc.blocks.at(id).flags & DIRTY == 0 {
            dbufs.idle(arc, id);
            dbufs.trim(arc);
        }
        missed
    }

    /// Writes a record; a partial write reads the record first. Returns whether that missed.
    fn write(&mut self, id: u32, part: bool, now: u32) -> bool {
        let missed = part && self.read(id, now);
        let (arc, dbufs) = (&mut self.arc, &mut self.dbufs);
        let lsize = arc.lsize(id);
        self.dirty.written += u64::from(if part { arc.options.update_bytes.min(lsize) } else { lsize });
        if arc.blocks.at(id).flags & DIRTY != 0 {
            return missed;
        }
        if arc.blocks.at(id).flags & HELD != 0 {
            dbufs.busy(arc, id);
        } else {
            dbufs.hold_parent(arc, id, now, &mut self.metadata_misses);
        }
        arc.dirty(id, now);
        self.dirty.records.push(id);
        self.dirty.bytes += u64::from(arc.lsize(id));
        missed
    }

    /// Syncs the transaction group when it is due: by its age, its size, the bytes written to the log for it (0.15 of
    /// `zfs_wrlog_data_max`, which is twice `zfs_dirty_data_max`), or because its data takes half of the ARC
    /// (`zfs_arc_dirty_limit_percent`).
    fn sync_if_due(&mut self, now: u32) {
        if self.counts.requests == 0 {
            self.dirty.since_ms = now;
        }
        let options = &self.arc.options;
        if now.saturating_sub(self.dirty.since_ms) < TXG_MS
            && self.dirty.bytes < options.txg_bytes
            && self.dirty.written < options.txg_bytes * 3 / 2
            && self.arc.anonymous() < options.cache_bytes / 2
        {
            return;
        }
        self.sync(now);
    }

    fn sync(&mut self, now: u32) {
        self.dirty.since_ms = now;
        (self.dirty.bytes, self.dirty.written) = (0, 0);
        self.arc.forget_old();
        let mut records = std::mem::take(&mut self.dirty.records);
        // Freed records are no longer dirty.
        records.retain(|&id| self.arc.blocks.at(id).flags & DIRTY != 0);
        // Each record has a new location, so the blocks that point to them are written too.
        let mut above: Vec<u32> = records.iter().map(|&id| self.arc.blocks.at(id).parent).collect();
        while !above.is_empty() {
            above.sort_unstable();
            above.dedup();
            above.retain(|&id| id != NONE);
            for &id in &above {
                self.arc.synced(id, now);
            }
            above = above.iter().map(|&id| self.arc.blocks.at(id).parent).collect();
        }
        for id in records {
            // A record that was freed and written again occurs twice.
            if self.arc.blocks.at(id).flags & DIRTY != 0 {
                self.arc.synced(id, now);
                self.dbufs.idle(&mut self.arc, id);
                self.dbufs.trim(&mut self.arc);
            }
        }
    }

    /// Frees a record: it leaves the cache.
    fn free(&mut self, id: u32, now: u32) {
        if self.arc.blocks.at(id).flags & DIRTY != 0 {
            self.arc.synced(id, now);
            self.dbufs.idle(&mut self.arc, id);
        }
        if self.arc.blocks.at(id).flags & HELD != 0 {
            self.dbufs.destroy(&mut self.arc, id);
        }
        self.arc.forget(id);
    }
}

impl Model for OpenZfs {
    fn feed(&mut self, chunk: &[Access], keys: &[Key]) {
        for access in chunk {
            let key = keys[access.record as usize];
            let now = self.now(access);
            let id = self.block(access, key);
            if access.kind != Kind::Free {
                self.arc.resize(id, access.bytes);
            }
            self.sync_if_due(now);
            self.second.feed(&mut self.arc, now);
            if now.saturating_sub(self.flushed_ms) >= FLUSH_MS {
                self.flushed_ms = now;
                self.arc.flush_uncached(now);
            }
            if access.kind == Kind::Free {
                self.free(id, now);
                continue;
            }
            let missed = self.in_stream(id, key, access.kind, now);
            self.counts.add(access.kind, missed);
        }
    }

    fn counts(&self) -> Vec<Counts> {
        vec![self.counts]
    }

    fn memory(&self) -> usize {
        let blocks = &self.arc.blocks;
        (blocks.records.capacity() + blocks.indirect.capacity()) * size_of::<Block>()
            + self.indirect.capacity() * 24
            + self.ahead.as_ref().map_or(0, |ahead| ahead.names.memory())
            + self.second.memory()
    }
}
