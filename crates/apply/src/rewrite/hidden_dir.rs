//! A hidden directory in the mount point of a dataset, for what a run has not put in its place yet.

use std::fs::{self, DirBuilder, File, FileTimes, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use poolwright_host::{private, quoted};

use super::scan::DirectoryEntry;
use super::{attributes, directories, tree};
use crate::error::refused;
use crate::{Error, Result};

/// The mount point was modified by the creation of the directory if both times are this close.
const SAME_TIME: Duration = Duration::from_millis(100);

/// The directory, which may not exist. The mount point keeps its times when it is created or removed.
#[derive(Clone, Debug)]
pub struct HiddenDir {
    mountpoint: PathBuf,
    path: PathBuf,
    /// The file with the mount point's times before the directory was created, which survives a crash right after that.
    times: PathBuf,
}

impl HiddenDir {
    /// The directory with this name. `times` is a file for the times of the mount point, on another file system.
    pub fn new(mountpoint: &Path, name: &str, times: &Path) -> HiddenDir {
        let (mountpoint, path) = (mountpoint.to_owned(), mountpoint.join(name));
        HiddenDir { mountpoint, path, times: times.to_owned() }
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
        if self.exists()? {
            self.check_own()?;
            return self.restore_times();
        }
        let meta = self.inspect_mountpoint()?;
        directories::save(&self.times, &[DirectoryEntry::of(&self.mountpoint, &meta)])?;
        DirBuilder::new().mode(private::DIR).create(&self.path).map_err(Error::host("create", &self.path))?;
        self.set_times_durably(attributes::times(&meta))
    }

    /// Sets the times of the mount point, and syncs it. OpenZFS puts the creation and the removal of a directory into its intent log as soon
    /// as any file is synced, but a time only when its own file is: after a crash, the mount point would have the time of the import.
    fn set_times_durably(&self, times: FileTimes) -> Result<()> {
        set_times(&self.mountpoint, times)?;
        let synced = File::open(&self.mountpoint).and_then(|dir| dir.sync_all());
        synced.map_err(Error::host("sync", &self.mountpoint))
    }

    /// Restores the times of the mount point if a crash came right after the creation of the directory.
    fn restore_times(&self) -> Result<()> {
        let inspected = fs::symlink_metadata(&self.path).map_err(Error::host("inspect", &self.path))?;
        // Without a time of creation, nothing is known.
        let (Ok(created), Ok(modified)) = (inspected.created(), self.inspect_mountpoint()?.modified()) else {
            return Ok(());
        };
        let apart = modified.duration_since(created).unwrap_or_else(|before| before.duration());
        let saved = directories::load(&self.times).ok().and_then(|saved| saved.into_iter().next());
        match saved.filter(|_| apart < SAME_TIME) {
            Some(saved) => self.set_times_durably(saved.times()),
            None => Ok(()),
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
        if self.exists()? {
            self.restore_times()?;
        }
        for path in self.listed()? {
            tree::remove(&path)?;
        }
        let meta = self.inspect_mountpoint()?;
        match fs::remove_dir(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
            removed => {
                removed.map_err(Error::host("remove", &self.path))?;
                self.set_times_durably(attributes::times(&meta))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_point_keeps_its_times_also_after_a_crash() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let hidden = HiddenDir::new(dir.path(), ".hidden", &state.path().join("times"));
        let old = attributes::time(1_000_000_000, 5);
        let modified = || fs::metadata(dir.path()).unwrap().modified().unwrap();
        set_times(dir.path(), FileTimes::new().set_modified(old)).unwrap();
        hidden.make().unwrap();
        assert_eq!(modified(), old);
        fs::write(hidden.path().join("copy"), "x").unwrap();
        hidden.remove().unwrap();
        assert!(modified() == old && !hidden.path().exists());
        if fs::metadata(dir.path()).unwrap().created().is_err() {
            println!("skipped: the file system has no time of creation");
            return;
        }
        // As after a crash between the creation and the restoration.
        for again in [HiddenDir::make, HiddenDir::remove] {
            hidden.make().unwrap();
            let created = fs::metadata(hidden.path()).unwrap().created().unwrap();
            set_times(dir.path(), FileTimes::new().set_modified(created)).unwrap();
            again(&hidden).unwrap();
            assert_eq!(modified(), old);
        }
        // What was written later counts.
        hidden.make().unwrap();
        let later = fs::metadata(hidden.path()).unwrap().created().unwrap() + Duration::from_secs(5);
        set_times(dir.path(), FileTimes::new().set_modified(later)).unwrap();
        hidden.make().unwrap();
        assert_eq!(modified(), later);
    }
}
