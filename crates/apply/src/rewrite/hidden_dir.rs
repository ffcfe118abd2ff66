//! A hidden directory in the mount point of a dataset, for files that a run has not yet moved to their final paths.
//!
//! The mount point can belong to the owner of the database, who can rename the directory and create another one with its name. Therefore, a
//! run uses it only if it is the directory that was created for this run: it belongs to this user, no other user can enter it, and it has
//! the recorded inode number.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, Metadata};
use std::io::{ErrorKind, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use poolwright_base::directory::Directory;
use poolwright_base::{Part, cannot, kernel, private, quoted};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::attributes;
use super::entry::EntryAt;
use crate::error::refused;
use crate::{Error, Result};

/// The mount point was modified by the creation of the directory if both times are this close.
const SAME_TIME: Duration = Duration::from_millis(100);
/// Starts the names of all hidden directories.
const PREFIX: &[u8] = b".poolwright-";
/// The permissions of other users.
const OTHERS: u32 = 0o077;

/// How long to wait for the space of removed files.
const FREE_TIME: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(200);

/// The state of the mount point before the directory was created.
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
        attributes::file_times(self.accessed, self.modified)
    }
}

/// The record of the directory, in a file that survives a crash.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct HiddenDirRecord {
    /// Missing after the directory was removed.
    #[serde(flatten)]
    mountpoint: Option<SavedMountPoint>,
    /// The directory's inode number. It is kept after the directory was removed, because a rollback brings the directory back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
}

/// The directory, which may not exist. The mount point keeps its times when it is created or removed.
#[derive(Debug)]
pub struct HiddenDir {
    mountpoint: Directory,
    name: OsString,
    /// The file with the [`HiddenDirRecord`].
    record: PathBuf,
    open: RefCell<Option<Rc<Directory>>>,
}

impl HiddenDir {
    /// The directory with this name. `record` is a file for what is known about it, on another file system.
    pub fn new(mountpoint: Directory, name: impl Into<OsString>, record: &Path) -> HiddenDir {
        HiddenDir { mountpoint, name: name.into(), record: record.to_owned(), open: RefCell::default() }
    }

    /// The mount point.
    pub fn mountpoint(&self) -> &Directory {
        &self.mountpoint
    }

    /// Its path, for messages.
    pub fn path(&self) -> PathBuf {
        self.entry().path()
    }

    fn entry(&self) -> EntryAt<'_> {
        EntryAt::new(&self.mountpoint, &self.name)
    }

    /// Opens it; `None` if it does not exist. It stays open, so whatever its name is later, it is used until it is removed.
    ///
    /// # Errors
    /// The host's errors; [`Error::Refused`] if it is not the one that was created for this run.
    pub fn open(&self) -> Result<Option<Rc<Directory>>> {
        if let Some(open) = &*self.open.borrow() {
            return Ok(Some(Rc::clone(open)));
        }
        let record = self.read()?;
        match self.entry().inspect()? {
            None => return Ok(None),
            Some(meta) if !meta.is_dir() => return self.not_own(),
            Some(_) => {}
        }
        let dir = self.entry().directory()?;
        let meta = dir.metadata().map_err(cannot("inspect", dir.path()))?;
        let is_private = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & OTHERS == 0;
        let inode = record.and_then(|record| record.inode);
        if !is_private || inode.is_some_and(|inode| inode != meta.ino()) {
            return self.not_own();
        }
        Ok(Some(self.keep(dir)))
    }

    fn keep(&self, dir: Directory) -> Rc<Directory> {
        Rc::clone(self.open.borrow_mut().insert(Rc::new(dir)))
    }

    fn not_own<T>(&self) -> Result<T> {
        refused(format!(
            "{} exists, but was not created by this plan\nhint: the owner of the dataset has put it there; move it away",
            quoted(&self.path())
        ))
    }

    /// Opens it, and creates it if it does not exist.
    ///
    /// # Errors
    /// As [`HiddenDir::open`].
    pub fn make(&self) -> Result<Rc<Directory>> {
        if let Some(open) = self.open()? {
            // Something else that belongs to this user can have been renamed.
            if self.read()?.is_none() && !self.names()?.is_empty() {
                return self.not_own();
            }
            self.restore_times()?;
            return Ok(open);
        }
        self.restore_times()?;
        let meta = self.inspect_mountpoint()?;
        let saved = SavedMountPoint {
            boot: kernel::boot_id(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            accessed: (meta.atime(), meta.atime_nsec()),
            entries: self.entries()?,
        };
        let mut record = HiddenDirRecord { mountpoint: Some(saved), inode: None };
        self.write(&record)?;
        let made = self.mountpoint.create_directory(&self.name).map_err(cannot("create", self.path()))?;
        record.inode = Some(made.metadata().map_err(cannot("inspect", made.path()))?.ino());
        self.write(&record)?;
        self.set_times_durably(attributes::times(&meta))?;
        Ok(self.keep(made))
    }

    /// Sets the times of the mount point, and syncs it. OpenZFS puts the creation and the removal of a directory into its intent log as soon
    /// as any file is synced, but a time only when its own file is: after a crash, the mount point would have the time of the import.
    fn set_times_durably(&self, times: FileTimes) -> Result<()> {
        let path = self.mountpoint.path();
        // If the space has ended, that of removed files is free a few transaction groups later.
        let set = retry_while_full(|| self.mountpoint.set_times(times));
        set.map_err(cannot("set the times of", path))?;
        Ok(self.mountpoint.sync().map_err(cannot("sync", path))?)
    }

    /// Restores the times of the mount point if a crash came right after the creation or the removal of the directory.
    ///
    /// # Errors
    /// The host's errors; [`Error::Journal`] for a damaged record.
    pub fn restore_times(&self) -> Result<()> {
        let Some(saved) = self.read()?.and_then(|record| record.mountpoint) else { return Ok(()) };
        let modified =
            self.inspect_mountpoint()?.modified().map_err(cannot("inspect", self.mountpoint.path()))?;
        match self.is_new(modified)? || self.is_replayed(&saved, modified)? {
            true => self.set_times_durably(saved.times()),
            false => Ok(()),
        }
    }

    /// Whether the mount point was last modified by the creation of the directory.
    fn is_new(&self, modified: SystemTime) -> Result<bool> {
        // Without a time of creation, nothing is known.
        let created = self.entry().inspect()?.and_then(|meta| meta.created().ok());
        let apart = created
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

    fn read(&self) -> Result<Option<HiddenDirRecord>> {
        let text = match fs::read(&self.record) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.map_err(cannot("read", &self.record))?,
        };
        let damaged =
            |why: serde_json::Error| Error::Journal { path: self.record.clone(), why: why.to_string() };
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    fn write(&self, record: &HiddenDirRecord) -> Result<()> {
        let write = || {
            let (part, mut file) = Part::create(&self.record, private::FILE)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            part.rename(&self.record)?;
            self.record.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
        };
        Ok(write().map_err(cannot("write", &self.record))?)
    }

    /// A digest of the names and inode numbers of the mount point's entries, without the hidden directories.
    fn entries(&self) -> Result<String> {
        let mut found: BTreeMap<OsString, u64> = BTreeMap::new();
        for name in self.mountpoint.names().map_err(cannot("list", self.mountpoint.path()))? {
            if !name.as_bytes().starts_with(PREFIX)
                && let Some(meta) = EntryAt::new(&self.mountpoint, &name).inspect()?
            {
                found.insert(name, meta.ino());
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

    /// The names in it; none if it does not exist.
    ///
    /// # Errors
    /// As [`HiddenDir::open`].
    pub fn names(&self) -> Result<Vec<OsString>> {
        let Some(dir) = self.open()? else { return Ok(Vec::new()) };
        Ok(dir.names().map_err(cannot("list", dir.path()))?)
    }

    /// Removes what has a name in it. Ignores a missing one.
    ///
    /// # Errors
    /// As [`HiddenDir::open`].
    pub fn remove_entry(&self, name: &OsStr) -> Result<()> {
        self.open()?.map_or(Ok(()), |dir| EntryAt::new(&dir, name).remove())
    }

    /// Removes it with everything in it.
    ///
    /// # Errors
    /// As [`HiddenDir::open`]. Ignores a missing directory.
    pub fn remove(&self) -> Result<()> {
        // First, because setting times needs space.
        for name in self.names()? {
            self.remove_entry(&name)?;
        }
        self.restore_times()?;
        let inode = self.read()?.and_then(|record| record.inode);
        if let Some(dir) = self.open()? {
            let meta = self.inspect_mountpoint()?;
            let inode = dir.metadata().map_err(cannot("inspect", dir.path()))?.ino();
            if self.entry().inspect()?.is_none_or(|found| found.ino() != inode) {
                return refused(format!(
                    "{} was renamed\nhint: the owner of the dataset has done that; it is empty",
                    quoted(&self.path())
                ));
            }
            self.mountpoint.remove_directory(&self.name).map_err(cannot("remove", self.path()))?;
            self.open.take();
            self.set_times_durably(attributes::times(&meta))?;
        }
        match inode {
            Some(_) => self.write(&HiddenDirRecord { mountpoint: None, inode }),
            None => match fs::remove_file(&self.record) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
                removed => Ok(removed.map_err(cannot("remove", &self.record))?),
            },
        }
    }

    fn inspect_mountpoint(&self) -> Result<Metadata> {
        Ok(self.mountpoint.metadata().map_err(cannot("inspect", self.mountpoint.path()))?)
    }
}

/// Tries something again, for a while, until there is space for it.
fn retry_while_full<T>(mut attempt: impl FnMut() -> std::io::Result<T>) -> std::io::Result<T> {
    let end = Instant::now() + FREE_TIME;
    loop {
        match attempt() {
            Err(error) if is_full(&error) && Instant::now() < end => std::thread::sleep(POLL),
            done => return done,
        }
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn the_mount_point_keeps_its_times_also_after_a_crash() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mountpoint = || Directory::open(dir.path()).unwrap();
        let set_times = |times| mountpoint().set_times(times).unwrap();
        let hidden = HiddenDir::new(mountpoint(), ".hidden", &state.path().join("times"));
        let old = attributes::time(1_000_000_000, 5);
        let modified = || fs::metadata(dir.path()).unwrap().modified().unwrap();
        set_times(FileTimes::new().set_modified(old));
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
        for again in [|of: &HiddenDir| of.make().map(drop), HiddenDir::remove] {
            hidden.make().unwrap();
            let created = fs::metadata(hidden.path()).unwrap().created().unwrap();
            set_times(FileTimes::new().set_modified(created));
            again(&hidden).unwrap();
            assert_eq!(modified(), old);
        }
        // As after a crash of the host, when the creation or the removal was replayed.
        for again in [|of: &HiddenDir| of.make().map(drop), HiddenDir::remove] {
            hidden.make().unwrap();
            let mut record = hidden.read().unwrap().unwrap();
            record.mountpoint.as_mut().unwrap().boot = "another".to_owned();
            hidden.write(&record).unwrap();
            let replayed = SystemTime::now() + Duration::from_secs(5);
            let touch = || set_times(FileTimes::new().set_modified(replayed));
            fs::remove_dir(hidden.path()).unwrap();
            hidden.open.take();
            touch();
            again(&hidden).unwrap();
            assert_eq!(modified(), old, "the entries are the same");
            hidden.make().unwrap();
            hidden.write(&record).unwrap();
            fs::write(dir.path().join("table"), "").unwrap();
            touch();
            again(&hidden).unwrap();
            assert_eq!(modified(), replayed, "a file was created");
            fs::remove_file(dir.path().join("table")).unwrap();
            hidden.remove().unwrap();
            set_times(FileTimes::new().set_modified(old));
        }
        // What was written later counts.
        hidden.make().unwrap();
        let later = fs::metadata(hidden.path()).unwrap().created().unwrap() + Duration::from_secs(5);
        set_times(FileTimes::new().set_modified(later));
        hidden.make().unwrap();
        assert_eq!(modified(), later);
    }

    /// The owner of the mount point can give the name to something else before and during a run.
    #[test]
    fn only_the_directory_that_was_created_is_used() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (outside, at) = (tempfile::tempdir().unwrap(), |name: &str| dir.path().join(name));
        fs::write(outside.path().join("precious"), "precious").unwrap();
        let new =
            || HiddenDir::new(Directory::open(dir.path()).unwrap(), ".hidden", &state.path().join("record"));
        let is_refused = |hidden: &HiddenDir| {
            let refused = [hidden.make().map(drop), hidden.remove(), hidden.names().map(drop)];
            refused.iter().all(|of| of.as_ref().is_err_and(Error::is_refusal))
        };
        std::os::unix::fs::symlink(outside.path(), at(".hidden")).unwrap();
        assert!(is_refused(&new()), "a link");
        fs::remove_file(at(".hidden")).unwrap();
        fs::create_dir(at(".hidden")).unwrap();
        fs::set_permissions(at(".hidden"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        assert!(is_refused(&new()), "one that others can enter");
        fs::set_permissions(at(".hidden"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        fs::write(at(".hidden/other"), "").unwrap();
        assert!(new().make().unwrap_err().is_refusal(), "one of this user that was not created here");
        fs::rename(at(".hidden"), at("other")).unwrap();

        let hidden = new();
        let open = hidden.make().unwrap();
        open.create_file("copy", 0o600).unwrap();
        fs::rename(at(".hidden"), at("aside")).unwrap();
        std::os::unix::fs::symlink(outside.path(), at(".hidden")).unwrap();
        assert!(is_refused(&new()));
        assert_eq!(hidden.names().unwrap(), ["copy"], "it is still open");
        assert!(hidden.remove().unwrap_err().is_refusal());
        fs::remove_file(at(".hidden")).unwrap();
        fs::rename(at("other"), at(".hidden")).unwrap();
        assert!(is_refused(&new()), "another inode number");
        fs::rename(at(".hidden"), at("other")).unwrap();
        fs::rename(at("aside"), at(".hidden")).unwrap();
        new().remove().unwrap();
        assert!(!at(".hidden").exists() && at("other/other").exists());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_pool_and_a_full_quota_are_waited_for_and_other_errors_are_not() {
        let attempts = |errors: &[Errno]| {
            let mut made = 0;
            let done = retry_while_full(|| {
                made += 1;
                errors.get(made - 1).map_or(Ok(()), |error| Err((*error).into()))
            });
            (made, done.is_ok())
        };
        assert_eq!(attempts(&[Errno::DQUOT, Errno::NOSPC]), (3, true));
        assert_eq!(attempts(&[Errno::DQUOT, Errno::ROFS]), (2, false));
        assert_eq!(attempts(&[Errno::ACCESS]), (1, false));
    }

    #[test]
    fn a_record_that_cannot_be_read_is_an_error() {
        let (dir, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = state.path().join("record");
        fs::write(&path, "{").unwrap();
        let hidden = HiddenDir::new(Directory::open(dir.path()).unwrap(), ".hidden", &path);
        assert!(matches!(hidden.make(), Err(Error::Journal { .. })));
        assert!(matches!(hidden.restore_times(), Err(Error::Journal { .. })));
        fs::write(&path, r#"{"boot":"b","modified":[1,2],"accessed":[3,4],"entries":"e"}"#).unwrap();
        let record = hidden.read().unwrap().unwrap();
        assert_eq!(
            (record.mountpoint.unwrap().modified, record.inode),
            ((1, 2), None),
            "of earlier releases"
        );
    }
}
