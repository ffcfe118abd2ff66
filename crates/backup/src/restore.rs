//! Restoring a backup for use: into the database's own directories, or below another one.
//!
//! Nothing is overwritten: each directory must be missing or empty, or left by an interrupted restore of the same backup. Until a
//! directory is complete, only this user can enter it, so a server cannot start there.

mod target;

use std::io::{Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use poolwright_apply::rewrite::open_trusted;
use poolwright_base::directory::{Access, Directory};
use poolwright_base::units::format_size;
use poolwright_base::{cannot, mountinfo, quoted, room};
use poolwright_dbms::database::{self, DatabaseKind};
use poolwright_dbms::postgresql::data_dir::{
    BACKUP_LABEL, Existing, OPTIONS_FILE, PID_FILE, RECOVERY_SIGNAL, STANDBY_SIGNAL, create_empty,
    remove_files,
};
use poolwright_zfs::datasets::is_dataset;
use schemars::JsonSchema;
use serde::Serialize;

use crate::destination::BackupDestination;
use crate::error::refused;
use crate::manifest::{BackupManifest, DestinationIdentity, SourceRecord};
use crate::observer::{BackupObserver, BackupStage};
use crate::placement::{below, readable, turn_links};
use crate::recovery::{Recovery, RecoveryTarget, RestoreChoice, choose};
use crate::transfer::copier;
use crate::{Error, Result};

use target::TargetDirectory;

/// Files that a running PostgreSQL server leaves in its directory, and files of other backups than the snapshot.
const REMOVED: [&str; 3] = [PID_FILE, OPTIONS_FILE, BACKUP_LABEL];
/// The settings that the server itself writes.
const AUTO_CONF: &str = "postgresql.auto.conf";

/// The options of a restore.
#[derive(Clone, Debug, Default)]
pub struct RestoreRunOptions {
    /// The backup; the newest (before `until`) if none is named.
    pub name: Option<String>,
    /// The directory below which the database's directories are restored with their paths; `None`: at their original paths.
    pub below: Option<PathBuf>,
    /// Prepare PostgreSQL to replay the log from the WAL archive.
    pub until: Option<RecoveryTarget>,
    /// The dataset of the WAL archive, in place of the one that the backups name.
    pub wal: Option<String>,
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
    /// The settings for that, or for a new timeline, which are added to `postgresql.auto.conf`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Remarks for the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
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
    notes: Vec<String>,
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
            *dir = std::path::absolute(&*dir).map_err(cannot("find", &*dir))?;
        }
        let destination = BackupDestination::open(dataset)?;
        let target = options.until.unwrap_or(RecoveryTarget::Backup);
        let choice = options.name.clone().map_or(RestoreChoice::Newest, RestoreChoice::Named);
        let Some(backup) = choose(&destination, &choice, target)?.pop() else {
            return refused(format!("{dataset} has no backup"));
        };
        let place = |path: &PathBuf| RestoredDirectory {
            path: path.clone(),
            restored_to: options.below.as_ref().map_or_else(|| path.clone(), |top| below(top, path)),
        };
        let directories: Vec<RestoredDirectory> = backup.sources.iter().map(|of| place(&of.path)).collect();
        let places: Vec<&Path> = directories.iter().map(|of| of.restored_to.as_path()).collect();
        for dir in &places {
            destination.check_outside(dir)?;
            let others: Vec<&Path> = places.iter().copied().filter(|other| other != dir).collect();
            target::check(dir, &others, &backup.id)?;
        }
        let mut notes = match options.below {
            None => notes_on_places(&backup.sources, &places)?,
            Some(_) => Vec::new(),
        };
        let recovery = match recovery(&destination, &backup, target, options.wal.as_deref()) {
            Ok(recovery) => recovery,
            Err(why) if target == RecoveryTarget::Backup && options.wal.is_none() => {
                notes.push(no_timeline(&why));
                None
            }
            Err(why) => return Err(why),
        };
        Ok(RestoreRun { destination, backup, recovery, notes, options, directories })
    }

    /// The planned or completed run.
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
            until: self.recovery.as_ref().and_then(Recovery::until),
            settings,
            notes: self.notes.clone(),
        }
    }

    /// Copies the backup, compares it, and prepares the database for its start.
    ///
    /// # Errors
    /// The host's errors. After an error, the directories belong to this user, and the next run continues.
    pub fn execute(self, observer: &mut dyn BackupObserver) -> Result<RestoredDatabase> {
        let _reading = self.destination.lock_for_reading()?;
        let start = Instant::now();
        // All exist before the first is held: one can be in another.
        let places: Vec<&Path> = self.directories.iter().map(|of| of.restored_to.as_path()).collect();
        let open = |place: &&Path| TargetDirectory::open(place, &self.backup.id);
        let targets: Vec<TargetDirectory> = places.iter().map(open).collect::<Result<_>>()?;
        for target in &targets {
            let others: Vec<&Path> = places.iter().copied().filter(|other| **other != *target.path).collect();
            target.hold(&others, &self.backup.id)?;
        }
        let done = self.fill(&targets, observer);
        done.map_err(|cause| {
            let outcome =
                "the restored files are not complete: do not start the database; run the same command again to continue";
            let paths = targets.iter().map(|target| (target.at.as_path(), target.path.as_path()));
            readable(cause, paths).with_outcome(outcome)
        })?;
        let (files, size) = (self.backup.files, format_size(self.backup.bytes));
        observer.note(&format!("{files} files, {size}, in {:.1} s", start.elapsed().as_secs_f64()));
        Ok(self.report(false))
    }

    /// Copies all directories, compares them, and releases them: the one with the database itself last, so that no server starts before.
    fn fill(&self, targets: &[TargetDirectory], observer: &mut dyn BackupObserver) -> Result<()> {
        let root = self.destination.root_of(&self.backup.name);
        let copies = self.backup.sources.iter().map(|source| root.join(&source.copy));
        let pairs: Vec<(PathBuf, &TargetDirectory)> = copies.zip(targets).collect();
        for (from, to) in &pairs {
            self.note_space(to, observer)?;
            observer.stage(BackupStage::Restore);
            let nested = nested(to, targets);
            let from = open_trusted(from)?;
            let (rate, total) = (self.options.rate, self.backup.bytes);
            copier(observer, rate, total).except(nested.clone()).copy_contents(&from, &to.dir)?;
            to.sync()?;
            observer.stage(BackupStage::Compare);
            copier(observer, rate, total).except(nested).compare_contents(&from, &to.dir)?;
        }
        self.prepare_start(targets)?;
        pairs.iter().rev().try_for_each(|(from, to)| to.release(from))
    }

    fn note_space(&self, target: &TargetDirectory, observer: &mut dyn BackupObserver) -> Result<()> {
        let free = room::available(&target.at).map_err(cannot("inspect", &target.path))?;
        if free < self.backup.bytes {
            let (free, size) = (format_size(free), format_size(self.backup.bytes));
            let dir = quoted(&target.path);
            observer
                .note(&format!("{dir} has {free} for files of {size}: enough only if they are compressed"));
        }
        Ok(())
    }

    /// Makes the links lead to the restored directories, and prepares PostgreSQL.
    fn prepare_start(&self, targets: &[TargetDirectory]) -> Result<()> {
        let hosts: Vec<&Path> = self.directories.iter().map(|of| of.path.as_path()).collect();
        if let Some(top) = &self.options.below {
            for target in targets {
                turn_links(&target.dir, top, &hosts)?;
            }
        }
        if self.backup.database.kind != DatabaseKind::Postgresql {
            return Ok(());
        }
        let places: Vec<PathBuf> = targets.iter().map(|of| of.at.clone()).collect();
        let root = database::locate(&places, Some(DatabaseKind::Postgresql), false)?.root;
        let in_target = |target: &TargetDirectory| {
            let relative = root.strip_prefix(&target.at).ok()?;
            Some(target.dir.directory(relative).map_err(cannot("open", target.path.join(relative))))
        };
        let Some(data_dir) = targets.iter().find_map(in_target).transpose()? else { return Ok(()) };
        remove_files(&data_dir, &REMOVED)?;
        let standby = data_dir.inspect(STANDBY_SIGNAL).map_err(cannot("inspect", data_dir.path()))?;
        match &self.recovery {
            // A standby that is restored without a target stays one, and archives what its primary does.
            Some(_) if standby.is_some() && self.options.until.is_none() => Ok(()),
            Some(recovery) => prepare_recovery(recovery, &data_dir),
            None => Ok(()),
        }
    }
}

/// The recovery with the archived log. Without a target, that of a server whose log is archived begins a new timeline, because the archive
/// has other segments of the old one than those that the restored server will write.
fn recovery(
    destination: &BackupDestination,
    backup: &BackupManifest,
    target: RecoveryTarget,
    wal: Option<&str>,
) -> Result<Option<Recovery>> {
    let has_archive = |identity: DestinationIdentity| wal.or(identity.wal_archive.as_deref()).is_some();
    if target == RecoveryTarget::Backup && !destination.identity()?.is_some_and(has_archive) {
        return Ok(None);
    }
    let recovery = Recovery::of(destination, target, wal)?;
    recovery.check(destination, backup)?;
    Ok(Some(recovery))
}

fn no_timeline(why: &Error) -> String {
    let why = why.first_line();
    format!(
        "no new timeline is begun, because the WAL archive cannot be read ({why}): turn archive_mode off before the start, or the archive \
         refuses the segments"
    )
}

/// Remarks on target directories that are on no dataset: a dataset that is not mounted leaves its mount point empty, on another file
/// system.
fn notes_on_places(sources: &[SourceRecord], places: &[&Path]) -> Result<Vec<String>> {
    let mounts = mountinfo::read()?;
    let note = |(dir, source): (&&Path, &SourceRecord)| {
        let existing = dir.ancestors().find_map(|dir| dir.canonicalize().ok())?;
        let mount = mountinfo::containing(&mounts, &existing).filter(|mount| !is_dataset(mount))?;
        let (dir, now, was) = (quoted(dir), &mount.file_system, &source.dataset);
        Some(format!("{dir} is on {now}, and the database was on the dataset {was}: is it not mounted?"))
    };
    Ok(places.iter().zip(sources).filter_map(note).collect())
}

/// The directories that are in a target and are targets of their own.
fn nested(target: &TargetDirectory, all: &[TargetDirectory]) -> Vec<PathBuf> {
    let inside = all.iter().filter(|of| of.path != target.path);
    inside.filter(|of| of.path.starts_with(&target.path)).map(|of| of.path.clone()).collect()
}

/// Makes the server in a data directory recover when it is started.
fn prepare_recovery(recovery: &Recovery, data_dir: &Directory) -> Result<()> {
    remove_files(data_dir, &[STANDBY_SIGNAL, RECOVERY_SIGNAL])?;
    let conf = data_dir.path().join(AUTO_CONF);
    let mut file = data_dir.file(AUTO_CONF, Access::ReadWrite).map_err(cannot("open", &conf))?;
    let owner = file.metadata().map_err(cannot("inspect", &conf))?;
    let text: String = settings(recovery).into_iter().map(|line| line + "\n").collect();
    let mut append = || {
        file.seek(std::io::SeekFrom::End(0))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    append().map_err(cannot("write", &conf))?;
    Ok(create_empty(data_dir, RECOVERY_SIGNAL, (owner.uid(), owner.gid()), Existing::Refused)?)
}

/// The lines of a PostgreSQL's configuration.
fn settings(recovery: &Recovery) -> Vec<String> {
    let line = |(name, value): (&str, String)| format!("{name} = '{}'", value.replace('\'', "''"));
    recovery.settings().into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_on_no_dataset_is_noted() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a/b");
        let source = SourceRecord { path: place.clone(), dataset: "tank/pg".into(), copy: "files/0".into() };
        let notes = notes_on_places(&[source], &[&place]).unwrap();
        assert!(
            notes.len() == 1 && notes[0].contains("on the dataset tank/pg: is it not mounted?"),
            "{notes:?}"
        );
    }
}
