//! Moves a directory of the database into a separate dataset with its own properties.
//!
//! The directory becomes a symbolic link to the mount point of the new dataset, so that no setting of the database changes. The new
//! dataset is below the one that had the directory, so that it inherits all other properties, including encryption. If it is not mounted,
//! the link leads to an empty directory, and the database refuses to start instead of continuing with old files.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, quoted};
use rustix::io::Errno;

use crate::Result;
use crate::error::refused;
use crate::rewrite::attributes::check_flags;
use crate::rewrite::{EntryAt, FileScan, HiddenDir, parent_of};
use crate::work::{Direction, Relocation};

/// The property of a new dataset with the identifier of the plan that created it. The user-space engine has no such properties.
pub const PLAN_PROPERTY: &str = "poolwright:plan";

/// The object at the path of a directory that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryState {
    /// The directory itself.
    Directory,
    /// The link to the mount point of the new dataset.
    Link,
    /// Nothing: a crash occurred between the two renames that replace one with the other.
    Missing,
}

impl Relocation {
    /// The object at the directory's path now. `root` is the mount point of the dataset that contains it.
    ///
    /// # Errors
    /// A refusal for something else than the directory or the link; the host's errors.
    pub fn state(&self, root: &Directory) -> Result<DirectoryState> {
        let (parent, name) = parent_of(root, &self.directory)?;
        let entry = EntryAt::new(&parent, name);
        match entry.inspect()? {
            None => return Ok(DirectoryState::Missing),
            Some(meta) if meta.is_dir() => return Ok(DirectoryState::Directory),
            Some(_) => {}
        }
        match parent.read_link(name) {
            Ok(target) if target == self.mountpoint => Ok(DirectoryState::Link),
            _ => refused(format!(
                "{} is neither a directory nor a link to {}\nhint: it was changed since the plan was applied",
                quoted(&self.directory),
                quoted(&self.mountpoint)
            )),
        }
    }

    /// Opens the directory, if it has not moved.
    ///
    /// # Errors
    /// The host's errors.
    pub fn open_directory(&self, root: &Directory) -> Result<Directory> {
        let (parent, name) = parent_of(root, &self.directory)?;
        EntryAt::new(&parent, name).directory()
    }

    /// Refuses a directory that cannot be renamed: it, or the one that has it, is immutable or append-only.
    ///
    /// # Errors
    /// A refusal; the host's errors.
    pub fn check_replaceable(&self, root: &Directory) -> Result<()> {
        let (parent, _) = parent_of(root, &self.directory)?;
        let moved = match self.state(root)? {
            DirectoryState::Directory => Some(self.open_directory(root)?),
            _ => None,
        };
        for dir in [Some(parent), moved].into_iter().flatten() {
            let open = dir.try_clone_file().map_err(cannot("open", dir.path()))?;
            check_flags(&open, dir.path())?;
        }
        Ok(())
    }

    /// Opens the mount point of the new dataset.
    ///
    /// # Errors
    /// The host's errors.
    pub fn open_mountpoint(&self) -> Result<Directory> {
        let path = &self.mountpoint;
        Ok(Directory::open_without_links(path).map_err(cannot("open", path))?)
    }

    /// The files, where they are now: in the directory, or in the new dataset.
    ///
    /// # Errors
    /// As [`Relocation::state`] and [`FileScan::of`].
    pub fn scan(&self, root: &Directory) -> Result<FileScan> {
        match self.state(root)? {
            DirectoryState::Directory => FileScan::of(&self.open_directory(root)?, &[]),
            _ => FileScan::of(&self.open_mountpoint()?, &[]),
        }
    }

    /// Swaps the object that a direction requires into the directory's path: the link, or the copy of the directory's files from the hidden
    /// directory. The old object is in the hidden directory afterwards. Nothing may use the directory during the swap.
    ///
    /// # Errors
    /// As [`Relocation::state`].
    pub fn replace(&self, direction: Direction, hidden: &HiddenDir, index: usize) -> Result<()> {
        let root = hidden.mountpoint();
        let new = match (direction, self.state(root)?) {
            (Direction::Apply, DirectoryState::Link) | (Direction::Undo, DirectoryState::Directory) => {
                return Ok(());
            }
            (Direction::Apply, state) => self.make_link(hidden, index, state)?,
            (Direction::Undo, _) => copy_name(index),
        };
        let (parent, name) = parent_of(root, &self.directory)?;
        let (dir, old) = (hidden.make()?, format!("{index}.old"));
        exchange(EntryAt::new(&dir, &new), EntryAt::new(&parent, name), EntryAt::new(&dir, &old))
    }

    /// Makes the link in the hidden directory, with the owner of the directory. Returns its name.
    fn make_link(&self, hidden: &HiddenDir, index: usize, state: DirectoryState) -> Result<String> {
        let (dir, name) = (hidden.make()?, format!("{index}.link"));
        let link = EntryAt::new(&dir, &name);
        link.remove()?;
        dir.create_link(&name, &self.mountpoint).map_err(cannot("create", link.path()))?;
        let owned = match state {
            DirectoryState::Directory => self.open_directory(hidden.mountpoint())?,
            _ => self.open_mountpoint()?,
        };
        let meta = owned.metadata().map_err(cannot("inspect", owned.path()))?;
        let set = dir.set_owner(&name, (meta.uid(), meta.gid()));
        set.map_err(cannot("set the owner of", link.path()))?;
        Ok(name)
    }
}

/// The name of the copy of a directory's files in the hidden directory, when going back.
pub fn copy_name(index: usize) -> String {
    format!("{index}.copy")
}

/// Gives `new` the name `at`, and what has this name now, another one: that of `new`, or `old` on file systems that cannot exchange
/// names (OpenZFS before 2.2), where a crash can leave nothing at `at`.
fn exchange(new: EntryAt<'_>, at: EntryAt<'_>, old: EntryAt<'_>) -> Result<()> {
    // Otherwise only the second of two renames would fail.
    new.metadata()?;
    let is_impossible = |cause: &std::io::Error| {
        let errors = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::NOENT];
        errors.iter().any(|errno| cause.raw_os_error() == Some(errno.raw_os_error()))
    };
    match new.dir.exchange(new.name, at.dir, at.name) {
        Err(cause) if is_impossible(&cause) => {}
        exchanged => return Ok(exchanged.map_err(cannot("replace", at.path()))?),
    }
    match at.dir.rename(at.name, old.dir, old.name) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => {
            return Err(cannot("rename", at.path())(cause).into());
        }
        _ => {}
    }
    new.rename(at)
}

#[cfg(test)]
mod tests;
