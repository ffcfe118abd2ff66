//! What a user sees of a dataset of backups: the backups, and the archived log.

use schemars::JsonSchema;
use serde::Serialize;

use crate::wal::{WalArchive, WalCoverage};
use crate::{BackupDestination, BackupEntry, BackupList, Error, Result};

/// The backups in a dataset, and the segments in its WAL archive.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackupListing {
    /// The backups.
    #[serde(flatten)]
    pub backups: BackupList,
    /// The archived log of the database; missing if there is no WAL archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wal: Option<WalCoverage>,
}

/// Lists the backups in a dataset. If the WAL archive cannot be read, the result has the reason.
///
/// # Errors
/// A refusal if the dataset is not mounted; or if it cannot be read.
pub fn list(dataset: &str) -> Result<BackupListing> {
    let destination = BackupDestination::open(dataset)?;
    let backups = destination.list()?;
    let identity = destination.identity()?;
    let Some((identity, dataset)) = identity.as_ref().and_then(|of| Some((of, of.wal_archive.as_ref()?)))
    else {
        return Ok(BackupListing { backups, wal: None });
    };
    let unreadable = |why: Error| WalCoverage {
        dataset: dataset.clone(),
        problem: Some(why.first_line()),
        ..WalCoverage::default()
    };
    let coverage = WalArchive::of_backups(identity).transpose().map(|archive| {
        let archive = archive?;
        let recovery = |entry: &BackupEntry| {
            let backup = &entry.manifest;
            Some((backup.name.clone(), archive.needed_by(&destination.root_of(&backup.name), backup).ok()?))
        };
        archive.coverage(dataset, &backups.backups.iter().filter_map(recovery).collect::<Vec<_>>())
    });
    let wal = coverage.map(|found| found.unwrap_or_else(unreadable));
    Ok(BackupListing { backups, wal })
}
