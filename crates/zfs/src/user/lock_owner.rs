//! The process that has locked a pool file, from `/proc/locks`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use poolwright_base::process;
use rustix::fs::{major, minor};

/// A process that has a pool's file open and locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOwner {
    /// Its process ID.
    pub pid: i32,
    /// Its command line, arguments separated by spaces; empty if it cannot be read.
    pub command: String,
}

impl LockOwner {
    /// The process that holds the lock of this file. `None` if no process does, or `/proc` does not show it.
    pub fn of(file: &Path) -> Option<LockOwner> {
        let meta = fs::metadata(file).ok()?;
        let locks = fs::read_to_string("/proc/locks").ok()?;
        let pid = owner_in(&locks, major(meta.dev()), minor(meta.dev()), meta.ino())?;
        Some(LockOwner { pid, command: process::command_line(pid) })
    }
}

/// Finds the owner in lines such as `1: FLOCK  ADVISORY  WRITE 705 00:17:1234 0 EOF`. Lines with `->` are of waiters.
fn owner_in(locks: &str, major: u32, minor: u32, inode: u64) -> Option<i32> {
    let matching = |line: &str, whole: bool| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, id, ..] = words[..] else { return None };
        let (device, number) = id.rsplit_once(':')?;
        let same_device = device == format!("{major:02x}:{minor:02x}");
        // On btrfs and overlayfs, `/proc/locks` and `stat` report different devices.
        (number.parse() == Ok(inode) && (same_device || !whole)).then(|| pid.parse().ok())?
    };
    let found = |whole| locks.lines().find_map(|line| matching(line, whole)).filter(|pid| *pid > 0);
    found(true).or_else(|| found(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_and_a_waiter_is_not() {
        let locks = "1: POSIX  ADVISORY  WRITE 1 08:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 705 08:01:77 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 706 08:01:77 0 EOF\n3: FLOCK  ADVISORY  WRITE 9 00:17:78 0 EOF\n";
        assert_eq!(owner_in(locks, 8, 1, 77), Some(705));
        assert_eq!(owner_in(locks, 8, 1, 78), Some(9));
        assert_eq!(owner_in(locks, 8, 1, 79), None);
        assert_eq!(owner_in("", 8, 1, 77), None);
    }

    #[test]
    fn a_file_that_this_process_locks() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(LockOwner::of(file.path()), None);
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let holder = LockOwner::of(file.path()).unwrap();
        assert_eq!(holder.pid, std::process::id() as i32);
        assert!(!holder.command.is_empty());
    }
}
