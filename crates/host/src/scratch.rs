//! Scratch directories: private, locked while their process lives, removed at its end or by the next one.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::Transient;
use crate::private::{is_at, make_dir};
use crate::sweep::lock;
pub use crate::sweep::sweep;

/// A private directory, removed when this is dropped. The kernel releases its lock when the process ends, however it ends,
/// so [`sweep`] tells a killed process's directory from a live one's without relying on process ids.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// None where the file system has no locks for directories (NFS): there, a killed process's directory stays.
    _lock: Option<OwnedFd>,
    _transient: Transient,
}

impl Scratch {
    /// Makes `PREFIX` and a random number in `parent`, and removes what killed processes left there under that prefix.
    ///
    /// # Errors
    /// As the host says.
    pub fn create(parent: &Path, prefix: &str) -> io::Result<Scratch> {
        const ATTEMPTS: u32 = 100;
        sweep(parent, prefix);
        for _ in 0..ATTEMPTS {
            let path = parent.join(format!("{prefix}{:016x}", RandomState::new().build_hasher().finish()));
            match make_dir(&path) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            let transient = Transient::new(&path);
            // Another process's sweep may have come between: it holds the lock, or has removed the directory.
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
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "no free name for a scratch directory was found"))
    }

    /// Where it is.
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
        // As a killed process leaves one: no process has it locked, whatever number its name holds.
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
