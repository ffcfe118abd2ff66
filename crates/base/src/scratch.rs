//! Scratch directories: private, locked while their process lives, removed when it ends or by the next process.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::private::{is_at, make_dir};
use crate::sweep::lock;
pub use crate::sweep::sweep;
use crate::{Transient, memory, room, temporary};

/// A file system in memory.
const IN_MEMORY: &str = "/dev/shm";

/// The directories in which scratch directories are created unless the user names another: a file system in memory, and the
/// temporary directory.
pub fn parents() -> [PathBuf; 2] {
    [PathBuf::from(IN_MEMORY), std::env::temp_dir()]
}

/// The file system in memory if it and the memory have space for more than twice `needed` bytes; otherwise the temporary
/// directory.
pub fn parent_for(needed: u64) -> PathBuf {
    let [in_memory, temporary] = parents();
    let twice = needed.saturating_mul(2);
    let fits = room::available(&in_memory).is_ok_and(|free| free >= twice)
        && memory::available().is_some_and(|available| available > twice);
    if fits { in_memory } else { temporary }
}

/// A private directory, removed when this is dropped. The kernel releases its lock however the process ends, so [`sweep`]
/// can distinguish the directory of a killed process from that of a live one without relying on process IDs.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// `None` if the file system cannot lock directories (NFS). The directory of a killed process is not removed there.
    _lock: Option<OwnedFd>,
    _transient: Transient,
}

impl Scratch {
    /// Creates a directory in `parent`, named `prefix` and a random number. First removes the directories with this prefix
    /// that killed processes have left.
    ///
    /// # Errors
    /// The host's errors; `PermissionDenied` if the process runs as root, and another user controls `TMPDIR` and could rename the
    /// directory.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Scratch> {
        const ATTEMPTS: u32 = 100;
        temporary::check(parent)?;
        sweep(parent, prefix);
        for _ in 0..ATTEMPTS {
            let path = parent.join(format!("{prefix}{:016x}", RandomState::new().build_hasher().finish()));
            match make_dir(&path) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let transient = Transient::new(&path);
            // Another process's sweep may hold the lock, or may have removed the directory already.
            let lock = match lock(&path) {
                Ok(lock) if is_at(&lock, &path) => Some(lock),
                Ok(_) => continue,
                Err(why) if matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotFound) => {
                    continue;
                }
                Err(_) => None,
            };
            return Ok(Scratch { path, _lock: lock, _transient: transient });
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "found no unused name for a scratch directory"))
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt as _, symlink};

    const PREFIX: &str = "scratch-";

    #[test]
    fn a_live_directory_stays_and_a_dead_one_goes() {
        let dir = tempfile::tempdir().unwrap();
        let live = Scratch::create(dir.path(), PREFIX).unwrap();
        assert_eq!(std::fs::metadata(live.path()).unwrap().mode() & 0o777, 0o700);
        std::fs::write(live.path().join("file"), "x").unwrap();
        // Like that of a killed process: no process has locked it, although its name holds a live process's ID.
        let dead = dir.path().join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir_all(dead.join("below")).unwrap();
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        symlink(&other, dir.path().join(format!("{PREFIX}link"))).unwrap();
        assert_eq!(sweep(dir.path(), PREFIX), 1);
        assert!(!dead.exists() && other.exists() && live.path().join("file").exists());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn data_that_does_not_fit_into_memory_goes_to_the_temporary_directory() {
        assert_eq!(parent_for(u64::MAX), std::env::temp_dir());
        assert!(parents().contains(&parent_for(0)));
    }

    /// The test runs itself with another environment.
    #[test]
    fn root_does_not_use_another_users_temporary_directory() {
        const CHILD: &str = "POOLWRIGHT_TEST_IS_CHILD";
        if std::env::var_os(CHILD).is_some() {
            let parent = std::env::temp_dir();
            let why = Scratch::create(&parent, PREFIX).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::PermissionDenied);
            assert!(why.to_string().contains("belongs to user 12345") && why.to_string().contains("hint: "));
            assert_eq!(sweep(&parent, PREFIX), 0);
            return;
        }
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let left = dir.path().join(format!("{PREFIX}1"));
        std::fs::create_dir(&left).unwrap();
        if std::os::unix::fs::chown(dir.path(), Some(12345), None).is_err() {
            eprintln!("not tested: only root can give a directory away");
            return;
        }
        let test = "scratch::tests::root_does_not_use_another_users_temporary_directory";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let done = child.args(["--exact", test]).env("TMPDIR", dir.path()).env(CHILD, "").output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        assert!(left.exists());
        // The administrator can name it.
        Scratch::create(dir.path(), PREFIX).unwrap();
    }

    #[test]
    fn another_users_directory_stays() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join(format!("{PREFIX}1"));
        std::fs::create_dir(&theirs).unwrap();
        if std::os::unix::fs::chown(&theirs, Some(12345), None).is_err() {
            eprintln!("not tested: only root can give a directory away");
            return;
        }
        assert_eq!(sweep(dir.path(), PREFIX), 0);
        assert!(theirs.exists());
    }
}
