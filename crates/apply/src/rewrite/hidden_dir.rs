//! A hidden directory in the mount point of a dataset, for what a run has not put in its place yet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, FileTimes, Metadata};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, DirEntryExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use poolwright_host::{Part, kernel, private, quoted};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{attributes, tree};
use crate::error::refused;
use crate::{Error, Result};

/// The mount point was modified by the creation of the directory if both times are this close.
const SAME_TIME: Duration = Duration::from_millis(100);
/// Starts the names of all hidden directories.
const PREFIX: &[u8] = b".poolwright-";

/// What the mount point was like before the directory was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedMountPoint {
    /// The identifier of the start of the host since which this was saved.
    boot: String,
    /// Its modification time: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    /// Its access time.
    accessed: (i64, i64),
    /// A digest of its entries, without the hidden directories.
    entries: String,
}

impl SavedMountPoint {
    fn times(&self) -> FileTimes {
        FileTimes::new()
            .set_modified(attributes::time(self.modified.0, self.modified.1))
            .set_accessed(attributes::time(self.accessed.0, self.accessed.1))
    }
}

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
        self.restore_times()?;
        let meta = self.inspect_mountpoint()?;
        self.save(&meta)?;
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

    /// Restores the times of the mount point if a crash came right after the creation or the removal of the directory.
    ///
    /// # Errors
    /// The host's errors.
    pub fn restore_times(&self) -> Result<()> {
        let text = fs::read(&self.times).ok();
        let saved: Option<SavedMountPoint> = text.and_then(|text| serde_json::from_slice(&text).ok());
        let Some(saved) = saved else { return Ok(()) };
        let modified =
            self.inspect_mountpoint()?.modified().map_err(Error::host("inspect", &self.mountpoint))?;
        match self.is_new(modified)? || self.is_replayed(&saved, modified)? {
            true => self.set_times_durably(saved.times()),
            false => Ok(()),
        }
    }

    /// Whether the mount point was last modified by the creation of the directory.
    fn is_new(&self, modified: SystemTime) -> Result<bool> {
        if !self.exists()? {
            return Ok(false);
        }
        let inspected = fs::symlink_metadata(&self.path).map_err(Error::host("inspect", &self.path))?;
        // Without a time of creation, nothing is known.
        let apart = inspected
            .created()
            .ok()
            .map(|created| modified.duration_since(created).unwrap_or_else(|before| before.duration()));
        Ok(apart.is_some_and(|apart| apart < SAME_TIME))
    }

    /// Whether the mount point was modified since the host has started, but still has the entries from before: when the pool was imported,
    /// the creation or the removal of the directory was done once more from the intent log.
    fn is_replayed(&self, saved: &SavedMountPoint, modified: SystemTime) -> Result<bool> {
        let Some(started) = kernel::start_time() else { return Ok(false) };
        let is_crashed = saved.boot != kernel::boot_id() && modified >= started;
        Ok(is_crashed && saved.entries == self.entries()?)
    }

    fn save(&self, meta: &Metadata) -> Result<()> {
        let saved = SavedMountPoint {
            boot: kernel::boot_id(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            accessed: (meta.atime(), meta.atime_nsec()),
            entries: self.entries()?,
        };
        let write = || {
            let (part, mut file) = Part::create(&self.times, private::FILE)?;
            file.write_all(&serde_json::to_vec(&saved)?)?;
            file.sync_all()?;
            part.rename(&self.times)?;
            self.times.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
        };
        write().map_err(Error::host("write", &self.times))
    }

    /// A digest of the names and inode numbers of the mount point's entries, without the hidden directories.
    fn entries(&self) -> Result<String> {
        let mut found: BTreeMap<OsString, u64> = BTreeMap::new();
        for entry in fs::read_dir(&self.mountpoint).map_err(Error::host("list", &self.mountpoint))? {
            let entry = entry.map_err(Error::host("list", &self.mountpoint))?;
            if !entry.file_name().as_bytes().starts_with(PREFIX) {
                found.insert(entry.file_name(), entry.ino());
            }
        }
        let mut digest = Sha256::new();
        for (name, inode) in found {
            digest.update(name.as_bytes());
            digest.update([0]);
            digest.update(inode.to_le_bytes());
        }
        Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
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
        self.restore_times()?;
        for path in self.listed()? {
            tree::remove(&path)?;
        }
        let meta = self.inspect_mountpoint()?;
        match fs::remove_dir(&self.path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => {}
            removed => {
                removed.map_err(Error::host("remove", &self.path))?;
                self.set_times_durably(attributes::times(&meta))?;
            }
        }
        match fs::remove_file(&self.times) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(Error::host("remove", &self.times)),
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
        // As after a crash of the host, when the creation or the removal was replayed.
        for again in [HiddenDir::make, HiddenDir::remove] {
            hidden.make().unwrap();
            let text = fs::read_to_string(&hidden.times).unwrap();
            let mut saved: SavedMountPoint = serde_json::from_str(&text).unwrap();
            saved.boot = "another".to_owned();
            fs::write(&hidden.times, serde_json::to_vec(&saved).unwrap()).unwrap();
            let replayed = SystemTime::now() + Duration::from_secs(5);
            let touch = || set_times(dir.path(), FileTimes::new().set_modified(replayed)).unwrap();
            fs::remove_dir(hidden.path()).unwrap();
            touch();
            again(&hidden).unwrap();
            assert_eq!(modified(), old, "the entries are the same");
            hidden.make().unwrap();
            fs::write(&hidden.times, serde_json::to_vec(&saved).unwrap()).unwrap();
            fs::write(dir.path().join("table"), "").unwrap();
            touch();
            again(&hidden).unwrap();
            assert_eq!(modified(), replayed, "a file was created");
            fs::remove_file(dir.path().join("table")).unwrap();
            hidden.remove().unwrap();
            set_times(dir.path(), FileTimes::new().set_modified(old)).unwrap();
        }
        // What was written later counts.
        hidden.make().unwrap();
        let later = fs::metadata(hidden.path()).unwrap().created().unwrap() + Duration::from_secs(5);
        set_times(dir.path(), FileTimes::new().set_modified(later)).unwrap();
        hidden.make().unwrap();
        assert_eq!(modified(), later);
    }
}
