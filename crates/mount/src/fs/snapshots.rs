//! Snapshots that the kernel knows something of. Each is open from its first lookup until the kernel has forgotten the
//! last of its nodes.

use std::sync::{Mutex, MutexGuard, PoisonError};

use poolwright_openzfs::{Dataset, Errno, Node, NodeResult, Pool};

/// Most snapshots open at once: what fits above an object's number, less [`super::place::HEAD`].
const MOST: usize = u16::MAX as usize;

struct Open {
    name: String,
    dataset: Dataset,
    /// Nodes of it that the kernel knows, and lookups on their way to it.
    users: u64,
}

/// The open snapshots of a dataset.
pub(crate) struct Snapshots {
    pool: Pool,
    /// The dataset, by its full name and by that in its pool. Not its handle: a rollback closes it.
    of: (String, String),
    slots: Mutex<Vec<Option<Open>>>,
}

impl Snapshots {
    pub(crate) fn new(pool: Pool, of: &Dataset) -> Snapshots {
        let of = (of.name().to_owned(), of.name_in(&pool).to_owned());
        Snapshots { pool, of, slots: Mutex::default() }
    }

    /// The pool that all is in.
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The dataset's name in the pool.
    pub(crate) fn dataset(&self) -> &str {
        &self.of.1
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Option<Open>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of all there are.
    pub(crate) fn names(&self) -> NodeResult<Vec<String>> {
        let all = self.pool.list().map_err(|_| Errno(libc::EIO))?;
        let own = |full: String| full.strip_prefix(&self.of.0)?.strip_prefix('@').map(str::to_owned);
        Ok(all.into_iter().filter_map(own).collect())
    }

    /// Opens a snapshot and gives its tree's number and its root directory. It stays open until [`Snapshots::leave`].
    pub(crate) fn enter(&self, name: &str) -> NodeResult<(u16, Node)> {
        let mut slots = self.slots();
        let open = slots.iter().position(|s| s.as_ref().is_some_and(|s| s.name == name));
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
        if let Some(Some(one)) = self.slots().get_mut(usize::from(tree).wrapping_sub(1)) {
            one.users += 1;
        }
    }

    /// The kernel forgot a node of it, or a lookup is done.
    pub(crate) fn leave(&self, tree: u16) {
        let mut slots = self.slots();
        let Some(slot) = slots.get_mut(usize::from(tree).wrapping_sub(1)) else { return };
        let last = slot.as_mut().is_some_and(|one| {
            one.users = one.users.saturating_sub(1);
            one.users == 0
        });
        let gone = if last { slot.take() } else { None };
        drop(slots);
        drop(gone);
    }

    /// A node of a snapshot.
    pub(crate) fn node(&self, tree: u16, object: u64) -> NodeResult<Node> {
        let dataset = match self.slots().get(usize::from(tree).wrapping_sub(1)) {
            Some(Some(one)) => one.dataset.clone(),
            _ => return Err(Errno(libc::ESTALE)),
        };
        dataset.node(object)
    }

    /// Closes all.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut *self.slots());
        drop(all);
    }
}
