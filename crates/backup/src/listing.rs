//! The listing of a dataset of backups: the backups, and the archived log.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::refused;
use crate::manifest::DestinationIdentity;
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

/// Lists the backups in a dataset, and what is in its WAL archive, or in the one in the dataset `wal`. If that cannot be read, the result has
/// the reason.
///
/// # Errors
/// A refusal if the dataset is not mounted; or if it cannot be read.
pub fn list(dataset: &str, wal: Option<&str>) -> Result<BackupListing> {
    let destination = BackupDestination::open(dataset)?;
    let backups = destination.list()?;
    let identity = destination.identity()?;
    let dataset_of = |identity: &DestinationIdentity| wal.map(str::to_owned).or(identity.wal_archive.clone());
    let archived = identity.as_ref().and_then(|of| Some((of, dataset_of(of)?)));
    let Some((identity, dataset)) = archived else {
        return match wal {
            Some(_) => refused(format!("{} is not a dataset of backups", destination.dataset())),
            None => Ok(BackupListing { backups, wal: None }),
        };
    };
    let unreadable = |why: Error| WalCoverage {
        dataset: dataset.clone(),
        problem: Some(why.first_line()),
        ..WalCoverage::default()
    };
    let coverage = WalArchive::of_dataset(&dataset, identity).and_then(|archive| {
        let recovery = |entry: &BackupEntry| {
            let backup = &entry.manifest;
            Some((backup.name.clone(), archive.needed_by(&destination.root_of(&backup.name), backup).ok()?))
        };
        archive.coverage(&dataset, &backups.backups.iter().filter_map(recovery).collect::<Vec<_>>())
    });
    Ok(BackupListing { backups, wal: Some(coverage.unwrap_or_else(unreadable)) })
}
