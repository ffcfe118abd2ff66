//! Snapshots that the kernel knows something of. Each is open from its first lookup until the kernel has forgotten the
//! last of its nodes.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use poolwright_openzfs::{Dataset, Errno, Node, NodeResult, Pool};

use super::{FileSystem, is_dots, node_id};

/// Most snapshots open at once: what fits above an object's number, less [`super::node_id::HEAD`].
const MOST: usize = u16::MAX as usize;

struct Open {
    name: String,
    dataset: Dataset,
    /// Nodes of it that the kernel knows, and lookups on their way to it.
    users: u64,
}

#[derive(Default)]
struct Table {
    slots: Vec<Option<Open>>,
    /// Names that are about to be destroyed: no lookup finds them.
    barred: Vec<String>,
}

impl Table {
    fn position(&self, name: &str) -> Option<usize> {
        self.slots.iter().position(|s| s.as_ref().is_some_and(|s| s.name == name))
    }

    /// The slot of a tree's number.
    fn slot(&mut self, tree: u16) -> Option<&mut Option<Open>> {
        self.slots.get_mut(usize::from(tree).wrapping_sub(1))
    }
}

/// The open snapshots of a dataset.
pub(crate) struct Snapshots {
    pool: Pool,
    /// The dataset, by its full name and by that in its pool. Not its handle: a rollback closes it.
    of: (String, String),
    table: Mutex<Table>,
}

impl Snapshots {
    pub(crate) fn new(pool: Pool, of: &Dataset) -> Snapshots {
        let of = (of.name().to_owned(), of.name_in(&pool).to_owned());
        Snapshots { pool, of, table: Mutex::default() }
    }

    /// The pool that all is in.
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

    /// Names of all there are.
    pub(crate) fn names(&self) -> NodeResult<Vec<String>> {
        let all = self.pool.list().map_err(|_| Errno(libc::EIO))?;
        let own = |full: String| full.strip_prefix(&self.of.0)?.strip_prefix('@').map(str::to_owned);
        Ok(all.into_iter().filter_map(own).collect())
    }

    /// Opens a snapshot and gives its tree's number and its root directory. It stays open until [`Snapshots::leave`].
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
                // The engine would also take `a@b` or a name that is none; asking for the list settles both.
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

    /// The kernel learned of one more node of it.
    pub(crate) fn more(&self, tree: u16) {
        if let Some(Some(one)) = self.table().slot(tree) {
            one.users += 1;
        }
    }

    /// The kernel forgot a node of it, or a lookup is done.
    pub(crate) fn leave(&self, tree: u16) {
        let mut table = self.table();
        let Some(slot) = table.slot(tree) else { return };
        let last = slot.as_mut().is_some_and(|one| {
            one.users = one.users.saturating_sub(1);
            one.users == 0
        });
        if last {
            // Closed under the lock: until it is closed it cannot be opened again.
            *slot = None;
        }
    }

    /// Looks at a snapshot through the handle that the kernel's requests use, which is opened if it is not yet.
    pub(crate) fn with<T>(&self, name: &str, look: impl FnOnce(&Dataset) -> T) -> NodeResult<T> {
        let (tree, root) = self.enter(name)?;
        drop(root);
        let open = self.table().slot(tree).and_then(|slot| slot.as_ref().map(|one| one.dataset.clone()));
        let seen = open.as_ref().map(look).ok_or(Errno(libc::ESTALE));
        drop(open);
        self.leave(tree);
        seen
    }

    /// Keeps a snapshot from being opened, if it is not open: until [`Snapshots::lift_bar`].
    pub(crate) fn bar(&self, name: &str) -> bool {
        let mut table = self.table();
        let closed = table.position(name).is_none();
        if closed {
            table.barred.push(name.to_owned());
        }
        closed
    }

    /// The snapshot may be opened again.
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

    /// Closes all.
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

    /// Files and directories of a snapshot that are open.
    pub(crate) fn open_in_snapshot(&self, name: &str) -> usize {
        self.snapshots.tree(name).map_or(0, |tree| self.handles.count(tree))
    }

    /// Directories of a snapshot, and names in them, that the kernel knows.
    ///
    /// A snapshot's own name is not enough to make it forget them: once that name is forgotten while a file below it is
    /// open, the kernel keeps the file's name when it is closed, and no path leads there.
    pub(crate) fn names_in_snapshot(&self, name: &str) -> Vec<(u64, CString)> {
        let Some(tree) = self.snapshots.tree(name) else { return Vec::new() };
        let mut names = Vec::new();
        for dir in self.lookup_counts.ids(|nodeid| node_id::tree(nodeid) == tree) {
            let node_id::NodeId::Object { object, .. } = self.decode(dir) else { continue };
            let Ok(node) = self.snapshots.node(tree, object) else { continue };
            if node.mode() & libc::S_IFMT != libc::S_IFDIR {
                continue;
            }
            // What cannot be listed stays known, and the snapshot in use.
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
