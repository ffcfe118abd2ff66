//! The dbufs in front of the ARC: those in use, their indirect blocks, and the dbuf cache of unused dbufs.

use super::arc::{Arc, SUBLISTS, kind};
use super::block::{HELD, IDLE, META};
use crate::list::{List, NONE};

/// How far the dbuf cache is trimmed below its limit when it exceeds the limit, in percent (`dbuf_cache_lowater_pct`).
const LOW_WATER: u64 = 10;

#[derive(Debug)]
pub struct Dbufs {
    lists: [List; SUBLISTS],
    bytes: u64,
    limit: u64,
}

impl Dbufs {
    /// A cache of at most `limit` bytes, uncompressed.
    pub fn new(limit: u64) -> Dbufs {
        Dbufs { lists: [List::default(); SUBLISTS], bytes: 0, limit }
    }

    /// Bytes of unused dbufs.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn bytes_of(arc: &Arc, id: u32) -> u64 {
        u64::from(arc.lsize(id))
    }

    /// Moves an unused dbuf into the cache, or destroys it if it is not to be kept. A dbuf of which only a part was
    /// read is kept, because the next part may be read soon.
    pub fn idle(&mut self, arc: &mut Arc, id: u32) {
        if !arc.cacheable(id) && (id & META != 0 || !arc.options.partial_reads) {
            arc.let_go(id);
            return self.release_parent(arc, id);
        }
        arc.blocks.at_mut(id).flags |= IDLE;
        let at = arc.sublist(id);
        self.lists[at].push(&mut arc.blocks, id);
        self.bytes += Dbufs::bytes_of(arc, id);
    }

    /// Takes a dbuf out of the cache, because it is used again.
    pub fn busy(&mut self, arc: &mut Arc, id: u32) {
        if arc.blocks.at(id).flags & IDLE == 0 {
            return;
        }
        arc.blocks.at_mut(id).flags &= !IDLE;
        let at = arc.sublist(id);
        self.lists[at].remove(&mut arc.blocks, id);
        self.bytes -= Dbufs::bytes_of(arc, id);
    }

    /// Trims the cache if it exceeds its limit.
    pub fn trim(&mut self, arc: &mut Arc) {
        if self.bytes <= self.limit {
            return;
        }
        let low = self.limit - self.limit * LOW_WATER / 100;
        while self.bytes > low && self.evict(arc) {}
    }

    fn evict(&mut self, arc: &mut Arc) -> bool {
        let first = arc.random(SUBLISTS);
        let mut tails = (0..SUBLISTS).map(|at| self.lists[(first + at) % SUBLISTS].oldest);
        let Some(tail) = tails.find(|tail| *tail != NONE) else { return false };
        self.destroy(arc, tail);
        true
    }

    /// Destroys an unused dbuf; that of its indirect block may become unused.
    pub fn destroy(&mut self, arc: &mut Arc, id: u32) {
        self.busy(arc, id);
        arc.let_go(id);
        self.release_parent(arc, id);
    }

    /// Removes a dbuf from the count of its indirect block.
    fn release_parent(&mut self, arc: &mut Arc, id: u32) {
        let parent = arc.blocks.at(id).parent;
        if parent == NONE {
            return;
        }
        let block = arc.blocks.at_mut(parent);
        block.children -= 1;
        if block.children == 0 {
            self.idle(arc, parent);
        }
    }

    /// Finds or creates the dbuf of the indirect block of a new dbuf. Adds misses of indirect blocks to `missed`.
    pub fn hold_parent(&mut self, arc: &mut Arc, id: u32, now: u32, missed: &mut u64) {
        let parent = arc.blocks.at(id).parent;
        if parent == NONE {
            return;
        }
        debug_assert!(kind(parent) == super::arc::METADATA);
        if arc.blocks.at(parent).flags & HELD != 0 {
            arc.touch(parent, now);
            self.busy(arc, parent);
        } else {
            self.hold_parent(arc, parent, now, missed);
            *missed += u64::from(!arc.read(parent, now));
        }
        arc.blocks.at_mut(parent).children += 1;
    }
}
