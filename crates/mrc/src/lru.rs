//! LRU: the exact curve for all cache sizes in one pass.
//!
//! LRU caches are nested (Mattson et al., "Evaluation techniques for storage hierarchies", 1970): a record is in every
//! cache that is large enough for it and all records used since its last request. One reuse distance per request
//! therefore decides for every size whether it hits. The distance is the number of live entries on a stack of accesses
//! ([`stack_distance`]).
//!
//! Distances are bytes. While all records have one size they are counted in records, which is faster. The first record
//! of another size converts the stack to bytes.
//!
//! With records of different sizes, a cache evicts from the cold end until the new record fits. The model simplifies
//! two cases, because they differ between cache sizes. A record larger than a cache evicts everything from it here,
//! although a real cache would not admit it. A record whose size has changed counts with the size of its last request,
//! also for earlier requests for other records. If sizes do not change, the curve is exact.

mod reuse;
mod stack_distance;
mod tree;

use std::collections::BinaryHeap;

use crate::list::NONE;
use crate::{Access, Counts, Key, Kind, Model};
use reuse::Reuse;
use stack_distance::{Ones, StackDistance, Weights};

/// LRU caches of all sizes at once. Memory: 4 bytes per record for its last slot (5 after the vector has grown), at
/// most 2 for the stack while all records have one size and 18 otherwise.
#[derive(Debug)]
pub struct Lru {
    sizes: Vec<u64>,
    records: Records,
    stack: State,
    reuse: Reuse,
}

/// The positions of the records on the stack.
#[derive(Debug, Default)]
struct Records {
    /// The slot of each record's last access, by record number.
    last: Vec<u32>,
    /// Slots of freed records, the newest first: free space in every cache that reaches that far.
    holes: BinaryHeap<u32>,
}

#[derive(Debug)]
enum State {
    /// Before the first access.
    Empty,
    /// All records so far have this many bytes.
    Equal(u32, Ones),
    Bytes(Weights),
}

impl Lru {
    /// Caches of `sizes` bytes; the order is kept.
    pub fn new(sizes: &[u64]) -> Lru {
        Lru {
            sizes: sizes.to_vec(),
            records: Records::default(),
            stack: State::Empty,
            reuse: Reuse::new(sizes),
        }
    }

    /// The counts of the cache of one of the sizes.
    fn at(&self, cache_bytes: u64) -> Counts {
        let [reads, writes, updates] =
            [Kind::Read, Kind::Write, Kind::Update].map(|kind| self.reuse.misses(kind, cache_bytes));
        Counts {
            cache_bytes,
            requests: self.reuse.requests(),
            misses: reads + writes + updates,
            update_misses: updates,
            write_misses: writes,
        }
    }

    /// Extends the arrays for the records of `chunk`, and converts the stack to bytes if a record differs in size.
    fn prepare(&mut self, chunk: &[Access]) {
        let mut records = self.records.last.len();
        let mut equal = true;
        let known = match self.stack {
            State::Equal(bytes, _) => Some(bytes),
            _ => chunk.iter().find(|a| a.kind != Kind::Free).map(|a| a.bytes.max(1)),
        };
        for access in chunk {
            records = records.max(access.record as usize + 1);
            equal &= access.kind == Kind::Free || Some(access.bytes.max(1)) == known;
        }
        crate::grow(&mut self.records.last, records, NONE);
        match (&self.stack, known) {
            (State::Empty, Some(bytes)) if equal => self.stack = State::Equal(bytes, Ones::default()),
            (State::Empty, Some(_)) => self.stack = State::Bytes(Weights::default()),
            (State::Equal(bytes, ones), _) if !equal => {
                self.stack = State::Bytes(Weights::from_ones(ones, *bytes))
            }
            _ => {}
        }
    }

    fn steps<L: StackDistance>(
        stack: &mut L,
        unit: u64,
        state: &mut Records,
        reuse: &mut Reuse,
        chunk: &[Access],
    ) {
        for access in chunk {
            let record = access.record as usize;
            let slot = state.last[record];
            if access.kind == Kind::Free {
                state.free(record);
                continue;
            }
            let distance = match state.holes.peek() {
                Some(&hole) if slot == NONE || hole > slot => state.fill_holes(stack, slot, access.bytes),
                _ => (slot != NONE).then(|| stack.take_all(slot)),
            };
            let distance = distance.map(|records| records * unit);
            reuse.count(access.kind, distance);
            if stack.is_full() {
                state.last[record] = NONE;
                state.compact(stack);
            }
            state.last[record] = stack.push(access.bytes);
        }
    }
}

impl Records {
    /// Frees a record. Its space stays on the stack as a hole: records that were evicted because of it do not come
    /// back.
    fn free(&mut self, record: usize) {
        let slot = std::mem::replace(&mut self.last[record], NONE);
        if slot != NONE {
            self.holes.push(slot);
        }
    }

    /// Processes a request while there are holes newer than the record's `slot` ([`NONE`] for a new record). The record
    /// fills these holes, the newest first. As much of its old place becomes a hole, for the caches that had the
    /// record. Returns the weight at `slot` and after it.
    fn fill_holes<L: StackDistance>(&mut self, stack: &mut L, slot: u32, bytes: u32) -> Option<u64> {
        let is_known = slot != NONE;
        let weight = if is_known { stack.weight(slot) } else { stack.weigh(bytes) };
        let distance = is_known.then(|| stack.take(slot, 0));
        let mut left = weight;
        while left > 0
            && let Some(&hole) = self.holes.peek()
            && (!is_known || hole > slot)
        {
            let part = stack.weight(hole).min(left);
            stack.take(hole, part);
            left -= part;
            if stack.weight(hole) == 0 {
                self.holes.pop();
            }
        }
        if is_known {
            stack.take(slot, left);
            if left < weight {
                self.holes.push(slot);
            }
        }
        distance
    }

    fn compact<L: StackDistance>(&mut self, stack: &mut L) {
        // The order of the slots stays, so the vector is still a heap.
        let mut holes = std::mem::take(&mut self.holes).into_vec();
        stack.compact(&mut [&mut self.last, &mut holes]);
        self.holes = holes.into();
    }
}

impl Model for Lru {
    fn feed(&mut self, chunk: &[Access], _keys: &[Key]) {
        self.prepare(chunk);
        let reuse = &mut self.reuse;
        match &mut self.stack {
            State::Empty => {}
            State::Equal(bytes, ones) => Lru::steps(ones, u64::from(*bytes), &mut self.records, reuse, chunk),
            State::Bytes(weights) => Lru::steps(weights, 1, &mut self.records, reuse, chunk),
        }
    }

    fn counts(&self) -> Vec<Counts> {
        self.sizes.iter().map(|&size| self.at(size)).collect()
    }

    fn memory(&self) -> usize {
        let stack = match &self.stack {
            State::Empty => 0,
            State::Equal(_, ones) => ones.memory(),
            State::Bytes(weights) => weights.memory(),
        };
        (self.records.last.capacity() + self.records.holes.capacity()) * 4 + stack
    }
}
