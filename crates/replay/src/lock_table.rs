//! The file locks held by a replay's lanes.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock_range::LockRange;

/// The owner of each locked range of each file. As with `fcntl`, a lock belongs to a process: its threads do not
/// exclude each other.
#[derive(Default)]
pub(crate) struct LockTable(Mutex<HashMap<u32, Vec<Held>>>);

struct Held {
    process: u32,
    range: LockRange,
}

impl LockTable {
    /// Takes a lock unless another process holds a conflicting one. Returns whether it was taken. A process's new lock
    /// replaces its locks in the same range.
    pub fn try_lock(&self, process: u32, file: u32, range: LockRange) -> bool {
        let mut files = self.0.lock().expect("lock is not poisoned");
        let held = files.entry(file).or_default();
        if held.iter().any(|other| other.process != process && other.range.conflicts(&range)) {
            return false;
        }
        take(held, process, range);
        true
    }

    /// Takes a lock even if it conflicts with another process's lock.
    pub fn force(&self, process: u32, file: u32, range: LockRange) {
        let mut files = self.0.lock().expect("lock is not poisoned");
        take(files.entry(file).or_default(), process, range);
    }

    /// Releases the locks of a process that overlap a range.
    pub fn unlock(&self, process: u32, file: u32, range: LockRange) {
        let mut files = self.0.lock().expect("lock is not poisoned");
        if let Some(held) = files.get_mut(&file) {
            held.retain(|other| other.process != process || !other.range.overlaps(&range));
        }
    }

    /// Whether a process holds a lock.
    pub fn holds(&self, process: u32) -> bool {
        let files = self.0.lock().expect("lock is not poisoned");
        files.values().flatten().any(|held| held.process == process)
    }

    /// Releases all locks of a process.
    pub fn unlock_all(&self, process: u32) {
        let mut files = self.0.lock().expect("lock is not poisoned");
        for held in files.values_mut() {
            held.retain(|other| other.process != process);
        }
    }
}

fn take(held: &mut Vec<Held>, process: u32, range: LockRange) {
    held.retain(|other| other.process != process || !other.range.overlaps(&range));
    held.push(Held { process, range });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(offset: u64, len: u64, shared: bool) -> LockRange {
        LockRange { offset, len, shared }
    }

    #[test]
    fn a_lock_excludes_those_of_other_processes_that_conflict() {
        let table = LockTable::default();
        assert!(table.try_lock(1, 0, range(120, 1, false)));
        assert!(table.try_lock(1, 0, range(120, 1, false)), "another thread of the process");
        assert!(!table.try_lock(2, 0, range(100, 0, true)), "to the end of the file");
        assert!(table.try_lock(2, 0, range(121, 4, false)), "beside it");
        assert!(table.try_lock(2, 1, range(120, 1, false)), "of another file");
        table.unlock(1, 0, range(0, 0, false));
        assert!(table.try_lock(2, 0, range(120, 1, true)));
        assert!(table.try_lock(3, 0, range(120, 1, true)), "readers share");
        assert!(!table.try_lock(2, 0, range(120, 1, false)), "but none can take a write lock");
        table.unlock(3, 0, range(120, 1, false));
        assert!(table.try_lock(2, 0, range(120, 1, false)));
        assert!(!table.try_lock(3, 0, range(120, 1, true)));
        table.force(3, 0, range(120, 1, true));
        assert!(!table.try_lock(2, 0, range(120, 1, false)));
        assert!(table.holds(3));
        table.unlock_all(3);
        assert!(!table.holds(3));
        assert!(table.try_lock(2, 0, range(120, 1, false)));
    }
}
