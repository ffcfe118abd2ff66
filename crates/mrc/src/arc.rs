//! The textbook ARC: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, figure 4.
//!
//! The paper knows pages of one size. Here all is in bytes, so that with one size it is the paper's to the page: where
//! the paper moves the target by a number of pages, it moves by that many times the record's size; where it makes room
//! for a page, records leave until the new one fits.
//!
//! What the paper does not know: a record that is larger than the cache is not taken in; a record whose size changed
//! keeps its place; a freed record leaves its list, ghosts included, and the target stays.

use crate::{Access, Counts, Key, Kind, Model};

/// In place of a node: the record is on no list.
const NONE: u32 = u32::MAX;

/// Seen once recently: in the cache.
const T1: usize = 0;
/// Seen at least twice recently: in the cache.
const T2: usize = 1;
/// Lately evicted from T1: only its name is kept.
const B1: usize = 2;
/// Lately evicted from T2: only its name is kept.
const B2: usize = 3;
/// Lists; their ends are the first nodes.
const LISTS: usize = 4;

/// A record on a list, or the two ends of one.
#[derive(Clone, Copy, Debug)]
struct Node {
    prev: u32,
    next: u32,
    record: u32,
    bytes: u32,
    list: u32,
}

/// One cache of one size. Takes 4 bytes for every record of the trace and 20 for each on its lists, which together hold
/// twice the size of the cache, and the quarter that vectors grow by: at most 30 bytes a record.
#[derive(Debug)]
pub struct Arc {
    counts: Counts,
    /// Each record's node, by its number.
    nodes_of: Vec<u32>,
    nodes: Vec<Node>,
    /// Nodes that were used and are free, one after another by `next`.
    free: u32,
    /// Bytes on each list.
    bytes: [u64; LISTS],
    /// The paper's p: bytes that T1 is meant to have.
    target: f64,
}

impl Arc {
    /// A cache of `cache_bytes`.
    pub fn new(cache_bytes: u64) -> Arc {
        let ends = |list: u32| Node { prev: list, next: list, record: NONE, bytes: 0, list };
        Arc {
            counts: Counts { cache_bytes, ..Counts::default() },
            nodes_of: Vec::new(),
            nodes: (0..LISTS as u32).map(ends).collect(),
            free: NONE,
            bytes: [0; LISTS],
            target: 0.0,
        }
    }

    /// Bytes of the records that are in the cache now.
    pub fn cached_bytes(&self) -> u64 {
        self.bytes[T1] + self.bytes[T2]
    }

    /// Bytes of the records that the cache remembers and does not hold.
    pub fn ghost_bytes(&self) -> u64 {
        self.bytes[B1] + self.bytes[B2]
    }

    /// One request; whether the record was in the cache.
    fn request(&mut self, record: u32, bytes: u32) -> bool {
        let node = self.nodes_of[record as usize];
        if node == NONE {
            self.first(record, bytes);
            return false;
        }
        match self.nodes[node as usize].list as usize {
            T1 | T2 => {
                self.unlink(node);
                self.nodes[node as usize].bytes = bytes;
                self.link(node, T2);
                // Nothing to do, unless the record has grown.
                self.make_room(0, false);
                true
            }
            list => {
                self.ghost(node, list, bytes);
                false
            }
        }
    }

    /// Cases II and III of the paper: a request of a record of B1 or B2.
    fn ghost(&mut self, node: u32, list: usize, bytes: u32) {
        let (b1, b2) = (self.bytes[B1] as f64, self.bytes[B2] as f64);
        let step = f64::from(bytes);
        if list == B1 {
            self.target = (self.target + step * (b2 / b1).max(1.0)).min(self.counts.cache_bytes as f64);
        } else {
            self.target = (self.target - step * (b1 / b2).max(1.0)).max(0.0);
        }
        self.unlink(node);
        if u64::from(bytes) > self.counts.cache_bytes {
            self.release(node);
            return;
        }
        self.make_room(u64::from(bytes), list == B2);
        self.nodes[node as usize].bytes = bytes;
        self.link(node, T2);
    }

    /// Case IV of the paper: a request of a record that is on no list.
    fn first(&mut self, record: u32, bytes: u32) {
        let (cache, room) = (self.counts.cache_bytes, u64::from(bytes));
        if room > cache {
            return;
        }
        while self.bytes[T1] + self.bytes[B1] + room > cache && self.bytes[B1] > 0 {
            self.drop_oldest(B1);
        }
        // With B1 empty, T1 alone is as large as the cache: its oldest go without a trace.
        while self.bytes[T1] + room > cache {
            self.drop_oldest(T1);
        }
        self.make_room(room, false);
        let node = self.allocate(record, bytes);
        self.nodes_of[record as usize] = node;
        self.link(node, T1);
    }

    /// The paper's REPLACE, until `room` bytes fit: the oldest of T1 or T2 becomes a ghost. All lists together are kept
    /// within twice the cache.
    fn make_room(&mut self, room: u64, in_b2: bool) {
        while self.bytes[T1] + self.bytes[T2] + room > self.counts.cache_bytes {
            let t1 = self.bytes[T1] as f64;
            let from_t1 = self.bytes[T1] > 0
                && (t1 > self.target || (in_b2 && t1 == self.target) || self.bytes[T2] == 0);
            let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
            let oldest = self.nodes[from].prev;
            self.unlink(oldest);
            self.link(oldest, to);
        }
        while self.bytes.iter().sum::<u64>() + room > 2 * self.counts.cache_bytes {
            self.drop_oldest(if self.bytes[B2] > 0 { B2 } else { B1 });
        }
    }

    fn drop_oldest(&mut self, list: usize) {
        let node = self.nodes[list].prev;
        self.unlink(node);
        self.release(node);
    }

    fn unlink(&mut self, node: u32) {
        let Node { prev, next, bytes, list, .. } = self.nodes[node as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        self.bytes[list as usize] -= u64::from(bytes);
    }

    /// Makes a node its list's newest.
    fn link(&mut self, node: u32, list: usize) {
        let next = std::mem::replace(&mut self.nodes[list].next, node);
        self.nodes[next as usize].prev = node;
        let it = &mut self.nodes[node as usize];
        (it.prev, it.next, it.list) = (list as u32, next, list as u32);
        self.bytes[list] += u64::from(it.bytes);
    }

    fn allocate(&mut self, record: u32, bytes: u32) -> u32 {
        let fresh = Node { prev: NONE, next: NONE, record, bytes, list: NONE };
        if self.free == NONE {
            let node = self.nodes.len();
            crate::grow(&mut self.nodes, node + 1, fresh);
            return node as u32;
        }
        let node = self.free;
        self.free = std::mem::replace(&mut self.nodes[node as usize], fresh).next;
        node
    }

    /// Frees a node that is on no list any more.
    fn release(&mut self, node: u32) {
        let it = &mut self.nodes[node as usize];
        it.next = std::mem::replace(&mut self.free, node);
        self.nodes_of[it.record as usize] = NONE;
    }
}

impl Model for Arc {
    fn feed(&mut self, chunk: &[Access], _keys: &[Key]) {
        let records = chunk.iter().map(|access| access.record as usize + 1).max().unwrap_or(0);
        crate::grow(&mut self.nodes_of, records, NONE);
        for access in chunk {
            if access.kind == Kind::Free {
                let node = self.nodes_of[access.record as usize];
                if node != NONE {
                    self.unlink(node);
                    self.release(node);
                }
                continue;
            }
            let miss = u64::from(!self.request(access.record, access.bytes.max(1)));
            self.counts.requests += 1;
            self.counts.misses += miss;
            self.counts.update_misses += miss * u64::from(access.kind == Kind::Update);
            self.counts.write_misses += miss * u64::from(access.kind == Kind::Write);
        }
    }

    fn counts(&self) -> Vec<Counts> {
        vec![self.counts]
    }

    fn memory(&self) -> usize {
        self.nodes_of.capacity() * 4 + self.nodes.capacity() * size_of::<Node>()
    }
}
