//! The dataset of the backups: each backup is one of its snapshots.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use poolwright_apply::json_file;
use poolwright_base::{cannot, mountinfo, quoted, time};
use poolwright_dbms::database::{DatabaseKind, joined};
use poolwright_dbms::directories::{DatabaseDirs, SNAPSHOTS};
use poolwright_zfs::datasets::{DatasetAdmin, of_pool, pool_of};
use poolwright_zfs::user::LockOwner;
use rustix::fs::{FlockOperation, flock};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::error::refused;
use crate::manifest::{
    self, BackupManifest, DestinationIdentity, FILES, IDENTITY, RestoreResult, StorageTier, VERIFIED, age,
    order_of,
};

/// The reason why a snapshot without a manifest is not listed as a backup.
pub(crate) const NO_BACKUP: &str = "it is not a backup";
/// The reason why a snapshot is not listed whose directory looks empty.
const NOT_SHOWN: &str = "the kernel did not mount the snapshot";

/// A mounted dataset of backups.
pub struct BackupDestination {
    dataset: String,
    mountpoint: PathBuf,
    admin: Box<dyn DatasetAdmin>,
    /// Open while this run may change it.
    locks: Vec<File>,
}

/// A backup in a list.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackupEntry {
    /// The backup.
    pub manifest: BackupManifest,
    /// Seconds since the snapshot of the database; negative if it lies in the future of this host's clock.
    pub age_s: i64,
    /// The last result of restoring it, of one that could not test it only if no other has; missing if it was never restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_restore: Option<RestoreResult>,
}

/// The backups in a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackupList {
    /// The dataset.
    pub dataset: String,
    /// The backups, oldest first, in the order in which they were made, whatever their times. All are complete: an interrupted run
    /// leaves none.
    pub backups: Vec<BackupEntry>,
    /// Seconds since the last restore that passed, negative if it lies in the future; missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_good_restore_age_s: Option<i64>,
    /// Seconds since the newest backup that was restored and passed was made; missing if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_good_backup_age_s: Option<i64>,
    /// Snapshots that are not backups, or cannot be read, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, String>,
}

impl BackupDestination {
    /// Whether the dataset exists.
    ///
    /// # Errors
    /// If its pool cannot be queried.
    pub fn exists(dataset: &str) -> Result<bool> {
        Ok(!of_pool(pool_of(dataset))?.properties(dataset)?.is_empty())
    }

    /// Opens a mounted dataset of backups.
    ///
    /// # Errors
    /// A refusal if it is not mounted.
    pub fn open(dataset: &str) -> Result<BackupDestination> {
        let admin = of_pool(pool_of(dataset))?;
        let Some(mount) = admin.mount_of(dataset)? else {
            return refused(format!(
                "{dataset} is not mounted\nhint: mount it; it is accessed through its mount"
            ));
        };
        let (dataset, mountpoint) = (dataset.to_owned(), mount.point);
        Ok(BackupDestination { dataset, mountpoint, admin, locks: Vec::new() })
    }

    /// Prevents other runs from changing the dataset until this is dropped.
    ///
    /// # Errors
    /// A refusal if another run has it.
    pub fn lock(&mut self) -> Result<()> {
        match try_lock(&self.mountpoint, FlockOperation::NonBlockingLockExclusive)? {
            Some(dir) => {
                self.locks.push(dir);
                Ok(())
            }
            None => refused(format!(
                "another backup or removal uses {} now{}",
                self.dataset,
                owner_of(&self.mountpoint)
            )),
        }
    }

    /// As [`BackupDestination::lock`], to remove backups: also prevents others from reading them.
    ///
    /// # Errors
    /// A refusal if another run has the dataset, or reads a backup.
    pub fn lock_for_removal(&mut self) -> Result<()> {
        self.lock()?;
        let files = self.mountpoint.join(FILES);
        if !files.is_dir() {
            return Ok(());
        }
        match try_lock(&files, FlockOperation::NonBlockingLockExclusive)? {
            Some(dir) => {
                self.locks.push(dir);
                Ok(())
            }
            None => refused(format!(
                "a backup of {} is being read{}\nhint: wait until that ends, or end it; an interrupted transfer can be continued",
                self.dataset,
                owner_of(&files)
            )),
        }
    }

    /// Prevents others from removing backups until the returned file is closed. New backups can be made at the same time.
    ///
    /// # Errors
    /// A refusal if backups are being removed, or there is none.
    pub fn lock_for_reading(&self) -> Result<File> {
        let files = self.mountpoint.join(FILES);
        if !files.is_dir() {
            return refused(format!("{} has no backup", self.dataset));
        }
        match try_lock(&files, FlockOperation::NonBlockingLockShared)? {
            Some(dir) => Ok(dir),
            None => {
                refused(format!("backups are being removed from {} now{}", self.dataset, owner_of(&files)))
            }
        }
    }

    /// The dataset's name.
    pub fn dataset(&self) -> &str {
        &self.dataset
    }

    /// Its mount point.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// Refuses a directory in the mount of the backups: their snapshots must contain nothing else.
    ///
    /// # Errors
    /// A refusal.
    pub(crate) fn check_outside(&self, dir: &Path) -> Result<()> {
        match dir.starts_with(&self.mountpoint) {
            true => refused(format!("{} is in the mount of {}", quoted(dir), self.dataset)),
            false => Ok(()),
        }
    }

    /// Access to its pool.
    pub fn admin(&self) -> &dyn DatasetAdmin {
        &*self.admin
    }

    /// The directory of a backup.
    pub fn root_of(&self, name: &str) -> PathBuf {
        self.mountpoint.join(SNAPSHOTS).join(name)
    }

    /// The purpose of the dataset; `None` if it is not a dataset of backups.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn identity(&self) -> Result<Option<DestinationIdentity>> {
        Ok(json_file::read(&self.mountpoint.join(IDENTITY))?)
    }

    /// Refuses the root dataset of a pool, one that has another dataset in its mount, and one that has files and is not a dataset of
    /// backups. Otherwise what the dataset is for; `None` if it is empty.
    ///
    /// # Errors
    /// A refusal; or if the dataset cannot be read.
    pub fn check_use(&self) -> Result<Option<DestinationIdentity>> {
        if !self.dataset.contains('/') {
            return refused(format!("{} is the root dataset of its pool", self.dataset));
        }
        let mounts = mountinfo::read()?;
        let is_other_dataset =
            |mount: &&mountinfo::MountEntry| !mount.point.starts_with(self.mountpoint.join(SNAPSHOTS));
        if let Some(below) = mountinfo::below(&mounts, &self.mountpoint).find(is_other_dataset) {
            return refused(format!("{} is mounted in the mount of {}", quoted(&below.point), self.dataset));
        }
        if let Some(identity) = self.identity()? {
            return Ok(Some(identity));
        }
        let is_other = |entry: &std::io::Result<fs::DirEntry>| {
            entry.as_ref().map_or(true, |entry| entry.file_name() != ".zfs")
        };
        let mut entries = fs::read_dir(&self.mountpoint).map_err(cannot("list", &self.mountpoint))?;
        match entries.find(is_other) {
            Some(_) => refused(format!("{} has files and is not a dataset of backups", self.dataset)),
            None => Ok(None),
        }
    }

    /// Refuses a dataset that the database is on, that is mounted in its directories or has one of them in its mount, that has other
    /// files, that has backups of another database, or that is an archive.
    ///
    /// # Errors
    /// A refusal; or if the dataset cannot be read.
    pub fn check(
        &self,
        sources: &DatabaseDirs,
        database: DatabaseKind,
    ) -> Result<Option<DestinationIdentity>> {
        if sources.datasets().contains(&self.dataset) || sources.contain(&self.mountpoint) {
            return refused(format!("{} holds the database itself", self.dataset));
        }
        if let Some(inside) = sources.all.iter().find(|source| source.path.starts_with(&self.mountpoint)) {
            return refused(format!("{} is in the mount of {}", quoted(&inside.path), self.dataset));
        }
        let Some(identity) = self.check_use()? else { return Ok(None) };
        if identity.tier() == StorageTier::Archive {
            return refused(format!("{} is an archive, into which backups are copied", self.dataset));
        }
        if identity.paths != sources.paths() || identity.database != database {
            return refused(format!(
                "{} has backups of another database: of {} in {}",
                self.dataset,
                identity.database.name(),
                joined(&identity.paths)
            ));
        }
        Ok(Some(identity))
    }

    /// Marks the dataset as one of backups of this database, and makes it private.
    ///
    /// # Errors
    /// The host's errors.
    pub fn claim(&self, sources: &DatabaseDirs, database: DatabaseKind) -> Result<DestinationIdentity> {
        self.claim_as(database, sources.paths(), None)
    }

    /// Marks the dataset as an archive of the backups in a dataset with this identity, and makes it private.
    ///
    /// # Errors
    /// The host's errors.
    pub fn claim_archive(&self, of: &DestinationIdentity) -> Result<DestinationIdentity> {
        self.claim_as(of.database, of.paths.clone(), Some(of.id.clone()))
    }

    fn claim_as(
        &self,
        database: DatabaseKind,
        paths: Vec<PathBuf>,
        archive_of: Option<String>,
    ) -> Result<DestinationIdentity> {
        let at = |what| cannot(what, &self.mountpoint);
        fs::set_permissions(&self.mountpoint, Permissions::from_mode(0o700))
            .map_err(at("set the mode of"))?;
        let id = format!("{:08x}", random() >> 32);
        let identity = DestinationIdentity {
            version: manifest::VERSION,
            id,
            database,
            paths,
            archive_of,
            wal_archive: None,
        };
        json_file::write(&self.mountpoint.join(IDENTITY), &identity)?;
        Ok(identity)
    }

    /// Lists the backups.
    ///
    /// # Errors
    /// If the pool cannot be queried, or the results of restores cannot be read.
    pub fn list(&self) -> Result<BackupList> {
        let results = self.restore_results()?;
        let now = time::unix_seconds() as u64;
        let (mut backups, mut others) = (Vec::new(), BTreeMap::new());
        for snapshot in self.admin.snapshots(&self.dataset)? {
            let Some((_, name)) = snapshot.name.split_once('@') else { continue };
            match manifest::read_manifest(&self.root_of(name)) {
                Ok(Some(manifest)) if manifest.name == name => {
                    let mut of_backup = results.iter().filter(|of| of.id == manifest.id);
                    let tested = of_backup.clone().rfind(|of| of.untested.is_none());
                    let last_restore = tested.or_else(|| of_backup.next_back()).cloned();
                    let age_s = age(now, manifest.created_unix_s);
                    backups.push(BackupEntry { manifest, age_s, last_restore });
                }
                Ok(Some(manifest)) => {
                    others.insert(name.to_owned(), format!("the backup {} was renamed", manifest.name));
                }
                Ok(None) => {
                    let why = if self.shows(name)? { NO_BACKUP } else { NOT_SHOWN };
                    others.insert(name.to_owned(), why.to_owned());
                }
                Err(why) => {
                    others.insert(name.to_owned(), why.to_string());
                }
            }
        }
        if self.identity()?.is_some_and(|identity| identity.tier() == StorageTier::Archive) {
            backups.sort_by(|a, b| order_of(&a.manifest).cmp(&order_of(&b.manifest)));
        }
        let last_good = results.iter().rfind(|of| of.passed).map(|of| of.unix_s);
        let is_good = |of: &&BackupEntry| of.last_restore.as_ref().is_some_and(|restore| restore.passed);
        Ok(BackupList {
            dataset: self.dataset.clone(),
            last_good_restore_age_s: last_good.map(|time| age(now, time)),
            newest_good_backup_age_s: backups.iter().rev().find(is_good).map(|of| of.age_s),
            backups,
            others,
        })
    }

    /// Whether the directory of a snapshot shows it.
    fn shows(&self, name: &str) -> Result<bool> {
        let full = format!("{}@{name}", self.dataset);
        Ok(self.admin.shows_snapshot(&full, &self.root_of(name))?)
    }

    /// The results of restores, oldest first.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn restore_results(&self) -> Result<Vec<RestoreResult>> {
        Ok(json_file::read(&self.mountpoint.join(VERIFIED))?.unwrap_or_default())
    }

    /// Adds a result, in place of the earlier one of the same backup, and removes those of backups that do not exist any more. One that could
    /// not test the backup does not replace one that did.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    pub fn record(&self, result: &RestoreResult) -> Result<()> {
        // Restores can run at the same time, also while a backup is made.
        let path = self.mountpoint.join(IDENTITY);
        let identity = File::open(&path).map_err(cannot("open", &path))?;
        flock(&identity, FlockOperation::LockExclusive).map_err(cannot("lock", &path))?;
        let mut results = self.restore_results()?;
        let is_replaced = |of: &RestoreResult| result.untested.is_none() || of.untested.is_some();
        results.retain(|of| of.id != result.id || !is_replaced(of));
        results.push(result.clone());
        let existing: Vec<String> = self.list()?.backups.into_iter().map(|of| of.manifest.id).collect();
        let last_good = results.iter().rfind(|of| of.passed).map(|of| of.id.clone());
        // The age of the last good restore is known also after its backup was removed.
        results.retain(|of| existing.contains(&of.id) || Some(&of.id) == last_good.as_ref());
        Ok(json_file::write(&self.mountpoint.join(VERIFIED), &results)?)
    }
}

/// The process that has a directory locked, for a message; empty if it is not known.
fn owner_of(dir: &Path) -> String {
    let owner = LockOwner::of(dir);
    owner.map_or_else(String::new, |of| format!(", by process {} (`{}`)", of.pid, of.command))
}

/// Opens and locks a directory; `None` if another process has it locked.
fn try_lock(dir: &Path, operation: FlockOperation) -> Result<Option<File>> {
    let file = File::open(dir).map_err(cannot("open", dir))?;
    locked(file, dir, operation)
}

/// Locks an open file; `None` if another process has it locked.
pub(crate) fn locked(file: File, path: &Path, operation: FlockOperation) -> Result<Option<File>> {
    match flock(&file, operation) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(cause) => Err(cannot("lock", path)(cause).into()),
    }
}

/// A name for a snapshot, from the present time, that is free.
pub(crate) fn free_name(prefix: &str, is_free: impl Fn(&str) -> bool) -> String {
    let now: String = time::now().chars().filter(char::is_ascii_alphanumeric).collect();
    let base = format!("{prefix}{now}");
    let numbered = (2_u32..).map(|number| format!("{base}-{number}"));
    std::iter::once(base.clone()).chain(numbered).find(|name| is_free(name)).unwrap_or(base)
}

/// A random number.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
