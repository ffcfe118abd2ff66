//! A directory that another user may control, held by its descriptor.
//!
//! A path is looked up again by each system call, so the owner of any directory on it can redirect a privileged process between two calls:
//! by renaming a directory, or by replacing a file with a link. A program that runs as root therefore opens the top directory once, and
//! accesses everything below it from there: `openat2(2)` with `RESOLVE_BENEATH` and `RESOLVE_NO_SYMLINKS` for subdirectories, and the `*at`
//! calls without following links for the last name. Whatever the owner renames, nothing outside the tree is opened, created, changed or
//! removed.
//!
//! `scripts/lint/by_path.py` rejects calls by path in the crates that run as root.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat,
    fchmod, fchown, fsync, linkat, mkdirat, openat, openat2, readlinkat, renameat, renameat_with, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::private::{self, Unsafe};

mod link_target;
mod named;

pub use link_target::LinkTarget;

/// Attempts to open a path while directories on it are being renamed (`EAGAIN`, see `openat2(2)`).
const MAX_ATTEMPTS: u32 = 100;

/// Whether a file is opened for reading only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading only.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// An open directory. Its methods follow no symbolic link and never leave the directory.
#[derive(Debug)]
pub struct Directory {
    open: OwnedFd,
    path: PathBuf,
}

impl Directory {
    /// Opens a directory by a path whose parents are trusted: one that the administrator named. The last name must not be a link.
    ///
    /// # Errors
    /// The host's errors.
    pub fn open(path: &Path) -> io::Result<Directory> {
        let open = openat(CWD, path, DIRECTORY.union(OFlags::NOFOLLOW), Mode::empty())?;
        Ok(Directory { open, path: path.to_owned() })
    }

    /// Opens the directory at a path that is at or below `trusted`, which is opened as in [`Directory::open`] but may be a link.
    ///
    /// # Errors
    /// The host's errors; `InvalidInput` if the path does not begin with `trusted`.
    pub fn open_below(trusted: &Path, path: &Path) -> io::Result<Directory> {
        let open = openat(CWD, trusted, DIRECTORY, Mode::empty())?;
        let top = Directory { open, path: trusted.to_owned() };
        top.directory(top.relative(path)?)
    }

    /// Opens the directory at an absolute path on which no link may be: the path was found without links, and another user may own a
    /// directory on it and put a link there.
    ///
    /// # Errors
    /// As [`Directory::directory`].
    pub fn open_without_links(path: &Path) -> io::Result<Directory> {
        Directory::open_below(Path::new("/"), path)
    }

    /// Opens a directory in it. An empty path is the directory itself.
    ///
    /// # Errors
    /// The host's errors: `ELOOP` if a link is on the way, `EXDEV` if the path leaves the directory.
    pub fn directory(&self, relative: impl AsRef<Path>) -> io::Result<Directory> {
        let relative = relative.as_ref();
        let is_itself = relative.as_os_str().is_empty();
        let path = if is_itself { self.path.clone() } else { self.path.join(relative) };
        Ok(Directory { open: self.open_at(relative, DIRECTORY)?, path })
    }

    /// The path by which it was opened. For messages: by now, it may name something else.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path that leads to this directory while it is open, whatever its name is by then; for programs and calls that take only paths.
    /// Everything below it is looked up by name, so it must be inaccessible to other users.
    pub fn descriptor_path(&self) -> PathBuf {
        crate::process::descriptor_path(std::process::id(), self.open.as_raw_fd())
    }

    /// The part of a path below this directory's.
    ///
    /// # Errors
    /// `InvalidInput` if it is not below.
    pub fn relative<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        path.strip_prefix(&self.path).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("not below {}", crate::quoted(&self.path)))
        })
    }

    /// The directory that contains a path below this one, and the last name of the path.
    ///
    /// # Errors
    /// The host's errors; `InvalidInput` if the path has no last name.
    pub fn parent_of<'p>(&self, relative: &'p Path) -> io::Result<(Directory, &'p OsStr)> {
        let Some(Component::Normal(name)) = relative.components().next_back() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name"));
        };
        Ok((self.directory(relative.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Its own attributes.
    ///
    /// # Errors
    /// The host's errors.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.try_clone_file()?.metadata()
    }

    /// A second descriptor of it, for calls on open files.
    ///
    /// # Errors
    /// The host's errors.
    pub fn try_clone_file(&self) -> io::Result<File> {
        Ok(File::from(self.open.try_clone()?))
    }

    /// The names in it, sorted.
    ///
    /// # Errors
    /// The host's errors.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.open)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// The attributes of what has this path, which may be a link; `None` if there is nothing.
    ///
    /// # Errors
    /// The host's errors.
    pub fn inspect(&self, relative: impl AsRef<Path>) -> io::Result<Option<Metadata>> {
        match self.open_at(relative.as_ref(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            open => File::from(open?).metadata().map(Some),
        }
    }

    /// Opens a regular file.
    ///
    /// # Errors
    /// [`Unsafe::NotAFile`] (see [`private::refusal`]) if it is something else; `NotFound`; the host's other errors.
    pub fn file(&self, relative: impl AsRef<Path>, access: Access) -> io::Result<File> {
        let mode = if access == Access::Read { OFlags::RDONLY } else { OFlags::RDWR };
        // Opening a fifo would block.
        let flags = mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let relative = relative.as_ref();
        // A device must not even be opened, which can have effects, so the kind is known before.
        let is_file = self.inspect(relative)?.is_none_or(|meta| meta.is_file());
        let file =
            if is_file { File::from(self.open_at(relative, flags)?) } else { return Err(not_a_file()) };
        if file.metadata()?.is_file() { Ok(file) } else { Err(not_a_file()) }
    }

    /// Creates a file with this mode, for reading and writing. The name must not exist.
    ///
    /// # Errors
    /// The host's errors, `AlreadyExists` among them.
    pub fn create_file(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.open, name_of(name.as_ref())?, flags, Mode::from_raw_mode(mode))?))
    }

    /// Creates a directory with mode 0700, and opens it. The name must not exist.
    ///
    /// # Errors
    /// The host's errors, `AlreadyExists` among them; [`Unsafe::Owner`] if another user has replaced it with another directory since: one
    /// that is not this user's, or that others can enter.
    pub fn create_directory(&self, name: impl AsRef<OsStr>) -> io::Result<Directory> {
        let name = name_of(name.as_ref())?;
        mkdirat(&self.open, name, Mode::from_raw_mode(private::DIR))?;
        let created = self.directory(name)?;
        let meta = created.metadata()?;
        match meta.uid() == geteuid().as_raw() && meta.mode() & !private::DIR & 0o777 == 0 {
            true => Ok(created),
            false => Err(io::Error::new(io::ErrorKind::PermissionDenied, Unsafe::Owner(meta.uid()))),
        }
    }

    /// Creates a symbolic link. The name must not exist.
    ///
    /// # Errors
    /// The host's errors, `AlreadyExists` among them.
    pub fn create_link(&self, name: impl AsRef<OsStr>, target: &Path) -> io::Result<()> {
        Ok(symlinkat(target, &self.open, name_of(name.as_ref())?)?)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// The host's errors; `InvalidInput` if it is not a link.
    pub fn read_link(&self, name: impl AsRef<OsStr>) -> io::Result<PathBuf> {
        let target = readlinkat(&self.open, name_of(name.as_ref())?, Vec::new())?;
        Ok(PathBuf::from(OsStr::from_bytes(target.as_bytes())))
    }

    /// Renames what has a name here to a name in another directory, and replaces what has that name.
    ///
    /// # Errors
    /// The host's errors.
    pub fn rename(&self, name: impl AsRef<OsStr>, to: &Directory, new: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(renameat(&self.open, name_of(name.as_ref())?, &to.open, name_of(new.as_ref())?)?)
    }

    /// Exchanges what has a name here with what has a name in another directory.
    ///
    /// # Errors
    /// The host's errors, `NotFound` if one of the names is missing. Some file systems cannot exchange names.
    pub fn exchange(
        &self,
        name: impl AsRef<OsStr>,
        to: &Directory,
        new: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (name, new) = (name_of(name.as_ref())?, name_of(new.as_ref())?);
        Ok(renameat_with(&self.open, name, &to.open, new, RenameFlags::EXCHANGE)?)
    }

    /// Gives a file here another name in another directory.
    ///
    /// # Errors
    /// The host's errors, `AlreadyExists` among them.
    pub fn hard_link(
        &self,
        name: impl AsRef<OsStr>,
        to: &Directory,
        new: impl AsRef<OsStr>,
    ) -> io::Result<()> {
        let (name, new) = (name_of(name.as_ref())?, name_of(new.as_ref())?);
        Ok(linkat(&self.open, name, &to.open, new, AtFlags::empty())?)
    }

    /// Removes a name that is not a directory's. Ignores a missing one.
    ///
    /// # Errors
    /// The host's errors.
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        ignore_missing(unlinkat(&self.open, name_of(name.as_ref())?, AtFlags::empty()))
    }

    /// Removes an empty directory. Ignores a missing one.
    ///
    /// # Errors
    /// The host's errors.
    pub fn remove_directory(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        ignore_missing(unlinkat(&self.open, name_of(name.as_ref())?, AtFlags::REMOVEDIR))
    }

    /// Removes what has this name, with everything in it. Ignores a missing one. Does not enter other file systems: their mount point
    /// cannot be removed.
    ///
    /// # Errors
    /// The host's errors.
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        let Some(meta) = self.inspect(name)? else { return Ok(()) };
        if !meta.is_dir() {
            return self.remove_file(name);
        }
        let inside = match self.open_at_with(Path::new(name), DIRECTORY, ResolveFlags::NO_XDEV) {
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            open => Directory { open: open?, path: self.path.join(name) },
        };
        for name in inside.names()? {
            inside.remove_all(name)?;
        }
        self.remove_directory(name)
    }

    /// Sets the owner of what has this name; of a link, its own.
    ///
    /// # Errors
    /// The host's errors.
    pub fn set_owner(&self, name: impl AsRef<OsStr>, (uid, gid): (u32, u32)) -> io::Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
        Ok(chownat(&self.open, name_of(name.as_ref())?, uid, gid, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets access and modification time (seconds since 1970 and nanoseconds) of what has this name; of a link, its own.
    ///
    /// # Errors
    /// The host's errors.
    pub fn set_times_of(
        &self,
        name: impl AsRef<OsStr>,
        accessed: (i64, i64),
        modified: (i64, i64),
    ) -> io::Result<()> {
        let time = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time(accessed), last_modification: time(modified) };
        Ok(utimensat(&self.open, name_of(name.as_ref())?, &times, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Sets its own mode.
    ///
    /// # Errors
    /// The host's errors.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        Ok(fchmod(&self.open, Mode::from_raw_mode(mode))?)
    }

    /// Gives it to a user and a group.
    ///
    /// # Errors
    /// The host's errors.
    pub fn give_to(&self, (uid, gid): (u32, u32)) -> io::Result<()> {
        Ok(fchown(&self.open, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?)
    }

    /// Sets its own times.
    ///
    /// # Errors
    /// The host's errors.
    pub fn set_times(&self, times: FileTimes) -> io::Result<()> {
        self.try_clone_file()?.set_times(times)
    }

    /// Writes it to the device.
    ///
    /// # Errors
    /// The host's errors.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fsync(&self.open)?)
    }

    fn open_at(&self, relative: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        self.open_at_with(relative, flags, ResolveFlags::empty())
    }

    fn open_at_with(&self, relative: &Path, flags: OFlags, more: ResolveFlags) -> io::Result<OwnedFd> {
        let relative = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | more;
        // With O_PATH and NOFOLLOW, `openat2` opens a link itself even with NO_SYMLINKS, if it is the last name.
        let open = || openat2(&self.open, relative, flags, Mode::empty(), resolve);
        let mut opened = open();
        for _ in 1..MAX_ATTEMPTS {
            match opened {
                Err(Errno::AGAIN | Errno::INTR) => opened = open(),
                _ => break,
            }
        }
        Ok(opened?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open.as_fd()
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn not_a_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, Unsafe::NotAFile)
}

fn ignore_missing(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Err(Errno::NOENT) => Ok(()),
        removed => Ok(removed?),
    }
}

/// Refuses a path where a name is expected: the calls that take a name would follow links in its parents.
fn name_of(name: &OsStr) -> io::Result<&OsStr> {
    let is_name = !name.as_bytes().contains(&b'/') && !matches!(name.as_bytes(), b"" | b"." | b"..");
    let not_a_name = || io::Error::new(io::ErrorKind::InvalidInput, "a path in the place of a name");
    is_name.then_some(name).ok_or_else(not_a_name)
}

#[cfg(test)]
mod tests;
