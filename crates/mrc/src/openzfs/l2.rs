//! The L2ARC: a cache vdev that is fed from the ARC's lists at a bounded rate, and overwritten in a ring
//! (`l2arc_feed_thread`).

use std::collections::{HashMap, VecDeque};

use super::arc::{Arc, DATA, METADATA};
use super::block::{AHEAD, META, OLD, SECOND, State};
use crate::list::NONE;

/// Bytes per write while the ARC has not been short of memory, which is always true for a fixed size: `l2arc_write_max`
/// and `l2arc_write_boost`.
const AT_ONCE: u64 = 64 << 20;
/// How far the lists are scanned, relative to the bytes of a write: `l2arc_headroom`, doubled because buffers are
/// compressed (`l2arc_headroom_boost`).
const HEADROOM: u64 = 16;
/// Milliseconds between two writes, and after a write of more than half of the limit.
const SLOW_MS: u32 = 1000;
const QUICK_MS: u32 = 200;

/// A cache vdev.
#[derive(Debug)]
pub struct Second {
    limit: u64,
    used: u64,
    next_ms: u32,
    /// The ring, the oldest first: block, bytes, and the number of the write.
    ring: VecDeque<(u32, u32, u64)>,
    /// The number of a block's last write. Earlier entries of the block in the ring are obsolete.
    last: HashMap<u32, u64>,
    writes: u64,
}

impl Second {
    pub fn new(limit: u64) -> Second {
        Second { limit, used: 0, next_ms: 0, ring: VecDeque::new(), last: HashMap::new(), writes: 0 }
    }

    /// Bytes of memory held.
    pub fn memory(&self) -> usize {
        self.ring.capacity() * size_of::<(u32, u32, u64)>() + self.last.capacity() * 16
    }

    /// Writes to the cache vdev if it is time. Takes the newest buffers of the lists, MFU first.
    pub fn feed(&mut self, arc: &mut Arc, now: u32) {
        if now < self.next_ms || self.limit == 0 {
            return;
        }
        let most = AT_ONCE.min(self.limit / 4);
        self.make_room(arc, most);
        let mut written = 0;
        for (state, kind) in
            [(State::Mfu, METADATA), (State::Mru, METADATA), (State::Mfu, DATA), (State::Mru, DATA)]
        {
            let mut passed = 0;
            let mut id = arc.random_head(state, kind);
            while id != NONE {
                passed += u64::from(arc.lsize(id));
                let block = arc.blocks.at(id);
                let (next, bytes) = (block.links.older, block.psize);
                if passed > most * HEADROOM {
                    break;
                }
                // Prefetched blocks must be used first (`l2arc_noprefetch`); old contents are freed soon.
                if block.flags & (SECOND | AHEAD) == 0 && id & (META | OLD) != OLD {
                    if written + u64::from(bytes) > most {
                        break;
                    }
                    written += u64::from(bytes);
                    self.write(arc, id, bytes);
                }
                id = next;
            }
        }
        self.next_ms = now + if written > most / 2 { QUICK_MS } else { SLOW_MS };
    }

    fn write(&mut self, arc: &mut Arc, id: u32, bytes: u32) {
        arc.blocks.at_mut(id).flags |= SECOND;
        self.writes += 1;
        self.ring.push_back((id, bytes, self.writes));
        self.last.insert(id, self.writes);
        self.used += u64::from(bytes);
    }

    fn make_room(&mut self, arc: &mut Arc, most: u64) {
        while self.used + most > self.limit {
            let Some((id, bytes, write)) = self.ring.pop_front() else { return };
            self.used -= u64::from(bytes);
            if self.last.get(&id) == Some(&write) {
                self.last.remove(&id);
                arc.leave_second(id);
            }
        }
    }
}
