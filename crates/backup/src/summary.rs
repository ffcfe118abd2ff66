//! The summary of a dataset of backups: a small file outside the dataset, from which a monitor reads the ages of the backups.
//!
//! Only its owner can read the dataset itself, and only while its pool is imported. All users can read the summary, which remains if the
//! dataset is lost. It has the dataset's name, times and sizes, and no names of files.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use poolwright_apply::json_file;
use poolwright_base::{Part, cannot, private};
use poolwright_dbms::database::DatabaseKind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::destination::{BackupDestination, BackupEntry};
use crate::error::refused;
use crate::manifest::{RestoreResult, StorageTier};
use crate::{Error, Result};

/// The version of the format that this release writes, and the highest that it reads.
const VERSION: u32 = 1;
/// The mode of a directory of summaries, and of a summary: everyone may read them.
const MODES: (u32, u32) = (0o755, 0o644);
/// Ends the name of each summary.
const EXTENSION: &str = "json";

/// The state of a dataset of backups. Times are those of the database's snapshots, or of restores, in seconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupSummary {
    /// The version of the format.
    pub version: u32,
    /// The dataset.
    pub dataset: String,
    /// What it is for.
    pub tier: StorageTier,
    /// The database.
    pub database: DatabaseKind,
    /// The number of backups.
    pub count: u64,
    /// Time of the oldest backup.
    pub oldest_unix_s: Option<u64>,
    /// Time of the newest backup.
    pub newest_unix_s: Option<u64>,
    /// Sum of the lengths of the newest backup's files, in bytes.
    pub newest_bytes: Option<u64>,
    /// Time of the newest backup that was restored and passed.
    pub newest_good_unix_s: Option<u64>,
    /// The last restore of any backup that tested it.
    pub last_restore: Option<RestoreSummary>,
    /// Whether a later restore could not test its backup.
    #[serde(default)]
    pub is_untested: bool,
    /// Time of the last restore that passed.
    pub last_good_restore_unix_s: Option<u64>,
    /// The latest of all times of backups and restores: in the future if the clock was ahead at one of them.
    pub latest_unix_s: Option<u64>,
}

/// A restore in a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreSummary {
    /// Its time.
    pub unix_s: u64,
    /// Whether every check passed.
    pub passed: bool,
}

impl BackupSummary {
    /// The present state of a dataset.
    ///
    /// # Errors
    /// A refusal if it is not one of backups; or if it cannot be read.
    pub fn of(destination: &BackupDestination) -> Result<BackupSummary> {
        let Some(identity) = destination.identity()? else {
            return refused(format!("{} is not a dataset of backups", destination.dataset()));
        };
        let backups = destination.list()?.backups;
        let results = destination.restore_results()?;
        let time = |entry: &BackupEntry| entry.manifest.created_unix_s;
        let is_good = |of: &&BackupEntry| of.last_restore.as_ref().is_some_and(|restore| restore.passed);
        let latest = backups.iter().map(time).chain(results.iter().map(|of| of.unix_s)).max();
        let summary = |of: &RestoreResult| RestoreSummary { unix_s: of.unix_s, passed: of.passed };
        Ok(BackupSummary {
            version: VERSION,
            dataset: destination.dataset().to_owned(),
            tier: identity.tier(),
            database: identity.database,
            count: backups.len() as u64,
            oldest_unix_s: backups.first().map(time),
            newest_unix_s: backups.last().map(time),
            newest_bytes: backups.last().map(|entry| entry.manifest.bytes),
            newest_good_unix_s: backups.iter().rfind(is_good).map(time),
            last_restore: results.iter().rfind(|of| of.untested.is_none()).map(summary),
            is_untested: results.last().is_some_and(|of| of.untested.is_some()),
            last_good_restore_unix_s: results.iter().rfind(|of| of.passed).map(|of| of.unix_s),
            latest_unix_s: latest,
        })
    }

    /// Writes the summary into a directory, in place of the earlier one of this dataset. A directory that does not exist is created.
    ///
    /// # Errors
    /// The host's errors.
    pub fn keep(&self, dir: &Path) -> Result<()> {
        // A name of a dataset has no `%`.
        write_into(dir, &format!("{}.{EXTENSION}", self.dataset.replace('/', "%")), self)
    }

    /// Reads the summaries in a directory, sorted by the names of their files. A directory that does not exist has none.
    ///
    /// # Errors
    /// If the directory or one of the files cannot be read or understood.
    pub fn all_in(dir: &Path) -> Result<Vec<BackupSummary>> {
        read_all(dir, EXTENSION, VERSION)
    }
}

/// Writes a file that every user can read into a directory, which is created if it does not exist.
pub(crate) fn write_into(dir: &Path, name: &str, value: &impl Serialize) -> Result<()> {
    private::make_dirs(dir).map_err(cannot("create", dir))?;
    let at = |what| cannot(what, dir);
    fs::set_permissions(dir, Permissions::from_mode(MODES.0)).map_err(at("set the mode of"))?;
    let path = dir.join(name);
    let damaged = |why: serde_json::Error| Error::Damaged { path: path.clone(), why: why.to_string() };
    let mut text = serde_json::to_vec_pretty(value).map_err(damaged)?;
    text.push(b'\n');
    let written = Part::create(&path, MODES.1).and_then(|(part, mut file)| {
        file.set_permissions(Permissions::from_mode(MODES.1))?;
        file.write_all(&text)?;
        file.sync_all()?;
        part.rename(&path)
    });
    Ok(written.map_err(cannot("write", &path))?)
}

/// Reads the files with an extension in a directory, sorted by their names.
pub(crate) fn read_all<T: DeserializeOwned>(dir: &Path, extension: &str, version: u32) -> Result<Vec<T>> {
    let listing = match fs::read_dir(dir) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(cannot("list", dir))?,
    };
    let mut paths = Vec::new();
    for entry in listing {
        let path = entry.map_err(cannot("list", dir))?.path();
        if path.extension().is_some_and(|of| of == extension) {
            paths.push(path);
        }
    }
    paths.sort();
    // One may have been removed meanwhile.
    let read = |path: &PathBuf| json_file::read_versioned(path, version).transpose();
    Ok(paths.iter().filter_map(read).collect::<poolwright_apply::Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(dataset: &str) -> BackupSummary {
        BackupSummary {
            version: VERSION,
            dataset: dataset.to_owned(),
            tier: StorageTier::Backup,
            database: DatabaseKind::Postgresql,
            count: 2,
            oldest_unix_s: Some(1000),
            newest_unix_s: Some(2000),
            newest_bytes: Some(4096),
            newest_good_unix_s: None,
            last_restore: Some(RestoreSummary { unix_s: 2100, passed: false }),
            is_untested: true,
            last_good_restore_unix_s: None,
            latest_unix_s: Some(2100),
        }
    }

    #[test]
    fn summaries_are_readable_by_all_and_read_again() {
        let top = tempfile::tempdir().unwrap();
        let dir = top.path().join("state/backups");
        assert_eq!(BackupSummary::all_in(&dir).unwrap(), []);
        let (a, b) = (summary("tank/a"), summary("tank/b/c"));
        b.keep(&dir).unwrap();
        a.keep(&dir).unwrap();
        assert_eq!(BackupSummary::all_in(&dir).unwrap(), [a.clone(), b.clone()]);
        let newer = BackupSummary { count: 3, ..b };
        newer.keep(&dir).unwrap();
        assert_eq!(BackupSummary::all_in(&dir).unwrap(), [a, newer]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join("tank%a.json"))), MODES);
        assert_eq!(
            mode(&top.path().join("state")),
            private::DIR,
            "what is above the directory stays private"
        );
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2, "no temporary file is left");
    }

    #[test]
    fn summaries_that_cannot_be_understood_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tank%a.json");
        for (text, words) in [("{", "EOF"), ("{\"version\":2}", "version 2"), ("{\"version\":1}", "dataset")]
        {
            fs::write(&path, text).unwrap();
            let why = BackupSummary::all_in(dir.path()).unwrap_err().to_string();
            assert!(why.contains("tank%a.json is damaged") && why.contains(words), "{why}");
        }
    }
}
