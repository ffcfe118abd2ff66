//! The ARC itself: states, balance, eviction.
//!
//! Follows OpenZFS 2.3 (`module/zfs/arc.c`): `arc_access`, `arc_evict`, `arc_evict_adj` and `arc_is_overflowing` make
//! the decisions that are modelled here. `docs/arc.md` has the measurements.

use super::block::{AHEAD, Block, Blocks, DIRTY, FRESH, HELD, LISTED, META, OLD, SECOND, SIZED, State};
use super::options::{Options, PrimaryCache};
use super::sum::Sum;
use crate::list::List;

/// The kind of a block: data or metadata.
pub const DATA: usize = 0;
pub const METADATA: usize = 1;

/// Lists per state: the number of processors, but at least 4.
pub const SUBLISTS: usize = 4;

/// Bytes of the header of a block that is only on the cache vdev.
const SECOND_HEADER: i64 = 96;

pub fn kind(id: u32) -> usize {
    usize::from(id & META != 0)
}

/// Target shares, in units of 2^-32.
#[derive(Clone, Copy, Debug)]
pub struct Balance {
    pub meta: u64,
    pub data_mru: u64,
    pub meta_mru: u64,
}

#[derive(Debug)]
pub struct Arc {
    pub options: Options,
    pub blocks: Blocks,
    /// By state, kind and sublist.
    pub lists: [[[List; SUBLISTS]; 2]; LISTED],
    /// Bytes by state and kind: compressed buffers and uncompressed copies; for ghosts, the uncompressed size.
    pub size: [[i64; 2]; SIZED],
    /// The bytes that are on lists.
    pub evictable: [[i64; 2]; LISTED],
    /// All bytes that count towards the ARC's size: buffers, copies, structures.
    pub used: Sum,
    pub largest: i64,
    pub balance: Balance,
    /// Bytes of ghosts that were accessed since the last eviction: by state (MRU, MFU) and kind.
    pub ghost_hits: [[u64; 2]; 2],
    /// The maximum size of the ghost lists, as of the last eviction.
    pub ghost_limit: [[u64; 2]; 2],
    random: u64,
    pub evictions: u64,
}

impl Arc {
    pub fn new(options: Options) -> Arc {
        let mut size = [[0; 2]; SIZED];
        // The pool's own metadata, which is never evicted.
        size[State::Mru as usize][METADATA] = options.pool_bytes as i64;
        let mut used = Sum::new(options.share);
        used.add(options.pool_bytes as i64);
        Arc {
            blocks: Blocks::default(),
            lists: [[[List::default(); SUBLISTS]; 2]; LISTED],
            size,
            evictable: [[0; 2]; LISTED],
            used,
            largest: 0,
            balance: Balance { meta: 1 << 30, data_mru: 1 << 31, meta_mru: 1 << 31 },
            ghost_hits: [[0; 2]; 2],
            ghost_limit: [[0; 2]; 2],
            random: 0x9e37_79b9_7f4a_7c15,
            evictions: 0,
            options,
        }
    }

    pub fn lsize(&self, id: u32) -> u32 {
        if id & META != 0 {
            self.options.indirect_lsize
        } else {
            self.options.record_bytes.max(self.blocks.at(id).psize)
        }
    }

    /// Bytes of the uncompressed copy that a dbuf of this block has in addition to the compressed buffer.
    pub fn copy(&self, id: u32) -> i64 {
        let lsize = self.lsize(id);
        if self.blocks.at(id).psize < lsize { i64::from(lsize) } else { 0 }
    }

    /// A pseudorandom number below `n`, from xorshift64 (Marsaglia 2003).
    pub fn random(&mut self, n: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % n
    }

    /// The sublist of a block, which never changes.
    pub fn sublist(&self, id: u32) -> usize {
        let id = if id & (META | OLD) == OLD { self.blocks.at(id).parent } else { id };
        (id.wrapping_mul(0x9e37_79b1) >> 16) as usize % SUBLISTS
    }

    /// Bytes of a block in its state: the buffer, and the copy while it is held; the uncompressed size of a ghost.
    fn counted(&self, id: u32, state: State) -> i64 {
        if state.is_ghost() {
            return i64::from(self.lsize(id));
        }
        let held = self.blocks.at(id).flags & HELD != 0;
        i64::from(self.blocks.at(id).psize) + if held { self.copy(id) } else { 0 }
    }

    pub fn insert(&mut self, id: u32) {
        let state = self.blocks.at(id).state;
        let at = self.sublist(id);
        self.lists[state as usize][kind(id)][at].push(&mut self.blocks, id);
        self.evictable[state as usize][kind(id)] += self.counted(id, state);
    }

    pub fn unlist(&mut self, id: u32) {
        let state = self.blocks.at(id).state;
        let at = self.sublist(id);
        self.lists[state as usize][kind(id)][at].remove(&mut self.blocks, id);
        self.evictable[state as usize][kind(id)] -= self.counted(id, state);
    }

    /// Moves a held block to another state with memory.
    fn shift(&mut self, id: u32, to: State) {
        let from = self.blocks.at(id).state;
        let bytes = self.counted(id, from);
        self.size[from as usize][kind(id)] -= bytes;
        self.size[to as usize][kind(id)] += bytes;
        self.blocks.at_mut(id).state = to;
    }

    /// Whether `primarycache` lets a block stay.
    pub fn cacheable(&self, id: u32) -> bool {
        match self.options.primarycache {
            PrimaryCache::All => true,
            PrimaryCache::Metadata => id & META != 0,
            PrimaryCache::None => false,
        }
    }

    /// Processes a use of a block that is in memory.
    pub fn touch(&mut self, id: u32, now: u32) {
        let mintime = self.options.mintime_ms;
        let block = self.blocks.at_mut(id);
        // A prefetch was the first use, so the read that it was for is not the second.
        let ahead = block.flags & AHEAD != 0;
        block.flags &= !AHEAD;
        match block.state {
            State::Mru if ahead => block.access_ms = now,
            State::Mru if now.saturating_sub(block.access_ms) > mintime => self.promote(id, now),
            State::Mfu | State::Uncached => block.access_ms = now,
            _ => {}
        }
    }

    fn promote(&mut self, id: u32, now: u32) {
        let block = self.blocks.at_mut(id);
        block.access_ms = now;
        let listed = block.flags & HELD == 0;
        if listed {
            self.unlist(id);
        }
        self.shift(id, State::Mfu);
        if listed {
            self.insert(id);
        }
    }

    /// Reads a block without a dbuf, and creates its dbuf. Returns whether the block was in memory.
    pub fn read(&mut self, id: u32, now: u32) -> bool {
        let hit = self.blocks.at(id).state.is_cached();
        if hit {
            self.touch(id, now);
            self.unlist(id);
        } else {
            self.admit(id, now);
            self.blocks.at_mut(id).flags &= !AHEAD;
        }
        self.hold(id, now);
        hit
    }

    /// Prefetches a block without a dbuf; only its buffer is loaded.
    pub fn read_ahead(&mut self, id: u32, now: u32) {
        let block = self.blocks.at_mut(id);
        if block.state.is_cached() {
            let again = block.flags & AHEAD != 0;
            block.flags &= !AHEAD;
            match again {
                true => block.access_ms = now,
                false => self.touch(id, now),
            }
        } else {
            self.admit(id, now);
            self.insert(id);
        }
        self.blocks.at_mut(id).flags |= AHEAD;
    }

    /// Makes room for a block that is not in memory, and sets its state.
    fn admit(&mut self, id: u32, now: u32) {
        let (from, psize) = (self.blocks.at(id).state, i64::from(self.blocks.at(id).psize));
        let mut to = State::Mru;
        if from.is_ghost() {
            self.ghost_hits[usize::from(from == State::MfuGhost)][kind(id)] += psize as u64;
            self.unlist(id);
            self.size[from as usize][kind(id)] -= i64::from(self.lsize(id));
            if from == State::MfuGhost || self.blocks.at(id).flags & AHEAD == 0 {
                to = State::Mfu;
            }
        } else {
            let known = if from == State::Second { SECOND_HEADER } else { 0 };
            self.used.add(i64::from(self.options.structures.header) - known);
            if !self.cacheable(id) {
                to = State::Uncached;
            }
        }
        // The block is on no list, so it cannot be evicted while it is read.
        self.make_room(now);
        let block = self.blocks.at_mut(id);
        (block.state, block.access_ms) = (to, now);
        self.size[to as usize][kind(id)] += psize;
        self.used.add(psize);
    }

    /// Creates a dbuf for a block that is in memory and on no list.
    fn hold(&mut self, id: u32, now: u32) {
        let copy = self.copy(id);
        if copy > 0 {
            self.make_room(now);
        }
        let state = self.blocks.at(id).state;
        self.blocks.at_mut(id).flags |= HELD;
        self.size[state as usize][kind(id)] += copy;
        let structures = self.options.structures;
        self.used.add(copy);
        self.used.add(i64::from(structures.buffer) + i64::from(structures.dbuf));
    }

    /// Destroys a dbuf: the block becomes the newest of its list, or leaves the cache if it is not to be kept.
    pub fn let_go(&mut self, id: u32) {
        let copy = self.copy(id);
        let block = self.blocks.at_mut(id);
        debug_assert!(block.flags & (HELD | DIRTY) == HELD);
        block.flags &= !HELD;
        let state = block.state;
        self.size[state as usize][kind(id)] -= copy;
        let structures = self.options.structures;
        self.used.add(-copy);
        self.used.add(-i64::from(structures.buffer) - i64::from(structures.dbuf));
        self.insert(id);
        if state == State::Uncached {
            self.forget(id);
        }
    }

    /// Changes the size of a block on disk. A block in memory keeps the old size until it is read or written again.
    pub fn resize(&mut self, id: u32, psize: u32) {
        let block = self.blocks.at_mut(id);
        if psize == block.psize || block.state.is_cached() {
            return;
        }
        let listed = block.state.is_ghost();
        if listed {
            self.unlist(id);
            let state = self.blocks.at(id).state as usize;
            self.size[state][kind(id)] -= i64::from(self.lsize(id));
            self.blocks.at_mut(id).psize = psize;
            self.size[state][kind(id)] += i64::from(self.lsize(id));
            self.insert(id);
        } else {
            self.blocks.at_mut(id).psize = psize;
        }
    }

    /// Marks a block as dirty, and creates its dbuf. Its old content has another location on disk.
    pub fn dirty(&mut self, id: u32, now: u32) {
        let block = self.blocks.at_mut(id);
        block.flags |= DIRTY;
        if block.flags & HELD == 0 {
            self.leave_old(id);
            self.used.add(i64::from(self.options.structures.header));
            self.make_room(now);
            self.blocks.at_mut(id).state = State::Anon;
            if self.copy(id) > 0 {
                self.blocks.at_mut(id).flags |= FRESH;
            } else {
                self.buffer(id);
            }
            self.hold(id, now);
        } else {
            self.blocks.at_mut(id).flags &= !SECOND;
            self.shift(id, State::Anon);
        }
    }

    /// Accounts for the buffer of a block.
    fn buffer(&mut self, id: u32) {
        let (state, psize) = (self.blocks.at(id).state, i64::from(self.blocks.at(id).psize));
        self.size[state as usize][kind(id)] += psize;
        self.used.add(psize);
    }

    /// The block is on disk: it now counts as used once, regardless of its earlier state.
    pub fn synced(&mut self, id: u32, now: u32) {
        if self.blocks.at(id).flags & FRESH != 0 {
            self.blocks.at_mut(id).flags &= !FRESH;
            self.buffer(id);
        }
        self.shift(id, if self.cacheable(id) { State::Mru } else { State::Uncached });
        let block = self.blocks.at_mut(id);
        block.flags &= !DIRTY;
        block.access_ms = now;
    }

    /// The old content of a block without a dbuf keeps its position on its list until the transaction group is on disk.
    fn leave_old(&mut self, id: u32) {
        let block = self.blocks.at_mut(id);
        let (state, old) = (block.state, Block { parent: id, flags: 0, ..*block });
        if state == State::Out || state == State::Second {
            return self.forget(id);
        }
        block.flags &= !SECOND;
        block.state = State::Out;
        let number = OLD | self.blocks.old.len() as u32;
        self.blocks.old.push(old);
        let at = self.sublist(id);
        self.lists[state as usize][kind(id)][at].replace(&mut self.blocks, id, number);
    }

    /// Drops the old contents, after the transaction group is on disk.
    pub fn forget_old(&mut self) {
        for number in 0..self.blocks.old.len() as u32 {
            self.forget(OLD | number);
        }
        self.blocks.old.clear();
    }

    /// Bytes of dirty data that are not on disk yet.
    pub fn anonymous(&self) -> u64 {
        self.size[State::Anon as usize].iter().sum::<i64>() as u64
    }

    /// The newest block of a random list of a state.
    pub fn random_head(&mut self, state: State, kind: usize) -> u32 {
        let at = self.random(SUBLISTS);
        self.lists[state as usize][kind][at].newest
    }

    /// The space of a block on the cache vdev was overwritten.
    pub fn leave_second(&mut self, id: u32) {
        let block = self.blocks.at_mut(id);
        block.flags &= !SECOND;
        if block.state == State::Second {
            block.state = State::Out;
            self.used.add(-SECOND_HEADER);
        }
    }

    /// Drops a ghost. It stays known if it is on the cache vdev.
    pub fn drop_ghost(&mut self, id: u32) {
        let second = self.blocks.at(id).flags & SECOND != 0;
        self.forget(id);
        if second {
            let block = self.blocks.at_mut(id);
            block.flags |= SECOND;
            block.state = State::Second;
            self.used.add(SECOND_HEADER);
        }
    }

    /// Forgets a block that is on a list, or is unknown.
    pub fn forget(&mut self, id: u32) {
        let state = self.blocks.at(id).state;
        self.blocks.at_mut(id).flags &= !SECOND;
        match state {
            State::Out => return,
            State::Second => {
                self.blocks.at_mut(id).state = State::Out;
                return self.used.add(-SECOND_HEADER);
            }
            _ => {}
        }
        self.unlist(id);
        self.size[state as usize][kind(id)] -= self.counted(id, state);
        self.used.add(-i64::from(self.options.structures.header));
        if !state.is_ghost() {
            self.used.add(-i64::from(self.blocks.at(id).psize));
        }
        self.blocks.at_mut(id).state = State::Out;
    }
}
