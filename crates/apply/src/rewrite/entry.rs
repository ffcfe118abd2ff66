//! A name in an open directory. All modules here access files this way, because the owner of a database can rename its directories and
//! replace its files with links at any time.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use poolwright_base::cannot;
use poolwright_base::directory::{Access, Directory};
use rustix::fs::{OFlags, fcntl_setfl};

use crate::Result;

/// A name in an open directory.
#[derive(Clone, Copy, Debug)]
pub struct EntryAt<'a> {
    /// The directory.
    pub dir: &'a Directory,
    /// The name.
    pub name: &'a OsStr,
}

impl<'a> EntryAt<'a> {
    /// A name in a directory.
    pub fn new(dir: &'a Directory, name: &'a (impl AsRef<OsStr> + ?Sized)) -> EntryAt<'a> {
        EntryAt { dir, name: name.as_ref() }
    }

    /// Its path, for messages.
    pub fn path(self) -> PathBuf {
        self.dir.path().join(self.name)
    }

    /// The attributes of what has the name, which may be a link; `None` if there is nothing.
    ///
    /// # Errors
    /// The host's errors.
    pub fn inspect(self) -> Result<Option<Metadata>> {
        Ok(self.dir.inspect(self.name).map_err(cannot("inspect", self.path()))?)
    }

    /// As [`EntryAt::inspect`], of what must exist.
    ///
    /// # Errors
    /// The host's errors.
    pub fn metadata(self) -> Result<Metadata> {
        let missing = || cannot("inspect", self.path())(io::ErrorKind::NotFound);
        Ok(self.inspect()?.ok_or_else(missing)?)
    }

    /// Opens a regular file for reading. Reading does not change its access time, if it belongs to this user or this is root.
    ///
    /// # Errors
    /// The host's errors.
    pub fn open(self) -> Result<File> {
        let file = self.dir.file(self.name, Access::Read).map_err(cannot("open", self.path()))?;
        // Only the owner and root may leave the access time.
        let _ = fcntl_setfl(&file, OFlags::NOATIME);
        Ok(file)
    }

    /// Removes what has the name, with everything in it. Ignores a missing one.
    ///
    /// # Errors
    /// The host's errors.
    pub fn remove(self) -> Result<()> {
        Ok(self.dir.remove_all(self.name).map_err(cannot("remove", self.path()))?)
    }

    /// Renames it, replacing any object with the new name.
    ///
    /// # Errors
    /// The host's errors.
    pub fn rename(self, to: EntryAt<'_>) -> Result<()> {
        Ok(self.dir.rename(self.name, to.dir, to.name).map_err(cannot("replace", to.path()))?)
    }

    /// Opens the directory that has the name.
    ///
    /// # Errors
    /// The host's errors.
    pub fn directory(self) -> Result<Directory> {
        Ok(self.dir.directory(self.name).map_err(cannot("open", self.path()))?)
    }

    /// Opens the directory that has the name, or creates it (0700). Removes what has the name and is not a directory.
    ///
    /// # Errors
    /// The host's errors.
    pub fn make_directory(self) -> Result<Directory> {
        match self.inspect()? {
            Some(meta) if meta.is_dir() => return self.directory(),
            Some(_) => self.remove()?,
            None => {}
        }
        Ok(self.dir.create_directory(self.name).map_err(cannot("create", self.path()))?)
    }
}

/// Opens a directory whose parents only this user or the administrator can change.
///
/// # Errors
/// The host's errors.
pub fn open_trusted(path: &Path) -> Result<Directory> {
    Ok(Directory::open(path).map_err(cannot("open", path))?)
}

/// As [`open_trusted`], and creates the directory (0700) if it is missing.
///
/// # Errors
/// The host's errors.
pub fn make_trusted(path: &Path) -> Result<Directory> {
    let parent = open_trusted(path.parent().unwrap_or(Path::new("/")))?;
    EntryAt::new(&parent, path.file_name().unwrap_or_default()).make_directory()
}

/// The open directory that contains a path below `root`, and the last name of the path.
///
/// # Errors
/// The host's errors.
pub fn parent_of<'p>(root: &Directory, path: &'p Path) -> Result<(Directory, &'p OsStr)> {
    Ok(root.relative(path).and_then(|relative| root.parent_of(relative)).map_err(cannot("open", path))?)
}
