//! The file locks held by a replay's lanes.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock_range::LockRange;

/// The owner of each locked range of each file. As with `fcntl`, a lock belongs to a process: its threads do not
/// exclude each other.
#[derive(Default)]
pub(crate) struct LockTable(Mutex<HashMap<u32, Vec<Held>>>);

/// The lane that takes a lock, and its process.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Owner {
    pub process: u32,
    pub lane: usize,
}

struct Held {
    owner: Owner,
    range: LockRange,
}

impl LockTable {
    /// Takes locks, each of a file's range, unless another process holds a conflicting one. Returns whether they were taken: all or
    /// none. A process's new lock replaces its locks in the same range.
    pub fn try_lock(&self, owner: Owner, wanted: &[(u32, LockRange)]) -> bool {
        let mut files = self.0.lock().expect("lock is not poisoned");
        let is_held = |(file, range): &(u32, LockRange)| {
            let held = files.get(file).into_iter().flatten();
            held.into_iter().any(|other| other.owner.process != owner.process && other.range.conflicts(range))
        };
        if wanted.iter().any(is_held) {
            return false;
        }
        for (file, range) in wanted {
            take(files.entry(*file).or_default(), owner, *range);
        }
        true
    }

    /// Takes locks even if they conflict with another process's locks.
    pub fn force(&self, owner: Owner, wanted: &[(u32, LockRange)]) {
        let mut files = self.0.lock().expect("lock is not poisoned");
        for (file, range) in wanted {
            take(files.entry(*file).or_default(), owner, *range);
        }
    }

    /// Releases the locks of a process that overlap a range.
    pub fn unlock(&self, process: u32, file: u32, range: LockRange) {
        let mut files = self.0.lock().expect("lock is not poisoned");
        if let Some(held) = files.get_mut(&file) {
            held.retain(|other| other.owner.process != process || !other.range.overlaps(&range));
        }
    }

    /// Whether a process holds a lock.
    pub fn holds(&self, process: u32) -> bool {
        let files = self.0.lock().expect("lock is not poisoned");
        files.values().flatten().any(|held| held.owner.process == process)
    }

    /// Releases all locks of a process.
    pub fn unlock_all(&self, process: u32) {
        let mut files = self.0.lock().expect("lock is not poisoned");
        for held in files.values_mut() {
            held.retain(|other| other.owner.process != process);
        }
    }

    /// Releases the locks that a lane took, and returns them. Those of other lanes of its process stay.
    pub fn give_up(&self, owner: Owner) -> Vec<(u32, LockRange)> {
        let mut files = self.0.lock().expect("lock is not poisoned");
        let release = |(file, held): (&u32, &mut Vec<Held>)| {
            let released = held.extract_if(.., |other| other.owner == owner);
            released.map(|other| (*file, other.range)).collect::<Vec<_>>()
        };
        files.iter_mut().flat_map(release).collect()
    }
}

fn take(held: &mut Vec<Held>, owner: Owner, range: LockRange) {
    held.retain(|other| other.owner.process != owner.process || !other.range.overlaps(&range));
    held.push(Held { owner, range });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(lane: usize, process: u32) -> Owner {
        Owner { process, lane }
    }

    fn range(offset: u64, len: u64, shared: bool) -> LockRange {
        LockRange { offset, len, shared }
    }

    #[test]
    fn a_lock_excludes_those_of_other_processes_that_conflict() {
        let table = LockTable::default();
        let try_lock = |process, file, range| table.try_lock(lane(0, process), &[(file, range)]);
        assert!(try_lock(1, 0, range(120, 1, false)));
        assert!(try_lock(1, 0, range(120, 1, false)), "another thread of the process");
        assert!(!try_lock(2, 0, range(100, 0, true)), "to the end of the file");
        assert!(try_lock(2, 0, range(121, 4, false)), "beside it");
        assert!(try_lock(2, 1, range(120, 1, false)), "of another file");
        table.unlock(1, 0, range(0, 0, false));
        assert!(try_lock(2, 0, range(120, 1, true)));
        assert!(try_lock(3, 0, range(120, 1, true)), "readers share");
        assert!(!try_lock(2, 0, range(120, 1, false)), "but none can take a write lock");
        table.unlock(3, 0, range(120, 1, false));
        assert!(try_lock(2, 0, range(120, 1, false)));
        assert!(!try_lock(3, 0, range(120, 1, true)));
        table.force(lane(0, 3), &[(0, range(120, 1, true))]);
        assert!(!try_lock(2, 0, range(120, 1, false)));
        assert!(table.holds(3));
        table.unlock_all(3);
        assert!(!table.holds(3));
        assert!(try_lock(2, 0, range(120, 1, false)));
    }

    #[test]
    fn a_lane_gives_up_its_own_locks() {
        let table = LockTable::default();
        assert!(table.try_lock(lane(0, 1), &[(0, range(120, 1, true))]));
        assert!(table.try_lock(lane(1, 1), &[(0, range(124, 1, true))]));
        assert_eq!(table.give_up(lane(0, 1)), [(0, range(120, 1, true))]);
        assert!(table.holds(1) && !table.try_lock(lane(2, 2), &[(0, range(124, 1, false))]));
    }

    #[test]
    fn locks_are_taken_together_or_not_at_all() {
        let table = LockTable::default();
        assert!(table.try_lock(lane(0, 1), &[(0, range(120, 1, false))]));
        let both = [(1, range(0, 1, false)), (0, range(120, 1, true))];
        assert!(!table.try_lock(lane(1, 2), &both));
        assert!(!table.holds(2));
        table.unlock_all(1);
        assert!(table.try_lock(lane(1, 2), &both));
    }
}
