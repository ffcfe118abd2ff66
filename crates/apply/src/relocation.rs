//! Moving a directory of the database into a dataset of its own, with properties of its own.
//!
//! The directory becomes a symbolic link to the mount point of the new dataset, so that no setting of the database changes. The new
//! dataset is below the one that had the directory, so that it inherits everything else, its encryption too. If it is not mounted, the
//! link leads to an empty directory, and a database refuses to start instead of continuing with old files.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

use poolwright_host::quoted;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::error::refused;
use crate::rewrite::{FileScan, HiddenDir};
use crate::work::{Direction, Relocation};
use crate::{Error, Result};

/// The property of a new dataset with the identifier of the plan that created it. The user-space engine has no such properties.
pub const PLAN_PROPERTY: &str = "poolwright:plan";

/// What has the name of a directory that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryState {
    /// The directory itself.
    Directory,
    /// The link to the mount point of the new dataset.
    Link,
    /// Nothing: a crash came between the two renames that replace one by the other.
    Missing,
}

impl Relocation {
    /// What has the directory's name now.
    ///
    /// # Errors
    /// [`Error::Refused`] for something else than the directory or the link; the host's errors.
    pub fn state(&self) -> Result<DirectoryState> {
        let meta = match fs::symlink_metadata(&self.directory) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(DirectoryState::Missing),
            meta => meta.map_err(Error::host("inspect", &self.directory))?,
        };
        if meta.is_dir() {
            return Ok(DirectoryState::Directory);
        }
        match fs::read_link(&self.directory) {
            Ok(target) if target == self.mountpoint => Ok(DirectoryState::Link),
            _ => refused(format!(
                "{} is neither a directory nor a link to {}\nhint: it was changed since the plan was applied",
                quoted(&self.directory),
                quoted(&self.mountpoint)
            )),
        }
    }

    /// The files, where they are now: in the directory, or in the new dataset.
    ///
    /// # Errors
    /// As [`Relocation::state`] and [`FileScan::of`].
    pub fn scan(&self) -> Result<FileScan> {
        match self.state()? {
            DirectoryState::Directory => FileScan::of(&self.directory, &[]),
            _ => FileScan::of(&self.mountpoint, &[]),
        }
    }

    /// Puts what a direction wants in the directory's place: the link, or the copy of the directory's files, which is in the hidden
    /// directory. What was there is in the hidden directory afterwards. Nothing may use the directory meanwhile.
    ///
    /// # Errors
    /// As [`Relocation::state`].
    pub fn replace(&self, direction: Direction, hidden: &HiddenDir, index: usize) -> Result<()> {
        let new = match (direction, self.state()?) {
            (Direction::Apply, DirectoryState::Link) | (Direction::Undo, DirectoryState::Directory) => {
                return Ok(());
            }
            (Direction::Apply, state) => self.make_link(hidden, index, state)?,
            (Direction::Undo, _) => copy_in(hidden, index),
        };
        exchange(&new, &self.directory, &hidden.path().join(format!("{index}.old")))
    }

    /// Makes the link in the hidden directory, with the owner of the directory.
    fn make_link(&self, hidden: &HiddenDir, index: usize, state: DirectoryState) -> Result<PathBuf> {
        hidden.make()?;
        let link = hidden.path().join(format!("{index}.link"));
        match fs::remove_file(&link) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(Error::host("remove", &link)(cause));
            }
            _ => {}
        }
        symlink(&self.mountpoint, &link).map_err(Error::host("create", &link))?;
        let owned = if state == DirectoryState::Directory { &self.directory } else { &self.mountpoint };
        let meta = fs::symlink_metadata(owned).map_err(Error::host("inspect", owned))?;
        lchown(&link, Some(meta.uid()), Some(meta.gid())).map_err(Error::host("set the owner of", &link))?;
        Ok(link)
    }
}

/// The path of the copy of a directory's files in the hidden directory, when going back.
pub fn copy_in(hidden: &HiddenDir, index: usize) -> PathBuf {
    hidden.path().join(format!("{index}.copy"))
}

/// Gives `new` the name `at`, and what has this name now, another one: that of `new`, or `old` on file systems that cannot exchange
/// names (OpenZFS before 2.2), where a crash can leave nothing at `at`.
fn exchange(new: &Path, at: &Path, old: &Path) -> Result<()> {
    // Otherwise only the second of two renames would fail.
    fs::symlink_metadata(new).map_err(Error::host("inspect", new))?;
    match renameat_with(CWD, new, CWD, at, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP | Errno::NOENT) => {}
        exchanged => return exchanged.map_err(Error::errno("replace", at)),
    }
    match fs::rename(at, old) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(Error::host("rename", at)(cause)),
        _ => {}
    }
    fs::rename(new, at).map_err(Error::host("rename", new))
}

#[cfg(test)]
mod tests;
