//! Snapshots with nodes that the kernel references. Each is open from its first lookup until the kernel has forgotten its last node.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use poolwright_openzfs::{Dataset, Errno, Node, NodeResult, Pool};

use super::{FileSystem, is_dots, node_id};

/// The most snapshots open at once: the values that fit above an object's number, except [`super::node_id::HEAD`].
const MOST: usize = u16::MAX as usize;

struct Open {
    name: String,
    dataset: Dataset,
    /// Number of its nodes that the kernel knows, plus lookups in progress.
    users: u64,
}

#[derive(Default)]
struct Table {
    slots: Vec<Option<Open>>,
    /// Names of snapshots about to be destroyed, which lookups do not find.
    barred: Vec<String>,
}

impl Table {
    fn position(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|s| s.as_ref().is_some_and(|s| s.name == name))
    }

    /// The slot of a tree.
    fn slot(&mut self, tree: u16) -> Option<&mut Option<Open>> {
        self.slots.get_mut(usize::from(tree).wrapping_sub(1))
    }
}

/// The open snapshots of a dataset.
pub(crate) struct Snapshots {
    pool: Pool,
    /// The dataset's full name and its name in the pool. Not its handle, which a rollback closes.
    of: (String, String),
    table: Mutex<Table>,
}

impl Snapshots {
    pub(crate) fn new(pool: Pool, of: &Dataset) -> Snapshots {
        let of = (of.name().to_owned(), of.name_in(&pool).to_owned());
        Snapshots { pool, of, table: Mutex::default() }
    }

    /// The pool of the dataset.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The dataset's name in the pool.
    pub(crate) fn dataset(&self) -> &str {
        &self.of.1
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of all snapshots of the dataset.
    pub(crate) fn names(&self) -> NodeResult<Vec<String>> {
        let all = self.pool.list().map_err(|_| Errno(libc::EIO))?;
        let own = |full: String| full.strip_prefix(&self.of.0)?.strip_prefix('@').map(str::to_owned);
        Ok(all.into_iter().filter_map(own).collect())
    }

    /// Opens a snapshot, and returns its tree's number and its root directory. It stays open until [`Snapshots::leave`].
    pub(crate) fn enter(&self, name: &str) -> NodeResult<(u16, Node)> {
        let mut table = self.table();
        if table.barred.iter().any(|barred| barred == name) {
            return Err(Errno(libc::ENOENT));
        }
        let open = table.position(name);
        let slots = &mut table.slots;
        let at = match open {
            Some(at) => at,
            None => {
                // The engine would also accept `a@b` or an invalid name; a name in the list is neither.
                if !self.names()?.iter().any(|known| known == name) {
                    return Err(Errno(libc::ENOENT));
                }
                let dataset = self.pool.open_snapshot(&self.of.1, name).map_err(|_| Errno(libc::EIO))?;
                let fresh = Some(Open { name: name.to_owned(), dataset, users: 0 });
                match slots.iter().position(Option::is_none) {
                    Some(at) => {
                        slots[at] = fresh;
                        at
                    }
                    None if slots.len() < MOST => {
                        slots.push(fresh);
                        slots.len() - 1
                    }
                    None => return Err(Errno(libc::ENFILE)),
                }
            }
        };
        let one = slots[at].as_mut().ok_or(Errno(libc::EIO))?;
        let root = one.dataset.root();
        if root.is_ok() {
            one.users += 1;
        } else if one.users == 0 {
            slots[at] = None;
        }
        Ok((at as u16 + 1, root?))
    }

    /// Counts another node of the snapshot that the kernel knows.
    pub(crate) fn more(&self, tree: u16) {
        if let Some(Some(one)) = self.table().slot(tree) {
            one.users += 1;
        }
    }

    /// Ends the use of a snapshot, after the kernel has forgotten a node or a lookup has ended.
    pub(crate) fn leave(&self, tree: u16) {
        let mut table = self.table();
        let Some(slot) = table.slot(tree) else { return };
        let last = slot.as_mut().is_some_and(|one| {
            one.users = one.users.saturating_sub(1);
            one.users == 0
        });
        if last {
            // Close it under the lock, because it cannot be opened again before it is closed.
            *slot = None;
        }
    }

    /// Calls `look` with the handle that the kernel's requests use, which is opened first if necessary.
    pub(crate) fn with<T>(&self, name: &str, look: impl FnOnce(&Dataset) -> T) -> NodeResult<T> {
        let (tree, root) = self.enter(name)?;
        drop(root);
        let open = self.table().slot(tree).and_then(|slot| slot.as_ref().map(|one| one.dataset.clone()));
        let seen = open.as_ref().map(look).ok_or(Errno(libc::ESTALE));
        drop(open);
        self.leave(tree);
        seen
    }

    /// Keeps a snapshot from being opened until [`Snapshots::lift_bar`]. Returns false, and does nothing, if it is open.
    pub(crate) fn bar(&self, name: &str) -> bool {
        let mut table = self.table();
        let closed = table.position(name).is_none();
        if closed {
            table.barred.push(name.to_owned());
        }
        closed
    }

    /// Allows the snapshot to be opened again.
    pub(crate) fn lift_bar(&self, name: &str) {
        self.table().barred.retain(|barred| barred != name);
    }

    /// The number of a snapshot's tree, if it is open.
    pub(crate) fn tree(&self, name: &str) -> Option<u16> {
        self.table().position(name).map(|at| at as u16 + 1)
    }

    /// A node of a snapshot.
    pub(crate) fn node(&self, tree: u16, object: u64) -> NodeResult<Node> {
        let dataset = match self.table().slot(tree) {
            Some(Some(one)) => one.dataset.clone(),
            _ => return Err(Errno(libc::ESTALE)),
        };
        dataset.node(object)
    }

    /// Closes all snapshots.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut self.table().slots);
        drop(all);
    }
}

impl FileSystem {
    /// The open snapshots.
    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    /// Number of open files and directories of a snapshot.
    pub(crate) fn open_in_snapshot(&self, name: &str) -> usize {
        self.snapshots.tree(name).map_or(0, |tree| self.handles.count(tree))
    }

    /// Directories of a snapshot, and names in them, that the kernel knows.
    ///
    /// Invalidating the snapshot's own name is not enough: if a file below it is open at that time, the kernel keeps the
    /// file's name when the file is closed, and the name can no longer be reached by a path.
    pub(crate) fn names_in_snapshot(&self, name: &str) -> Vec<(u64, CString)> {
        let Some(tree) = self.snapshots.tree(name) else { return Vec::new() };
        let mut names = Vec::new();
        for dir in self.lookup_counts.ids(|nodeid| node_id::tree(nodeid) == tree) {
            let node_id::NodeId::Object { object, .. } = self.decode(dir) else { continue };
            let Ok(node) = self.snapshots.node(tree, object) else { continue };
            if node.mode() & libc::S_IFMT != libc::S_IFDIR {
                continue;
            }
            // If a directory cannot be listed, the kernel keeps knowing its entries, and the snapshot stays in use.
            let _ = node.read_dir(0, &mut |e| {
                if !is_dots(e.name)
                    && self.lookup_counts.contains(node_id::id(tree, e.object, self.root_object))
                {
                    names.push((dir, e.name.to_owned()));
                }
                true
            });
        }
        names
    }
}
