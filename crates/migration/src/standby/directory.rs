//! Directories that another user controls: no link in them is followed.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, openat, openat2, statat, unlinkat};

use crate::error::refused;
use crate::{Error, Result};

/// An open directory.
pub(super) struct Directory {
    open: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory that is at or below another one, which is trusted.
    pub fn open(trusted: PathBuf, path: &Path) -> Result<Directory> {
        let top = File::open(&trusted).map_err(Error::host("open", &trusted))?;
        let relative = path.strip_prefix(&trusted).unwrap_or(path);
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        Directory::below(&top.into(), relative, path)
    }

    /// A directory in it.
    pub fn sub(&self, name: &str) -> Result<Directory> {
        Directory::below(&self.open, Path::new(name), &self.path.join(name))
    }

    fn below(top: &OwnedFd, relative: &Path, path: &Path) -> Result<Directory> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let open = openat2(top, relative, flags, Mode::empty(), resolve);
        let open = open.map_err(|cause| Error::host("open", path)(cause.into()))?;
        Ok(Directory { open, path: path.to_owned() })
    }

    /// The names in it that are text, sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let failed = |cause: rustix::io::Errno| Error::host("list", &self.path)(cause.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.open).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().to_str().ok().map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// Whether it has a file with this name.
    pub fn has(&self, name: &str) -> bool {
        statat(&self.open, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Opens a regular file for reading; `None` if it does not exist.
    pub fn file(&self, name: &str) -> Result<Option<File>> {
        // A fifo would be waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.open, name, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            open => File::from(open.map_err(self.failed("open", name))?),
        };
        let kind = file.metadata().map_err(Error::host("inspect", &self.path.join(name)))?.file_type();
        match kind.is_file() {
            true => Ok(Some(file)),
            false => refused(format!("{} is not a regular file", self.path.join(name).display())),
        }
    }

    /// Copies an open file to a new name, with its mode.
    pub fn copy_in(&self, name: &str, mut source: File, owner: (u32, u32)) -> Result<()> {
        let path = self.path.join(name);
        let mode = source.metadata().map_err(Error::host("inspect", &path))?.mode() & 0o777;
        let mut target = self.create(name, mode)?;
        std::io::copy(&mut source, &mut target).map_err(Error::host("write", &path))?;
        fchown(&target, Some(owner.0), Some(owner.1)).map_err(Error::host("set the owner of", &path))
    }

    /// Creates an empty file, if there is none with this name.
    pub fn create_empty(&self, name: &str, owner: (u32, u32)) -> Result<()> {
        if self.has(name) {
            return Ok(());
        }
        let file = self.create(name, 0o600)?;
        let path = self.path.join(name);
        fchown(&file, Some(owner.0), Some(owner.1)).map_err(Error::host("set the owner of", &path))
    }

    fn create(&self, name: &str, mode: u32) -> Result<File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&self.open, name, flags, Mode::from_raw_mode(mode));
        Ok(File::from(made.map_err(self.failed("create", name))?))
    }

    /// Gives a regular file the content of another one, durably.
    pub fn overwrite(&self, name: &str, mut source: File) -> Result<()> {
        let path = self.path.join(name);
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = openat(&self.open, name, flags, Mode::empty());
        let mut target = File::from(open.map_err(self.failed("open", name))?);
        let mut write = || {
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut source, &mut content)?;
            target.rewind()?;
            target.write_all(&content)?;
            target.set_len(content.len() as u64)?;
            target.sync_all()
        };
        write().map_err(Error::host("write", &path))
    }

    /// Removes a file. Ignores a missing one.
    pub fn remove(&self, name: &str) -> Result<()> {
        match unlinkat(&self.open, name, AtFlags::empty()) {
            Err(rustix::io::Errno::NOENT) => Ok(()),
            removed => removed.map_err(self.failed("remove", name)),
        }
    }

    fn failed(&self, what: &'static str, name: &str) -> impl FnOnce(rustix::io::Errno) -> Error {
        let path = self.path.join(name);
        move |cause| Error::host(what, &path)(std::io::Error::from(cause))
    }
}
