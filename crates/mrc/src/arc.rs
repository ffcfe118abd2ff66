//! The textbook ARC: Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST 2003, figure 4.
//!
//! The paper has pages of one size. This model counts bytes, and is identical to the paper if all records have one
//! size: where the paper moves the target by a number of pages, the model moves it by that many times the record's
//! size; where the paper makes room for a page, the model evicts records until the new one fits.
//!
//! Cases that the paper does not cover: a record that is larger than the cache is not cached; a record whose size has
//! changed keeps its place; a freed record leaves its list, including the ghost lists, and the target stays.

use crate::list::{Linked, Links, List, NONE};
use crate::{Access, Counts, Key, Kind, Model};

/// Used once recently: in the cache.
const T1: usize = 0;
/// Used at least twice recently: in the cache.
const T2: usize = 1;
/// Recently evicted from T1: a ghost, without data.
const B1: usize = 2;
/// Recently evicted from T2: a ghost, without data.
const B2: usize = 3;
/// The number of lists.
const LISTS: usize = 4;

/// A record on a list.
#[derive(Clone, Copy, Debug)]
struct Node {
    links: Links,
    record: u32,
    bytes: u32,
    list: u32,
}

impl Linked for Vec<Node> {
    fn links(&mut self, id: u32) -> &mut Links {
        &mut self[id as usize].links
    }
}

/// One cache of one size. Memory: 4 bytes for every record of the trace and 20 for each record on the lists, which
/// together hold twice the size of the cache, plus the quarter by which vectors grow: at most 30 bytes per record.
#[derive(Debug)]
pub struct Arc {
    counts: Counts,
    /// The node of each record, by record number.
    nodes_of: Vec<u32>,
    nodes: Vec<Node>,
    /// The first free node; its link `older` leads to the next.
    free: u32,
    lists: [List; LISTS],
    /// Bytes on each list.
    bytes: [u64; LISTS],
    /// The paper's p: the target size of T1 in bytes.
    target: f64,
}

impl Arc {
    /// A cache of `cache_bytes`.
    pub fn new(cache_bytes: u64) -> Arc {
        Arc {
            counts: Counts { cache_bytes, ..Counts::default() },
            nodes_of: Vec::new(),
            nodes: Vec::new(),
            free: NONE,
            lists: [List::default(); LISTS],
            bytes: [0; LISTS],
            target: 0.0,
        }
    }

    /// Bytes of the cached records.
    pub fn cached_bytes(&self) -> u64 {
        self.bytes[T1] + self.bytes[T2]
    }

    /// Bytes of the ghosts.
    pub fn ghost_bytes(&self) -> u64 {
        self.bytes[B1] + self.bytes[B2]
    }

    /// Processes one request, and returns whether the record was in the cache.
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
                // Only needed if the record has grown.
                self.make_room(0, false);
                true
            }
            list => {
                self.ghost(node, list, bytes);
                false
            }
        }
    }

    /// Cases II and III of the paper: a request for a record of B1 or B2.
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

    /// Case IV of the paper: a request for a record that is on no list.
    fn first(&mut self, record: u32, bytes: u32) {
        let (cache, room) = (self.counts.cache_bytes, u64::from(bytes));
        if room > cache {
            return;
        }
        while self.bytes[T1] + self.bytes[B1] + room > cache && self.bytes[B1] > 0 {
            self.drop_oldest(B1);
        }
        // With B1 empty, T1 is as large as the cache: its oldest records are removed without becoming ghosts.
        while self.bytes[T1] + room > cache {
            self.drop_oldest(T1);
        }
        self.make_room(room, false);
        let node = self.allocate(record, bytes);
        self.nodes_of[record as usize] = node;
        self.link(node, T1);
    }

    /// The paper's REPLACE, until `room` bytes fit: the oldest record of T1 or T2 becomes a ghost. Also keeps all lists
    /// together within twice the cache.
    fn make_room(&mut self, room: u64, in_b2: bool) {
        while self.bytes[T1] + self.bytes[T2] + room > self.counts.cache_bytes {
            let t1 = self.bytes[T1] as f64;
            let from_t1 = self.bytes[T1] > 0
                && (t1 > self.target || (in_b2 && t1 == self.target) || self.bytes[T2] == 0);
            let (from, to) = if from_t1 { (T1, B1) } else { (T2, B2) };
            let oldest = self.lists[from].oldest;
            self.unlink(oldest);
            self.link(oldest, to);
        }
        while self.bytes.iter().sum::<u64>() + room > 2 * self.counts.cache_bytes {
            self.drop_oldest(if self.bytes[B2] > 0 { B2 } else { B1 });
        }
    }

    fn drop_oldest(&mut self, list: usize) {
        let node = self.lists[list].oldest;
        self.unlink(node);
        self.release(node);
    }

    fn unlink(&mut self, node: u32) {
        let Node { bytes, list, .. } = self.nodes[node as usize];
        self.lists[list as usize].remove(&mut self.nodes, node);
        self.bytes[list as usize] -= u64::from(bytes);
    }

    /// Makes a node the newest of a list.
    fn link(&mut self, node: u32, list: usize) {
        self.lists[list].push(&mut self.nodes, node);
        let it = &mut self.nodes[node as usize];
        it.list = list as u32;
        self.bytes[list] += u64::from(it.bytes);
    }

    fn allocate(&mut self, record: u32, bytes: u32) -> u32 {
        let fresh = Node { links: Links::UNLINKED, record, bytes, list: NONE };
        if self.free == NONE {
            let node = self.nodes.len();
            crate::grow(&mut self.nodes, node + 1, fresh);
            return node as u32;
        }
        let node = self.free;
        self.free = std::mem::replace(&mut self.nodes[node as usize], fresh).links.older;
        node
    }

    /// Frees a node that is on no list.
    fn release(&mut self, node: u32) {
        let it = &mut self.nodes[node as usize];
        it.links.older = std::mem::replace(&mut self.free, node);
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
            let hit = self.request(access.record, access.bytes.max(1));
            self.counts.add(access.kind, !hit);
        }
    }

    fn counts(&self) -> Vec<Counts> {
        vec![self.counts]
    }

    fn memory(&self) -> usize {
        self.nodes_of.capacity() * 4 + self.nodes.capacity() * size_of::<Node>()
    }
}
