//! The files in a dataset of backups: the purpose of the dataset, the contents of each backup, and the results of restore tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_apply::json_file;
use poolwright_base::time;
use poolwright_dbms::database::DatabaseKind;
use poolwright_dbms::quiesce::ConsistencyMeans;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;

/// The file that marks a dataset as one of backups.
pub const IDENTITY: &str = "poolwright-backup.json";
/// The file that describes a backup, in each snapshot.
pub const MANIFEST: &str = "manifest.json";
/// The file with the results of restores.
pub const VERIFIED: &str = "verified.json";
/// The directory with the copies of the database's directories.
pub const FILES: &str = "files";
/// The value of `format` in a manifest.
pub const FORMAT: &str = "poolwright-backup";
/// The version of the format that this release writes, and the highest that it reads.
pub const VERSION: u32 = 1;

/// How backups come into a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StorageTier {
    /// New backups are made in it.
    Backup,
    /// Backups of another dataset are copied into it.
    Archive,
}

impl StorageTier {
    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            StorageTier::Backup => "backup",
            StorageTier::Archive => "archive",
        }
    }
}

/// The purpose of a dataset of backups.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationIdentity {
    /// The version of the format.
    pub version: u32,
    /// A random name, which is part of the names of snapshots on the database's datasets.
    pub id: String,
    /// The database.
    pub database: DatabaseKind,
    /// The directories of the database.
    pub paths: Vec<PathBuf>,
    /// For an archive, the `id` of the dataset from which backups are copied into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_of: Option<String>,
    /// The dataset with the archived log of the database ([`crate::wal`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_archive: Option<String>,
}

impl DestinationIdentity {
    /// Whether backups are made in the dataset, or copied into it.
    pub fn tier(&self) -> StorageTier {
        match self.archive_of {
            None => StorageTier::Backup,
            Some(_) => StorageTier::Archive,
        }
    }
}

/// A backup, as `manifest.json` in its snapshot describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BackupManifest {
    /// Always `poolwright-backup`.
    #[schemars(extend("const" = FORMAT))]
    pub format: String,
    /// Version of the format, at present 1.
    pub version: u32,
    /// The program that made the backup, and its version.
    pub creator: String,
    /// The name of the backup, which is that of its snapshot.
    pub name: String,
    /// Identifies the backup, even if another one gets its name.
    pub id: String,
    /// Time of the snapshot of the database, RFC 3339 in UTC.
    pub created: String,
    /// The same in seconds since 1970.
    pub created_unix_s: u64,
    /// The number of the backup in its dataset, larger than those of all earlier ones; missing in backups of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The database.
    pub database: DatabaseRecord,
    /// The directories of the database and their copies.
    pub sources: Vec<SourceRecord>,
    /// Number of regular files.
    pub files: u64,
    /// Sum of the files' lengths in bytes.
    pub bytes: u64,
    /// Sockets, fifos and device nodes, which are not copied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<PathBuf>,
}

/// The database of a backup.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatabaseRecord {
    /// Its kind.
    pub kind: DatabaseKind,
    /// Its version, if it was queried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The method by which the snapshot is consistent.
    pub consistency: ConsistencyMeans,
    /// Seconds from the request to quiesce the database until it was released; missing if it was not quiesced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiesced_s: Option<f64>,
    /// Facts that a restore needs: the name of PostgreSQL's superuser, the layout of InnoDB's system tablespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// The text of PostgreSQL's `backup_label`, for reference. A restore must not use it: the snapshot does not contain the end of
    /// the online backup, and PostgreSQL recovers the snapshot as after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_label: Option<String>,
}

/// A directory of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceRecord {
    /// Its path on the host.
    pub path: PathBuf,
    /// Its dataset.
    pub dataset: String,
    /// Its copy, relative to the root of the backup.
    pub copy: PathBuf,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RestoreResult {
    /// The name of the backup.
    pub name: String,
    /// The backup's `id`.
    pub id: String,
    /// Time of the restore, RFC 3339 in UTC.
    pub time: String,
    /// The same in seconds since 1970.
    pub unix_s: u64,
    /// Up to which time the log was replayed from the WAL archive, RFC 3339 in UTC, or `latest`; missing if the backup alone was restored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// The time of the last transaction that was replayed, RFC 3339 in UTC; missing without `until`, or if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transaction: Option<String>,
    /// Whether every check passed.
    pub passed: bool,
    /// Why the backup could not be tested: the host lacked memory, space or a program. This is no evidence against the backup. Missing if
    /// it was tested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untested: Option<String>,
    /// Seconds of copying the backup into the scratch directory.
    pub restore_s: f64,
    /// Seconds of the checks.
    pub check_s: f64,
    /// The checks.
    pub checks: Vec<RestoreCheck>,
}

impl RestoreResult {
    /// Whether the backup was tested, and a check found something wrong.
    pub fn has_failed(&self) -> bool {
        !self.passed && self.untested.is_none()
    }

    /// The result for a backup that could not be tested.
    pub(crate) fn untested(backup: &BackupManifest, why: String) -> RestoreResult {
        let unix_s = time::unix_seconds() as u64;
        RestoreResult {
            name: backup.name.clone(),
            id: backup.id.clone(),
            time: time::rfc3339(unix_s),
            unix_s,
            until: None,
            last_transaction: None,
            passed: false,
            untested: Some(why),
            restore_s: 0.0,
            check_s: 0.0,
            checks: Vec::new(),
        }
    }
}

/// A check of a restored database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoreCheck {
    /// The check, or the command.
    pub name: String,
    /// Its result.
    pub result: CheckVerdict,
    /// Details of a failure, or the reason why the check was not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckVerdict {
    /// It found nothing wrong.
    Passed,
    /// It found something wrong.
    Failed,
    /// It could not be run.
    NotRun,
}

/// Reads the manifest of a backup from the root of its snapshot; `None` if the snapshot is not a backup.
///
/// # Errors
/// If it cannot be read, understood, or was written by a newer release.
pub fn read_manifest(root: &Path) -> Result<Option<BackupManifest>> {
    Ok(json_file::read_versioned(&root.join(MANIFEST), VERSION)?)
}

/// Seconds since a time; negative if it lies in the future. Both are in seconds since 1970.
pub(crate) fn age(now: u64, time: u64) -> i64 {
    i64::try_from(now).unwrap_or(i64::MAX).saturating_sub_unsigned(time)
}

/// Orders backups of which not all are in the same dataset. Those of earlier releases have no number, and are the oldest.
pub(crate) fn order_of(manifest: &BackupManifest) -> (u64, u64, &str) {
    (manifest.sequence.unwrap_or(0), manifest.created_unix_s, &manifest.name)
}
