//! Restoring a backup for use: into the database's own directories, or below another one.
//!
//! Nothing is overwritten: each directory must be missing or empty, or one that an interrupted restore of the same backup has left. Until a
//! directory is complete, only this user can enter it, so a server cannot start there.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Instant;

use poolwright_host::{quoted, room};
use poolwright_trace::format_size;
use rustix::fs::{XattrFlags, getxattr, removexattr, setxattr};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use crate::database::{self, DatabaseKind};
use crate::destination::BackupDestination;
use crate::error::refused;
use crate::manifest::BackupManifest;
use crate::observer::{BackupObserver, BackupStage};
use crate::placement::{below, turn_links};
use crate::recovery::{Recovery, RecoveryTarget, RestoreChoice, choose};
use crate::transfer::copier;
use crate::{Error, Result};

/// The extended attribute of a directory that is not complete: the `id` of the backup.
const INCOMPLETE: &str = "user.poolwright.restore";
/// What a running PostgreSQL leaves in its directory.
const OF_SERVER: [&str; 2] = ["postmaster.pid", "postmaster.opts"];
/// Makes PostgreSQL recover from an archive, since version 12.
pub(crate) const RECOVERY_SIGNAL: &str = "recovery.signal";
/// The settings that the server itself writes.
const AUTO_CONF: &str = "postgresql.auto.conf";

/// The options of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreRunOptions {
    /// The backup; the newest (before `until`) if none is named.
    pub name: Option<String>,
    /// The directory below which the database's directories are restored with their paths; `None`: in their own places.
    pub below: Option<PathBuf>,
    /// Prepare PostgreSQL to replay the log from the WAL archive.
    pub until: Option<RecoveryTarget>,
    /// The limit of the copying, in bytes a second.
    pub rate: Option<u64>,
}

/// A database that was restored, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RestoredDatabase {
    /// The dataset of the backups.
    pub dataset: String,
    /// The backup.
    pub backup: String,
    /// Time of the snapshot of the database, RFC 3339 in UTC.
    pub created: String,
    /// Whether nothing was restored because the user only wanted to see what would be.
    pub dry_run: bool,
    /// The directories.
    pub directories: Vec<RestoredDirectory>,
    /// Number of regular files.
    pub files: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// Up to which time PostgreSQL replays the log when it is started, RFC 3339 in UTC, or `latest`; missing if it replays none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The settings for that, which were added to `postgresql.auto.conf`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
}

/// A directory of a database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RestoredDirectory {
    /// Its path when the backup was made.
    pub path: PathBuf,
    /// Where it is restored.
    pub restored_to: PathBuf,
}

/// A prepared restore.
pub struct RestoreRun {
    destination: BackupDestination,
    backup: BackupManifest,
    recovery: Option<Recovery>,
    options: RestoreRunOptions,
    directories: Vec<RestoredDirectory>,
}

impl RestoreRun {
    /// Chooses the backup, and checks the directories. Changes nothing.
    ///
    /// # Errors
    /// A refusal if there is no such backup, or a directory has files; or if the backups cannot be read.
    pub fn prepare(dataset: &str, mut options: RestoreRunOptions) -> Result<RestoreRun> {
        if let Some(dir) = &mut options.below {
            *dir = std::path::absolute(&*dir).map_err(Error::host("find", dir))?;
        }
        let destination = BackupDestination::open(dataset)?;
        let recovery = Recovery::of(&destination, options.until)?;
        let choice = options.name.clone().map_or(RestoreChoice::Newest, RestoreChoice::Named);
        let Some(backup) = choose(&destination, &choice, options.until)?.pop() else {
            return refused(format!("{dataset} has no backup"));
        };
        if let Some(recovery) = &recovery {
            recovery.check(&destination, &backup)?;
        }
        let place = |path: &PathBuf| RestoredDirectory {
            path: path.clone(),
            restored_to: options.below.as_ref().map_or_else(|| path.clone(), |top| below(top, path)),
        };
        let directories: Vec<RestoredDirectory> = backup.sources.iter().map(|of| place(&of.path)).collect();
        for directory in &directories {
            check_place(&directory.restored_to, &backup.id)?;
            if directory.restored_to.starts_with(destination.mountpoint()) {
                return refused(format!("{} is in the mount of {dataset}", quoted(&directory.restored_to)));
            }
        }
        Ok(RestoreRun { destination, backup, recovery, options, directories })
    }

    /// What the run would do, or has done.
    pub fn report(&self, is_dry_run: bool) -> RestoredDatabase {
        let settings = self.recovery.as_ref().map(settings).unwrap_or_default();
        RestoredDatabase {
            dataset: self.destination.dataset().to_owned(),
            backup: self.backup.name.clone(),
            created: self.backup.created.clone(),
            dry_run: is_dry_run,
            directories: self.directories.clone(),
            files: self.backup.files,
            bytes: self.backup.bytes,
            until: self.recovery.as_ref().map(Recovery::until),
            settings,
        }
    }

    /// Copies the backup, compares it, and prepares the database for its start.
    ///
    /// # Errors
    /// The host's errors. After an error, the directories belong to this user, and the next run continues.
    pub fn execute(self, observer: &mut dyn BackupObserver) -> Result<RestoredDatabase> {
        let _reading = self.destination.lock_for_reading()?;
        let start = Instant::now();
        let pairs = self.pairs();
        for (_, to) in &pairs {
            self.begin(to, observer)?;
        }
        let done = pairs.iter().try_for_each(|(from, to)| self.copy(from, to, observer));
        let done = done.and_then(|()| self.prepare_start());
        let done = done.and_then(|()| pairs.iter().try_for_each(|(from, to)| release(from, to)));
        done.map_err(|cause| {
            cause.with_outcome(
                "the restored files are not complete: do not start the database; the same command continues",
            )
        })?;
        let size = format_size(self.backup.bytes);
        observer.note(&format!(
            "{} files, {size}, in {:.1} s",
            self.backup.files,
            start.elapsed().as_secs_f64()
        ));
        Ok(self.report(false))
    }

    /// The copies in the backup, and the restored directories.
    fn pairs(&self) -> Vec<(PathBuf, PathBuf)> {
        let root = self.destination.root_of(&self.backup.name);
        let copies = self.backup.sources.iter().map(|source| root.join(&source.copy));
        copies.zip(self.directories.iter().map(|of| of.restored_to.clone())).collect()
    }

    /// Makes a directory in which nothing can start.
    fn begin(&self, dir: &Path, observer: &mut dyn BackupObserver) -> Result<()> {
        if let Some(parent) = dir.parent() {
            let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(parent);
            made.map_err(Error::host("create", parent))?;
        }
        if !dir.exists() {
            fs::DirBuilder::new().mode(0o700).create(dir).map_err(Error::host("create", dir))?;
        }
        self.hold(dir)?;
        let free = room::available(dir).map_err(Error::host("inspect", dir))?;
        if free < self.backup.bytes {
            let (free, size) = (format_size(free), format_size(self.backup.bytes));
            observer.note(&format!(
                "{} has {free} for files of {size}: enough only if they are compressed",
                quoted(dir)
            ));
        }
        Ok(())
    }

    /// Marks a directory as incomplete, and lets only this user enter it.
    fn hold(&self, dir: &Path) -> Result<()> {
        let user = rustix::process::geteuid().as_raw();
        chown(dir, Some(user), None).map_err(Error::host("set the owner of", dir))?;
        fs::set_permissions(dir, Permissions::from_mode(0o700))
            .map_err(Error::host("set the mode of", dir))?;
        // On a file system without extended attributes, a restore cannot be continued.
        let _ = setxattr(dir, INCOMPLETE, self.backup.id.as_bytes(), XattrFlags::empty());
        Ok(())
    }

    /// Copies a directory and compares the copy. A directory in it that is a source of its own is empty in the backup, and comes later.
    fn copy(&self, from: &Path, to: &Path, observer: &mut dyn BackupObserver) -> Result<()> {
        observer.stage(BackupStage::Restore);
        copier(observer, self.options.rate, self.backup.bytes).copy(from, to)?;
        let dir = File::open(to).map_err(Error::host("open", to))?;
        rustix::fs::syncfs(dir).map_err(Error::errno("sync", to))?;
        observer.stage(BackupStage::Compare);
        copier(observer, self.options.rate, self.backup.bytes).compare(from, to)?;
        self.hold(to)
    }

    /// Makes the links lead to the restored directories, and prepares PostgreSQL.
    fn prepare_start(&self) -> Result<()> {
        let hosts: Vec<&Path> = self.directories.iter().map(|of| of.path.as_path()).collect();
        if let Some(top) = &self.options.below {
            for directory in &self.directories {
                turn_links(&directory.restored_to, top, &hosts)?;
            }
        }
        if self.backup.database.kind != DatabaseKind::Postgresql {
            return Ok(());
        }
        let places: Vec<PathBuf> = self.directories.iter().map(|of| of.restored_to.clone()).collect();
        let data_dir = database::locate(&places, Some(DatabaseKind::Postgresql), false)?.root;
        for name in OF_SERVER {
            let path = data_dir.join(name);
            if path.exists() {
                fs::remove_file(&path).map_err(Error::host("remove", &path))?;
            }
        }
        let Some(recovery) = &self.recovery else { return Ok(()) };
        let conf = data_dir.join(AUTO_CONF);
        let opened = fs::OpenOptions::new().append(true).open(&conf);
        let mut file = opened.map_err(Error::host("open", &conf))?;
        let text: String = settings(recovery).into_iter().map(|line| line + "\n").collect();
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(Error::host("write", &conf))?;
        let signal = data_dir.join(RECOVERY_SIGNAL);
        let owner = fs::metadata(&conf).map_err(Error::host("inspect", &conf))?;
        let created = File::create(&signal).and_then(|file| file.sync_all());
        created.map_err(Error::host("create", &signal))?;
        chown(&signal, Some(owner.uid()), Some(owner.gid())).map_err(Error::host("set the owner of", &signal))
    }
}

/// Gives a complete directory to its owner.
fn release(from: &Path, to: &Path) -> Result<()> {
    let meta = fs::metadata(from).map_err(Error::host("inspect", from))?;
    match removexattr(to, INCOMPLETE) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(cause) => return Err(Error::errno("remove an attribute of", to)(cause)),
    }
    chown(to, Some(meta.uid()), Some(meta.gid())).map_err(Error::host("set the owner of", to))?;
    fs::set_permissions(to, meta.permissions()).map_err(Error::host("set the mode of", to))?;
    let dir = File::open(to).map_err(Error::host("open", to))?;
    let modified = meta.modified().map_err(Error::host("inspect", from))?;
    dir.set_modified(modified).and_then(|()| dir.sync_all()).map_err(Error::host("set the times of", to))
}

/// The lines of a PostgreSQL's configuration.
fn settings(recovery: &Recovery) -> Vec<String> {
    let line = |(name, value): (&str, String)| format!("{name} = '{}'", value.replace('\'', "''"));
    recovery.settings().into_iter().map(line).collect()
}

/// Refuses a directory that has files, unless an interrupted restore of this backup has left it.
fn check_place(dir: &Path, id: &str) -> Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(Error::host("list", dir))?,
    };
    let is_empty = entries.flatten().all(|entry| entry.file_name() == ".zfs");
    let mut mark = [0; 64];
    let marked = getxattr(dir, INCOMPLETE, mark.as_mut_slice()).map(|length| &mark[..length]);
    if is_empty || marked == Ok(id.as_bytes()) {
        return Ok(());
    }
    refused(format!(
        "{} is not empty\nhint: move its files away, or restore below another directory; nothing is overwritten",
        quoted(dir)
    ))
}
