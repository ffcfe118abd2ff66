//! What is open.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use poolwright_openzfs::{Errno, Node, NodeResult};

/// An open file or directory.
pub(crate) struct Handle {
    pub(crate) node: Node,
    /// Opened with `O_DSYNC`. A write says so itself; a copy does not.
    pub(crate) sync: bool,
    /// When it was last seen to that the file has no capabilities, in terms of [`super::FileSystem`]'s count of such
    /// attributes being set.
    pub(crate) no_capabilities_at: AtomicU64,
}

/// Handles of files, by the number the kernel has for them. Numbers are places in a few tables, so that looking one up
/// costs an index and a shared lock.
pub(crate) struct Handles {
    shards: Vec<RwLock<Slab>>,
    turn: AtomicUsize,
}

#[derive(Default)]
struct Slab {
    all: Vec<Option<Arc<Handle>>>,
    free: Vec<u32>,
}

const SHARDS: usize = 16;

impl Handles {
    pub(crate) fn new() -> Handles {
        Handles { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), turn: AtomicUsize::new(0) }
    }

    /// Opens a node with `open(2)`'s flags. The number is never 0.
    pub(crate) fn open(&self, node: Node, flags: i32) -> u64 {
        let sync = flags & libc::O_DSYNC != 0;
        let handle = Arc::new(Handle { node, sync, no_capabilities_at: AtomicU64::new(u64::MAX) });
        let shard = self.turn.fetch_add(1, Relaxed) % SHARDS;
        let mut slab = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
        let at = match slab.free.pop() {
            Some(at) => at as usize,
            None => {
                slab.all.push(None);
                slab.all.len() - 1
            }
        };
        slab.all[at] = Some(handle);
        ((at + 1) * SHARDS + shard) as u64
    }

    /// The handle of this number. `EBADF` if there is none.
    pub(crate) fn get(&self, fh: u64) -> NodeResult<Arc<Handle>> {
        let (shard, at) = Self::split(fh).ok_or(Errno(libc::EBADF))?;
        let slab = self.shards[shard].read().unwrap_or_else(PoisonError::into_inner);
        slab.all.get(at).and_then(Clone::clone).ok_or(Errno(libc::EBADF))
    }

    /// Closes it.
    pub(crate) fn close(&self, fh: u64) {
        let Some((shard, at)) = Self::split(fh) else { return };
        let gone = {
            let mut slab = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
            let gone = slab.all.get_mut(at).and_then(Option::take);
            if gone.is_some() {
                slab.free.push(at as u32);
            }
            gone
        };
        drop(gone); // which may free an object: not while the slab is locked
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let all = std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            drop(all.all);
        }
    }

    fn split(fh: u64) -> Option<(usize, usize)> {
        let fh = usize::try_from(fh).ok()?;
        Some((fh % SHARDS, (fh / SHARDS).checked_sub(1)?))
    }
}
