//! The WAL archive of a PostgreSQL server: a dataset with the segments of its log, for point-in-time recovery.
//!
//! [`create`] creates the dataset, which belongs to a dataset of backups. PostgreSQL's `archive_command` runs [`WalArchive::push`] as the
//! owner of the database for each segment. The files have PostgreSQL's names and contents, so `cp` restores them. [`coverage`] finds
//! missing segments. `prune` removes those that no remaining backup needs.

mod coverage;
mod creation;
mod push;
mod removal;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use poolwright_base::{cannot, quoted, regular};
use poolwright_dbms::database;
use poolwright_dbms::postgresql::headers::ControlFile;
use poolwright_dbms::postgresql::wal_file::{SegmentPlace, WalFile};
use serde::{Deserialize, Serialize};

use crate::error::refused;
use crate::manifest::{BackupManifest, DestinationIdentity};
use crate::{BackupDestination, Error, Result};

pub use coverage::WalCoverage;
pub use creation::{WalArchiveOptions, WalArchiveReport, create};
pub(crate) use creation::{history_command, restore_command};
pub use push::PushOutcome;
pub use removal::WalRemoval;

/// The file that marks a directory as a WAL archive.
const IDENTITY: &str = "poolwright-wal.json";
/// The version of its format that this release writes, and the highest that it reads.
const VERSION: u32 = 1;

/// The purpose of a WAL archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct WalIdentity {
    /// The version of the format.
    version: u32,
    /// The identifier of the database, as `pg_controldata` prints it: the first field of its control file.
    system_identifier: String,
    /// The length of each segment in bytes.
    segment_size: u32,
    /// The `id` of the dataset of the backups.
    backups: String,
    /// The name of that dataset. Replicas of it have the same `id`.
    dataset: String,
}

/// A directory with the segments of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalArchive {
    dir: PathBuf,
    identity: WalIdentity,
}

impl WalArchive {
    /// Opens a WAL archive.
    ///
    /// # Errors
    /// A refusal if the directory is not one, for example because its dataset is not mounted; or if its description cannot be read.
    pub fn open(dir: &Path) -> Result<WalArchive> {
        match WalArchive::find(dir)? {
            Some(archive) => Ok(archive),
            None => refused(format!(
                "{} is not a WAL archive, or its dataset is not mounted\nhint: `poolwright backup wal-create` makes one",
                quoted(dir)
            )),
        }
    }

    /// Opens a WAL archive; `None` if the directory is not one.
    ///
    /// # Errors
    /// If its description cannot be read.
    pub(crate) fn find(dir: &Path) -> Result<Option<WalArchive>> {
        let path = dir.join(IDENTITY);
        // The directory belongs to the owner of the database: a pipe in the place of the file must not block.
        let identity: WalIdentity = match regular::open(&path) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(None),
            opened => {
                let file = opened.map_err(cannot("open", &path))?;
                let damaged =
                    |why: serde_json::Error| Error::Damaged { path: path.clone(), why: why.to_string() };
                serde_json::from_reader(file).map_err(damaged)?
            }
        };
        if identity.version > VERSION {
            let why =
                format!("its format has version {}, and this release reads {VERSION}", identity.version);
            return Err(Error::Damaged { path, why });
        }
        Ok(Some(WalArchive { dir: dir.to_owned(), identity }))
    }

    /// Opens the WAL archive of a dataset of backups; `None` if it has none.
    ///
    /// # Errors
    /// As [`WalArchive::open`]; a refusal if it belongs to other backups.
    pub fn of_backups(backups: &DestinationIdentity) -> Result<Option<WalArchive>> {
        backups.wal_archive.as_ref().map(|dataset| WalArchive::of_dataset(dataset, backups)).transpose()
    }

    /// Opens the WAL archive in a dataset, or a replica of it.
    ///
    /// # Errors
    /// As [`WalArchive::open`]; a refusal if it belongs to other backups.
    pub fn of_dataset(dataset: &str, backups: &DestinationIdentity) -> Result<WalArchive> {
        let archive = WalArchive::open(BackupDestination::open(dataset)?.mountpoint())?;
        match archive.identity.backups == backups.id {
            true => Ok(archive),
            false => refused(format!("{dataset} is the WAL archive of other backups")),
        }
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether the archive has a segment, whole.
    pub(crate) fn has(&self, place: SegmentPlace) -> bool {
        let meta = std::fs::symlink_metadata(self.dir.join(place.to_string()));
        meta.is_ok_and(|meta| meta.is_file() && meta.len() == u64::from(self.identity.segment_size))
    }

    /// The name of the dataset of the backups.
    pub(crate) fn dataset_of_backups(&self) -> &str {
        &self.identity.dataset
    }

    /// The files of the log in the archive, with their names.
    fn files(&self) -> Result<Vec<(String, WalFile)>> {
        let at = |cause| cannot("list", &self.dir)(cause);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(at)? {
            let entry = entry.map_err(at)?;
            if !entry.file_type().map_err(at)?.is_file() {
                continue;
            }
            let name = entry.file_name();
            if let Some((name, file)) = name.to_str().and_then(|name| Some((name, WalFile::parse(name)?))) {
                found.push((name.to_owned(), file));
            }
        }
        Ok(found)
    }

    /// The segment from which a recovery of a backup reads the log. `root` is the directory of the backup's snapshot.
    ///
    /// # Errors
    /// If the backup's control file cannot be read, or is not one of this database.
    pub(crate) fn needed_by(&self, root: &Path, backup: &BackupManifest) -> Result<SegmentPlace> {
        let copies: Vec<PathBuf> = backup.sources.iter().map(|source| root.join(&source.copy)).collect();
        let located = database::locate(&copies, Some(database::DatabaseKind::Postgresql), false)?;
        match ControlFile::read(&located.root)? {
            Some(control) if control.system_identifier.to_string() == self.identity.system_identifier => {
                Ok(SegmentPlace::of_byte(control.timeline, control.redo, self.identity.segment_size))
            }
            _ => Err(Error::Damaged {
                path: located.root,
                why: "its control file is not one of the database whose log is archived".to_owned(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// The length of the test's segments.
    pub(super) const SIZE: u32 = 1 << 20;

    /// A WAL archive of the database 7, and an empty directory `pg_wal`.
    pub(super) fn archive() -> (TempDir, WalArchive) {
        let dir = tempfile::tempdir().unwrap();
        let archive = dir.path().join("archive");
        std::fs::create_dir(&archive).unwrap();
        std::fs::create_dir(dir.path().join("pg_wal")).unwrap();
        let identity = WalIdentity {
            version: VERSION,
            system_identifier: "7".to_owned(),
            segment_size: SIZE,
            backups: "b".to_owned(),
            dataset: "tank/backup".to_owned(),
        };
        poolwright_apply::json_file::write(&archive.join(IDENTITY), &identity).unwrap();
        let archive = WalArchive::open(&archive).unwrap();
        (dir, archive)
    }

    /// Writes a segment of timeline 1, which ends with this text.
    pub(super) fn segment(log: &Path, database: u64, number: u64, end: &[u8]) -> PathBuf {
        let place = SegmentPlace { timeline: 1, position: number };
        let mut bytes = vec![0; SIZE as usize];
        bytes[2..4].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[8..16].copy_from_slice(&place.first_byte(SIZE).to_ne_bytes());
        bytes[24..32].copy_from_slice(&database.to_ne_bytes());
        bytes[32..36].copy_from_slice(&SIZE.to_ne_bytes());
        let start = bytes.len() - end.len();
        bytes[start..].copy_from_slice(end);
        let path = log.join(place.to_string());
        std::fs::write(&path, bytes).unwrap();
        path
    }

    #[test]
    fn archives_of_newer_releases_are_not_used() {
        let (_dir, archive) = archive();
        let path = archive.dir().join(IDENTITY);
        let text = std::fs::read_to_string(&path).unwrap().replace("\"version\": 1", "\"version\": 2");
        std::fs::write(&path, text).unwrap();
        let failure = WalArchive::open(archive.dir()).unwrap_err().to_string();
        assert!(failure.contains("version 2"), "{failure}");
    }
}
