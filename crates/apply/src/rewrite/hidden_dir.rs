//! A hidden directory in the mount point of a dataset, for what a run has not put in its place yet.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use poolwright_host::{private, quoted};

use super::attributes;
use crate::error::refused;
use crate::{Error, Result};

/// The directory, which may not exist. The mount point keeps its times when it is created or removed.
#[derive(Clone, Debug)]
pub struct HiddenDir {
    mountpoint: PathBuf,
    path: PathBuf,
}

impl HiddenDir {
    /// The directory with this name.
    pub fn new(mountpoint: &Path, name: &str) -> HiddenDir {
        HiddenDir { mountpoint: mountpoint.to_owned(), path: mountpoint.join(name) }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates it, if it does not exist.
    ///
    /// # Errors
    /// The host's errors; [`Error::Refused`] if it is not a directory of this user.
    pub fn make(&self) -> Result<()> {
        let meta = self.inspect_mountpoint()?;
        match DirBuilder::new().mode(private::DIR).create(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::AlreadyExists => self.check_own(),
            made => {
                made.map_err(Error::host("create", &self.path))?;
                set_times(&self.mountpoint, attributes::times(&meta))
            }
        }
    }

    /// The paths in it; none if it does not exist.
    ///
    /// # Errors
    /// As [`HiddenDir::make`].
    pub fn listed(&self) -> Result<Vec<PathBuf>> {
        if !self.exists()? {
            return Ok(Vec::new());
        }
        self.check_own()?;
        let entries = fs::read_dir(&self.path).map_err(Error::host("list", &self.path))?;
        let paths = entries.map(|entry| Ok(entry.map_err(Error::host("list", &self.path))?.path()));
        paths.collect()
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// As [`HiddenDir::make`]. Ignores a missing directory.
    pub fn remove(&self) -> Result<()> {
        for path in self.listed()? {
            let meta = fs::symlink_metadata(&path).map_err(Error::host("inspect", &path))?;
            let removed = if meta.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(Error::host("remove", &path))?;
        }
        let meta = self.inspect_mountpoint()?;
        match fs::remove_dir(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
            removed => {
                removed.map_err(Error::host("remove", &self.path))?;
                set_times(&self.mountpoint, attributes::times(&meta))
            }
        }
    }

    fn exists(&self) -> Result<bool> {
        match fs::symlink_metadata(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(false),
            meta => meta.map(|_| true).map_err(Error::host("inspect", &self.path)),
        }
    }

    /// Refuses one that is not this user's directory: the owner of the dataset could have put a link in its place.
    fn check_own(&self) -> Result<()> {
        let meta = fs::symlink_metadata(&self.path).map_err(Error::host("inspect", &self.path))?;
        if meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        refused(format!("{} exists and is not a directory of this user", quoted(&self.path)))
    }

    fn inspect_mountpoint(&self) -> Result<Metadata> {
        fs::symlink_metadata(&self.mountpoint).map_err(Error::host("inspect", &self.mountpoint))
    }
}

/// Sets the times of a directory. Ignores one that has disappeared.
pub fn set_times(dir: &Path, times: FileTimes) -> Result<()> {
    match File::open(dir).and_then(|open| open.set_times(times)) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        set => set.map_err(Error::host("set the times of", dir)),
    }
}
