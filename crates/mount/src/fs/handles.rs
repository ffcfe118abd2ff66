//! Handles of open files and directories.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use poolwright_openzfs::{Errno, Node, NodeResult};

/// An open file or directory.
pub(crate) struct Handle {
    /// [`super::node_id::HEAD`] or an open snapshot.
    pub(crate) tree: u16,
    pub(crate) node: Node,
    /// Whether it was opened with `O_DSYNC`. A WRITE carries this flag itself; COPY_FILE_RANGE does not.
    pub(crate) sync: bool,
    /// The value of [`super::FileSystem`]'s `capabilities` counter when the file was last known to have none.
    pub(crate) no_capabilities_at: AtomicU64,
    /// Whether a rollback has changed the file's length, which the kernel may not know yet.
    pub(crate) resized: bool,
}

impl Handle {
    fn new(tree: u16, node: Node, sync: bool) -> Handle {
        Handle { tree, node, sync, no_capabilities_at: AtomicU64::new(u64::MAX), resized: false }
    }
}

/// The state of a handle's number, while the kernel has it.
enum Slot {
    Open(Arc<Handle>),
    /// The open object no longer exists; the kernel can only close the handle.
    Stale,
}

/// The state of a handle while its dataset is closed.
pub(crate) struct Suspended {
    fh: u64,
    pub(crate) object: u64,
    pub(crate) generation: u64,
    size: u64,
    sync: bool,
}

/// Open handles by their number. A number is an index into one of a few tables, so a lookup costs one index operation and
/// a shared lock.
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

    /// Opens a node of a tree with the flags of `open(2)`. Returns the handle's number, which is never 0.
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

    /// The handle with this number. Fails with `EBADF` if there is none, and with `EIO` if its object no longer exists.
    pub(crate) fn get(&self, fh: u64) -> NodeResult<Arc<Handle>> {
        let (shard, at) = Self::split(fh).ok_or(Errno(libc::EBADF))?;
        let slab = self.shards[shard].read().unwrap_or_else(PoisonError::into_inner);
        match slab.all.get(at) {
            Some(Some(Slot::Open(handle))) => Ok(Arc::clone(handle)),
            Some(Some(Slot::Stale)) => Err(Errno(libc::EIO)),
            _ => Err(Errno(libc::EBADF)),
        }
    }

    /// Closes a handle.
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
        drop(gone); // may free an object, so the slab must be unlocked
    }

    /// Releases all nodes of a tree. Their numbers stay allocated, and are stale until they are resumed.
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
            drop(gone); // may free objects, so the slab must be unlocked
        }
        all
    }

    /// Gives a suspended handle its object again.
    pub(crate) fn resume(&self, tree: u16, was: &Suspended, node: Node) {
        let Some((shard, at)) = Self::split(was.fh) else { return };
        let resized = node.size() != was.size;
        let handle = Handle { resized, ..Handle::new(tree, node, was.sync) };
        let mut slab = self.shards[shard].write().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot @ Some(Slot::Stale)) = slab.all.get_mut(at) {
            *slot = Some(Slot::Open(Arc::new(handle)));
        }
    }

    /// Number of open handles in a tree.
    pub(crate) fn count(&self, tree: u16) -> usize {
        let of = |slot: &Option<Slot>| matches!(slot, Some(Slot::Open(handle)) if handle.tree == tree);
        let shards = self.shards.iter().map(|shard| shard.read().unwrap_or_else(PoisonError::into_inner));
        shards.map(|slab| slab.all.iter().filter(|slot| of(slot)).count()).sum()
    }

    /// Closes all handles.
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
