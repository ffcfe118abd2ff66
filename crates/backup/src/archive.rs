//! Copies backups into an archive: a dataset with large records and a strong codec.
//!
//! A file gets the record size and codec of the dataset into which it is written, so a backup is copied by reading and writing, like a new
//! backup. After a comparison, each backup becomes a snapshot of the archive with the same name and manifest. An interrupted run leaves a
//! partial copy that the next run completes. Backups are copied from the oldest to the newest, and only those that are newer than the
//! newest in the archive, so a backup that was removed from the archive does not come back.

use std::path::PathBuf;

use poolwright_base::cannot;
use poolwright_plan::Settings;
use poolwright_zfs::datasets::pool_of;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chronology::is_newer;
use crate::creation;
use crate::destination::{BackupDestination, BackupEntry};
use crate::error::refused;
use crate::manifest::{BackupManifest, DestinationIdentity, RestoreResult};
use crate::observer::BackupObserver;
use crate::transfer::{bring_up_to_date, complete};
use crate::{Error, Result};

/// The properties of an archive besides `recordsize`. An archive is written once, slowly, and rarely read: `zstd-19` is the strongest
/// codec of OpenZFS, and is decompressed about as fast as lower levels.
const DEFAULTS: [(&str, &str); 2] = [("compression", "zstd-19"), ("logbias", "throughput")];
/// The record sizes that are tried, largest first: OpenZFS before 2.2 refuses records of more than 1M, and pools without the feature
/// `large_blocks` those of more than 128K.
const RECORDSIZES: [&str; 3] = ["16M", "1M", "128K"];
/// The property with the record size.
const RECORDSIZE: &str = "recordsize";

/// The options of archiving.
#[derive(Clone, Debug, Default)]
pub struct ArchiveOptions {
    /// The dataset of the archive.
    pub archive: String,
    /// Properties of the new dataset, instead of the defaults.
    pub settings: Settings,
    /// Where it is mounted if it is created.
    pub mountpoint: Option<PathBuf>,
    /// Copy this backup only, whatever the archive has.
    pub name: Option<String>,
    /// Copy only backups that have passed a restore.
    pub only_verified: bool,
    /// The limit of the copying, in bytes a second.
    pub rate: Option<u64>,
}

/// The backups that are copied into the archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchiveReport {
    /// The dataset of the backups.
    pub dataset: String,
    /// The dataset of the archive.
    pub archive: String,
    /// The properties with which the archive is created; missing if it exists, or nothing is to be copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_with: Option<Settings>,
    /// Whether nothing was copied because the user only wanted to see the decisions.
    pub dry_run: bool,
    /// The decision on each backup, oldest first.
    pub decisions: Vec<ArchiveDecision>,
}

/// The decision on a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ArchiveDecision {
    /// The backup's name.
    pub name: String,
    /// Whether it is copied.
    pub copied: bool,
    /// Why it is not; missing if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Sum of the lengths of its files in bytes.
    pub bytes: u64,
}

/// A prepared run.
pub struct ArchiveRun {
    options: ArchiveOptions,
    backups: BackupDestination,
    identity: DestinationIdentity,
    exists: bool,
    due: Vec<BackupManifest>,
    decisions: Vec<ArchiveDecision>,
}

impl ArchiveRun {
    /// Checks both datasets and decides what is copied. Changes nothing.
    ///
    /// # Errors
    /// A refusal; or if a dataset cannot be read.
    pub fn prepare(dataset: &str, mut options: ArchiveOptions) -> Result<ArchiveRun> {
        if let Some(dir) = &mut options.mountpoint {
            *dir = std::path::absolute(&*dir).map_err(cannot("find", &*dir))?;
        }
        let backups = BackupDestination::open(dataset)?;
        let Some(identity) = backups.identity()? else {
            return refused(format!("{dataset} is not a dataset of backups"));
        };
        if options.archive == dataset || options.archive.starts_with(&format!("{dataset}/")) {
            return refused(format!("{} is in the dataset of the backups", options.archive));
        }
        let exists = BackupDestination::exists(&options.archive)?;
        let mut archived = Vec::new();
        if exists {
            let archive = BackupDestination::open(&options.archive)?;
            check_archive(&archive, &backups, &identity)?;
            archived = archive.list()?.backups;
        } else {
            options.mountpoint.as_deref().map_or(Ok(()), |dir| backups.check_outside(dir))?;
            creation::check(&options.archive, options.mountpoint.as_deref())?;
        }
        let entries = backups.list()?.backups;
        if let Some(name) = options.name.as_ref().filter(|name| !entries.iter().any(|of| is_named(of, name)))
        {
            return refused(format!("{dataset} has no backup {name}"));
        }
        let decisions: Vec<ArchiveDecision> =
            entries.iter().map(|entry| decide(entry, &entries, &archived, &options)).collect();
        let chosen = entries.into_iter().zip(&decisions).filter(|(_, decision)| decision.copied);
        let due = chosen.map(|(entry, _)| entry.manifest).collect();
        Ok(ArchiveRun { options, backups, identity, exists, due, decisions })
    }

    /// The planned or completed run.
    pub fn report(&self, is_dry_run: bool) -> ArchiveReport {
        let is_created = !self.exists && !self.due.is_empty();
        ArchiveReport {
            dataset: self.backups.dataset().to_owned(),
            archive: self.options.archive.clone(),
            created_with: is_created.then(|| settings(&self.options.settings, RECORDSIZES[0])),
            dry_run: is_dry_run,
            decisions: self.decisions.clone(),
        }
    }

    /// Copies the backups. The report has the properties with which the archive was created.
    ///
    /// # Errors
    /// [`Error`]. The backups that were copied before are complete, and the next run continues with the others.
    pub fn execute(self, observer: &mut dyn BackupObserver) -> Result<ArchiveReport> {
        let mut report = self.report(false);
        if self.due.is_empty() {
            return Ok(report);
        }
        let _reading = self.backups.lock_for_reading()?;
        if !self.exists {
            report.created_with = Some(self.create(observer)?);
        }
        let archive = self.open_archive()?;
        if pool_of(archive.dataset()) == pool_of(self.backups.dataset()) {
            observer.note("the archive is in the pool of the backups, and would be lost with it");
        }
        for (index, backup) in self.due.iter().enumerate() {
            observer.note(&format!("archiving {} ({} of {})", backup.name, index + 1, self.due.len()));
            self.copy(&archive, backup, observer).map_err(|cause| {
                let outcome =
                    "the archive has the backups that were copied before, and the next run continues";
                if cause.is_refusal() { cause } else { cause.with_outcome(outcome) }
            })?;
        }
        Ok(report)
    }

    fn copy(
        &self,
        archive: &BackupDestination,
        backup: &BackupManifest,
        observer: &mut dyn BackupObserver,
    ) -> Result<()> {
        let root = self.backups.root_of(&backup.name);
        let copies = backup.sources.iter().map(|source| &source.copy);
        let pairs: Vec<(PathBuf, PathBuf)> =
            copies.map(|copy| (root.join(copy), archive.mountpoint().join(copy))).collect();
        let found = bring_up_to_date(archive, &pairs, self.options.rate, backup.bytes, observer)?;
        if (found.files, found.bytes) != (backup.files, backup.bytes) {
            let why = format!(
                "it has {} files with {} bytes, but {} with {} when it was made",
                found.files, found.bytes, backup.files, backup.bytes
            );
            return Err(Error::Damaged { path: root, why });
        }
        complete(archive, backup, observer)
    }

    /// Creates the archive with the largest records that its pool supports; its properties.
    fn create(&self, observer: &mut dyn BackupObserver) -> Result<Settings> {
        let sizes = match self.options.settings.contains_key(RECORDSIZE) {
            true => &RECORDSIZES[..1],
            false => &RECORDSIZES[..],
        };
        let mut first_error = None;
        for size in sizes {
            let settings = settings(&self.options.settings, size);
            let dir = self.options.mountpoint.as_deref();
            match creation::create(&self.options.archive, &settings, dir, observer) {
                Ok(()) => return Ok(settings),
                Err(why) => first_error = first_error.or(Some(why)),
            }
        }
        first_error.map_or_else(|| refused("no record size is known"), Err)
    }

    fn open_archive(&self) -> Result<BackupDestination> {
        let mut archive = BackupDestination::open(&self.options.archive)?;
        archive.lock()?;
        if let Some(problem) = archive.admin().pool_problem(archive.dataset())? {
            return refused(problem);
        }
        if check_archive(&archive, &self.backups, &self.identity)?.is_none() {
            archive.claim_archive(&self.identity)?;
        }
        Ok(archive)
    }
}

/// The backups in an archive of this dataset.
///
/// # Errors
/// A refusal if it is not one; or if it cannot be read.
pub(crate) fn archived(archive: &str, of: &DestinationIdentity) -> Result<Vec<BackupEntry>> {
    let archive = BackupDestination::open(archive)?;
    match archive.identity()? {
        Some(identity) if identity.archive_of.as_ref() == Some(&of.id) => Ok(archive.list()?.backups),
        _ => refused(format!("{} is not an archive of these backups", archive.dataset())),
    }
}

/// Whether the archive waits for this backup: it is newer than the newest in the archive, and did not fail a restore. `all` are the
/// backups in its dataset.
pub(crate) fn is_awaited(entry: &BackupEntry, all: &[BackupEntry], archived: &[BackupEntry]) -> bool {
    let is_newer = archived.iter().all(|of| is_newer(entry, of, all));
    let has_failed = entry.last_restore.as_ref().is_some_and(RestoreResult::has_failed);
    is_newer && !has_failed
}

fn is_named(entry: &BackupEntry, name: &str) -> bool {
    entry.manifest.name == name
}

fn decide(
    entry: &BackupEntry,
    all: &[BackupEntry],
    archived: &[BackupEntry],
    options: &ArchiveOptions,
) -> ArchiveDecision {
    let restore = entry.last_restore.as_ref();
    let is_chosen = options.name.as_ref().is_some_and(|name| is_named(entry, name));
    let reason = if archived.iter().any(|of| of.manifest.id == entry.manifest.id) {
        Some("it is in the archive")
    } else if options.name.is_some() {
        (!is_chosen).then_some("it is not the chosen one")
    } else if restore.is_some_and(RestoreResult::has_failed) {
        Some("it failed its last restore")
    } else if !is_awaited(entry, all, archived) {
        Some("it is older than the newest one in the archive")
    } else {
        (options.only_verified && restore.is_none_or(|restore| !restore.passed))
            .then_some("it has not passed a restore")
    };
    ArchiveDecision {
        name: entry.manifest.name.clone(),
        copied: reason.is_none(),
        reason: reason.map(str::to_owned),
        bytes: entry.manifest.bytes,
    }
}

/// The properties with which an archive is created.
fn settings(wanted: &Settings, recordsize: &str) -> Settings {
    let mut settings: Settings = DEFAULTS.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    settings.insert(RECORDSIZE.to_owned(), recordsize.to_owned());
    settings.extend(wanted.clone());
    settings
}

/// Refuses a dataset that is not an archive of these backups. `None` if it is empty.
fn check_archive(
    archive: &BackupDestination,
    backups: &BackupDestination,
    of: &DestinationIdentity,
) -> Result<Option<DestinationIdentity>> {
    backups.check_outside(archive.mountpoint())?;
    match archive.check_use()? {
        Some(identity) if identity.archive_of.as_ref() != Some(&of.id) => {
            refused(format!("{} is not an archive of {}", archive.dataset(), backups.dataset()))
        }
        identity => Ok(identity),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use poolwright_dbms::database::DatabaseKind;
    use poolwright_dbms::quiesce::ConsistencyMeans;

    use super::*;
    use crate::manifest::{DatabaseRecord, FORMAT, VERSION};

    /// A backup whose name is its time; `restore` is `g` for one that passed, `b` for one that failed.
    pub(crate) fn entry(time: u64, restore: char) -> BackupEntry {
        let name = time.to_string();
        let database = DatabaseRecord {
            kind: DatabaseKind::None,
            version: None,
            consistency: ConsistencyMeans::Snapshot,
            quiesced_s: None,
            facts: Default::default(),
            backup_label: None,
        };
        let manifest = BackupManifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            creator: String::new(),
            name: name.clone(),
            id: name.clone(),
            created: String::new(),
            created_unix_s: time,
            sequence: None,
            database,
            sources: Vec::new(),
            files: 1,
            bytes: 1,
            skipped: Vec::new(),
        };
        let result = RestoreResult {
            name: name.clone(),
            id: name,
            time: String::new(),
            unix_s: time,
            until: None,
            last_transaction: None,
            passed: restore == 'g',
            untested: (restore == 'u').then(|| "the scratch directory is full".to_owned()),
            restore_s: 0.0,
            check_s: 0.0,
            checks: Vec::new(),
        };
        BackupEntry { manifest, age_s: 0, last_restore: (restore != '?').then_some(result) }
    }

    #[test]
    fn newer_backups_are_copied_and_removed_ones_do_not_come_back() {
        let states = ['g', '?', 'b', '?', 'g'];
        let all: Vec<BackupEntry> = (1..).zip(states).map(|(time, state)| entry(time, state)).collect();
        let copied = |archived: &[BackupEntry], options: &ArchiveOptions| -> Vec<String> {
            let decisions = all.iter().map(|entry| decide(entry, &all, archived, options));
            decisions.filter(|of| of.copied).map(|of| of.name).collect()
        };
        let default = ArchiveOptions::default();
        let verified = ArchiveOptions { only_verified: true, ..ArchiveOptions::default() };
        let named = ArchiveOptions { name: Some("3".to_owned()), ..ArchiveOptions::default() };
        assert_eq!(copied(&[], &default), ["1", "2", "4", "5"]);
        assert_eq!(copied(&[], &verified), ["1", "5"]);
        assert_eq!(copied(&[], &named), ["3"], "the user's choice counts");
        let untested = [entry(1, 'u')];
        let is_copied = |options| decide(&untested[0], &untested, &[], options).copied;
        assert!(is_copied(&default) && !is_copied(&verified), "it counts as never restored");
        // The first ones were removed from the archive.
        let archived = [all[3].clone()];
        assert_eq!(copied(&archived, &default), ["5"]);
        assert_eq!(copied(&archived, &named), ["3"]);
        assert_eq!(copied(&all, &default), [""; 0]);
        assert_eq!(copied(&all, &named), [""; 0]);
        let awaited = |entry: &&BackupEntry| is_awaited(entry, &all, &archived);
        assert_eq!(all.iter().filter(awaited).count(), 1);
        // Made in the same second, and removed from the archive.
        let mut earlier = archived[0].clone();
        earlier.manifest.name = "3-2".to_owned();
        earlier.manifest.id = earlier.manifest.name.clone();
        assert!(!is_awaited(&earlier, &all, &archived));
    }

    #[test]
    fn properties_of_the_user_replace_the_defaults() {
        let wanted = Settings::from([("compression".to_owned(), "zstd-9".to_owned())]);
        let made = settings(&wanted, "1M");
        assert_eq!((&*made["compression"], &*made["recordsize"]), ("zstd-9", "1M"));
        assert_eq!(made["logbias"], "throughput");
    }
}
