//! Files (0600) and directories (0700) that only this user can access. The call that creates them sets the mode, so other
//! users cannot open them at any time. The umask can only remove further permissions.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fchmod, fstat, openat};
use rustix::process::geteuid;

/// Mode of a private file.
pub const FILE: u32 = 0o600;
/// Mode of a private directory.
pub const DIR: u32 = 0o700;
/// Mode of a file that the user may want to share: only the umask restricts it.
pub const SHARED_FILE: u32 = 0o666;

/// The reason to refuse a directory or file at a predictable path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// It belongs to the user with this ID.
    #[error("it belongs to user {0}")]
    Owner(u32),
    /// It is not a directory, or a link to one.
    #[error("it is not a directory")]
    NotADirectory,
    /// It is not a regular file.
    #[error("it is not a regular file")]
    NotAFile,
    /// It is a symbolic link that the user with this ID can change.
    #[error("it leads through a link that user {0} can change")]
    Link(u32),
}

fn refused(why: Unsafe) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

/// The reason, if an error of this module is a refusal and not an error of the host.
pub fn refusal(error: &io::Error) -> Option<Unsafe> {
    error.get_ref()?.downcast_ref().copied()
}

/// Creates a file for reading and writing. It must not exist.
///
/// # Errors
/// The host's errors.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(FILE).open(path)
}

/// Creates or truncates a file for writing, in a directory that is already private.
///
/// # Errors
/// The host's errors, including `ELOOP` if the name is a link.
pub fn create(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::CLOEXEC).bits() as i32;
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).custom_flags(flags).open(path)
}

/// Creates or truncates a file like [`create`], and writes all bytes to it.
///
/// # Errors
/// The host's errors.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create(path)?.write_all(bytes)
}

/// Creates a directory. It must not exist.
///
/// # Errors
/// The host's errors.
pub fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIR).create(path)
}

/// Creates a directory and its parents. Existing directories keep their modes.
///
/// # Errors
/// The host's errors.
pub fn make_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIR).create(path)
}

/// An open directory at a predictable path, which belongs to this user and which other users cannot access.
#[derive(Debug)]
pub struct OwnDir {
    path: PathBuf,
    dir: OwnedFd,
}

impl OwnDir {
    /// Creates the directory and its parents, or opens an existing one that belongs to this user and removes the
    /// permissions of others. The name must not be a link.
    ///
    /// # Errors
    /// [`Unsafe`] (see [`refusal`]) if it belongs to another user or is not a directory; otherwise the host's errors.
    pub fn open(path: &Path) -> io::Result<OwnDir> {
        make_dirs(path).map_err(|why| match why.kind() {
            io::ErrorKind::AlreadyExists => refused(Unsafe::NotADirectory),
            _ => why,
        })?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = openat(CWD, path, flags, Mode::empty()).map_err(|why| match why {
            rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP => refused(Unsafe::NotADirectory),
            why => why.into(),
        })?;
        let stat = fstat(&dir)?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(refused(Unsafe::Owner(stat.st_uid)));
        }
        if stat.st_mode & 0o077 != 0 {
            fchmod(&dir, Mode::from_raw_mode(DIR))?;
        }
        Ok(OwnDir { path: path.to_owned(), dir })
    }

    /// Opens or creates a file in the directory for reading and writing, without truncating it.
    ///
    /// # Errors
    /// [`Unsafe`] if it is a link, not a regular file, or another user's; otherwise the host's errors.
    pub fn file(&self, name: &str) -> io::Result<File> {
        // NONBLOCK, because opening a pipe would block.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::from_raw_mode(FILE)).map_err(|why| match why {
            rustix::io::Errno::LOOP | rustix::io::Errno::ISDIR | rustix::io::Errno::NXIO => {
                refused(Unsafe::NotAFile)
            }
            why => why.into(),
        })?;
        let file = File::from(file);
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(refused(Unsafe::NotAFile));
        }
        if meta.uid() != geteuid().as_raw() {
            return Err(refused(Unsafe::Owner(meta.uid())));
        }
        Ok(file)
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for OwnDir {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Whether the path still names this open file.
pub fn is_at(open: impl AsFd, path: &Path) -> bool {
    let there = std::fs::symlink_metadata(path);
    matches!((fstat(open), there), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.dev(), b.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn what_is_made_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        create_new(&at("new")).unwrap();
        create(&at("made")).unwrap();
        write(&at("written"), b"x").unwrap();
        make_dirs(&at("a/b")).unwrap();
        for file in ["new", "made", "written"] {
            assert_eq!(mode(&at(file)), 0o600, "{file}");
        }
        assert_eq!((mode(&at("a")), mode(&at("a/b"))), (0o700, 0o700));
        assert!(create_new(&at("new")).is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("precious"), "precious").unwrap();
        for name in ["one", "dir"] {
            symlink(at("precious"), at(name)).unwrap();
        }
        create(&at("one")).unwrap_err();
        let own = OwnDir::open(&at("own")).unwrap();
        symlink(at("precious"), at("own/lock")).unwrap();
        assert_eq!(refusal(&own.file("lock").unwrap_err()), Some(Unsafe::NotAFile));
        assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "precious");
        assert_eq!(refusal(&OwnDir::open(&at("dir")).unwrap_err()), Some(Unsafe::NotADirectory));
        std::fs::create_dir(at("elsewhere")).unwrap();
        symlink(at("elsewhere"), at("link")).unwrap();
        assert_eq!(refusal(&OwnDir::open(&at("link")).unwrap_err()), Some(Unsafe::NotADirectory));
    }

    #[test]
    fn an_own_directory_is_closed_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let own = OwnDir::open(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        let mut file = own.file("lock").unwrap();
        file.write_all(b"kept").unwrap();
        own.file("lock").unwrap();
        assert_eq!(std::fs::read_to_string(path.join("lock")).unwrap(), "kept");
        assert_eq!(mode(&path.join("lock")), 0o600);
        rustix::fs::mknodat(
            CWD,
            path.join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(refusal(&own.file("pipe").unwrap_err()), Some(Unsafe::NotAFile));
    }

    #[test]
    fn another_users_directory_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("theirs");
        std::fs::create_dir(&path).unwrap();
        if std::os::unix::fs::chown(&path, Some(12345), None).is_err() {
            eprintln!("not tested: only root can give a directory away");
            return;
        }
        assert_eq!(refusal(&OwnDir::open(&path).unwrap_err()), Some(Unsafe::Owner(12345)));
    }
}
