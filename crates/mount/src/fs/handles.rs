//! What is open.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use poolwright_openzfs::{Errno, Node, NodeResult};

/// An open file or directory.
pub(crate) struct Handle {
    /// [`super::node_id::HEAD`] or an open snapshot.
    pub(crate) tree: u16,
    pub(crate) node: Node,
    /// Opened with `O_DSYNC`. A write says so itself; a copy does not.
    pub(crate) sync: bool,
    /// When it was last seen to that the file has no capabilities, in terms of [`super::FileSystem`]'s count of such
    /// attributes being set.
    pub(crate) no_capabilities_at: AtomicU64,
    /// The dataset was rolled back and the file has another length since, which the kernel may not know yet.
    pub(crate) resized: bool,
}

impl Handle {
    fn new(tree: u16, node: Node, sync: bool) -> Handle {
        Handle { tree, node, sync, no_capabilities_at: AtomicU64::new(u64::MAX), resized: false }
    }
}

/// A number that the kernel has.
enum Slot {
    Open(Arc<Handle>),
    /// What was open is gone: only to be closed.
    Stale,
}

/// What is remembered of a handle while its dataset is closed.
pub(crate) struct Suspended {
    fh: u64,
    pub(crate) object: u64,
    pub(crate) generation: u64,
    size: u64,
    sync: bool,
}

/// Handles of files, by the number the kernel has for them. Numbers are places in a few tables, so that looking one up
/// costs an index and a shared lock.
pub(crate) struct Handles {
    shards: Vec<RwLock<Slab>>,
    turn: AtomicUsize,
}

#[derive(Default)]
struct Slab {
    all: Vec<Option<Slot>>,
    free: Vec<u32>,
}

const SHARDS: usize = 16;

impl Handles {
    pub(crate) fn new() -> Handles {
        Handles { shards: (0..SHARDS).map(|_| RwLock::default()).collect(), turn: AtomicUsize::new(0) }
    }

    /// Opens a node of a tree with `open(2)`'s flags. The number is never 0.
    pub(crate) fn open(&self, tree: u16, node: Node, flags: i32) -> u64 {
        let handle = Arc::new(Handle::new(tree, node, flags & libc::O_DSYNC != 0));
        let shard = self.turn.fetch_add(1, Relaxed) % SHARDS;
        let mut slab = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
        let at = match slab.free.pop() {
            Some(at) => at as usize,
            None => {
                slab.all.push(None);
                slab.all.len() - 1
            }
        };
        slab.all[at] = Some(Slot::Open(handle));
        Self::number(shard, at)
    }

    /// The handle of this number. `EBADF` if there is none, `EIO` if what it had open is gone.
    pub(crate) fn get(&self, fh: u64) -> NodeResult<Arc<Handle>> {
        let (shard, at) = Self::split(fh).ok_or(Errno(libc::EBADF))?;
        let slab = self.shards[shard].read().unwrap_or_else(PoisonError::into_inner);
        match slab.all.get(at) {
            Some(Some(Slot::Open(handle))) => Ok(Arc::clone(handle)),
            Some(Some(Slot::Stale)) => Err(Errno(libc::EIO)),
            _ => Err(Errno(libc::EBADF)),
        }
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

    /// Lets go of all nodes of a tree. Their numbers stay taken, and are stale until they are resumed.
    pub(crate) fn suspend(&self, tree: u16) -> Vec<Suspended> {
        let mut all = Vec::new();
        for (shard, slab) in self.shards.iter().enumerate() {
            let mut gone = Vec::new();
            let mut slab = slab.write().unwrap_or_else(PoisonError::into_inner);
            for (at, slot) in slab.all.iter_mut().enumerate() {
                let Some(Slot::Open(handle)) = slot else { continue };
                if handle.tree != tree {
                    continue;
                }
                let node = &handle.node;
                all.push(Suspended {
                    fh: Self::number(shard, at),
                    object: node.object(),
                    generation: node.generation(),
                    size: node.size(),
                    sync: handle.sync,
                });
                gone.extend(slot.replace(Slot::Stale));
            }
            drop(slab);
            drop(gone); // which may free objects: not while the slab is locked
        }
        all
    }

    /// A suspended handle has its object again.
    pub(crate) fn resume(&self, tree: u16, was: &Suspended, node: Node) {
        let Some((shard, at)) = Self::split(was.fh) else { return };
        let resized = node.size() != was.size;
        let handle = Handle { resized, ..Handle::new(tree, node, was.sync) };
        let mut slab = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot @ Some(Slot::Stale)) = slab.all.get_mut(at) {
            *slot = Some(Slot::Open(Arc::new(handle)));
        }
    }

    /// How many are open in a tree.
    pub(crate) fn count(&self, tree: u16) -> usize {
        let of = |slot: &Option<Slot>| matches!(slot, Some(Slot::Open(handle)) if handle.tree == tree);
        let shards = self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner));
        shards.map(|slab| slab.all.iter().filter(|slot| of(slot)).count()).sum()
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let all = std::mem::take(&mut *shard.write().unwrap_or_else(PoisonError::into_inner));
            drop(all.all);
        }
    }

    fn number(shard: usize, at: usize) -> u64 {
        ((at + 1) * SHARDS + shard) as u64
    }

    fn split(fh: u64) -> Option<(usize, usize)> {
        let fh = usize::try_from(fh).ok()?;
        Some((fh % SHARDS, (fh / SHARDS).checked_sub(1)?))
    }
}
