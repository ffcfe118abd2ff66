//! Removes scratch directories that killed processes left. Live processes hold locks on theirs.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::process::geteuid;

use crate::private::{self, is_at};
use crate::temporary;

/// Removes this user's directories in `parent` whose names begin with `prefix` and whose process has ended. Returns their
/// number: none if this is root, and another user controls the directory because it is that of `TMPDIR`.
pub fn sweep(parent: &Path, prefix: &str) -> usize {
    if temporary::check(parent).is_err() {
        return 0;
    }
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let removed = |path: PathBuf| {
        let Ok(lock) = lock(&path) else { return false };
        is_at(&lock, &path) && std::fs::remove_dir_all(&path).is_ok()
    };
    ours.filter(|entry| removed(entry.path())).count()
}

/// Opens and locks a directory of this user. Fails with `WouldBlock` if a process has locked it.
pub(crate) fn lock(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(CWD, path, flags, Mode::empty())?;
    let owner = fstat(&dir)?.st_uid;
    if owner != geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, private::Unsafe::Owner(owner)));
    }
    flock(&dir, FlockOperation::NonBlockingLockExclusive)?;
    Ok(dir)
}
