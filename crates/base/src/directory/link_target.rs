//! The target of a symbolic link in a [`Directory`].

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::{DIRECTORY, Directory, name_of, not_a_file};

/// The target of a link, wherever it is. It is held by a descriptor without read or write access, so its attributes are those of the object
/// that these methods open, whatever happens to the link.
#[derive(Debug)]
pub struct LinkTarget {
    open: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Finds what a symbolic link here leads to; `None` if it leads nowhere. Opens and changes nothing: the caller must decide by the
    /// attributes whether the owner of the link may have it.
    ///
    /// # Errors
    /// The host's errors.
    pub fn link_target(&self, name: impl AsRef<std::ffi::OsStr>) -> io::Result<Option<LinkTarget>> {
        let open = match openat(
            &self.open,
            name_of(name.as_ref())?,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        ) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NAMETOOLONG) => {
                return Ok(None);
            }
            open => open?,
        };
        let path = std::fs::read_link(crate::process::descriptor_path(std::process::id(), open.as_raw_fd()))?;
        Ok(Some(LinkTarget { open, path }))
    }
}

impl LinkTarget {
    /// Its path when it was found, without links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its attributes.
    ///
    /// # Errors
    /// The host's errors.
    pub fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.open.try_clone()?).metadata()
    }

    /// Opens the directory that it is.
    ///
    /// # Errors
    /// The host's errors, `ENOTDIR` among them.
    pub fn directory(&self) -> io::Result<Directory> {
        Ok(Directory { open: openat(&self.open, ".", DIRECTORY, Mode::empty())?, path: self.path.clone() })
    }

    /// Opens the regular file that it is, for reading.
    ///
    /// # Errors
    /// [`Unsafe::NotAFile`](crate::private::Unsafe::NotAFile) if it is something else; the host's errors.
    pub fn file(&self) -> io::Result<File> {
        match self.metadata()?.is_file() {
            // Reopening it through /proc opens the same file.
            true => File::open(crate::process::descriptor_path(std::process::id(), self.open.as_raw_fd())),
            false => Err(not_a_file()),
        }
    }
}
