//! Removing the segments that no backup needs.

use poolwright_base::cannot;
use poolwright_base::directory::Directory;
use schemars::JsonSchema;
use serde::Serialize;

use super::{SegmentPlace, WalArchive};
use crate::manifest::BackupManifest;
use crate::{BackupDestination, Result};

/// The segments that are removed from a WAL archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WalRemoval {
    /// The dataset.
    pub dataset: String,
    /// Number of files that are removed.
    pub files: u64,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// The first segment that stays: the oldest backup needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub needed_from: Option<String>,
    /// Why nothing is removed; missing otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl WalArchive {
    /// Removes the segments before the first one that one of the remaining backups needs. Descriptions of timelines stay.
    ///
    /// # Errors
    /// If a backup or the archive cannot be read, or a file cannot be removed.
    pub(crate) fn remove_unneeded(
        &self,
        dataset: &str,
        remaining: &[(&BackupDestination, &BackupManifest)],
        is_dry_run: bool,
    ) -> Result<WalRemoval> {
        let mut removal = WalRemoval { dataset: dataset.to_owned(), ..WalRemoval::default() };
        let mut needed: Option<SegmentPlace> = None;
        for (destination, backup) in remaining {
            let place = self.needed_by(&destination.root_of(&backup.name), backup)?;
            // As for the server: the segments of all timelines at or after this place may be needed.
            needed = needed.into_iter().chain([place]).min_by_key(|place| place.position);
        }
        let Some(needed) = needed else {
            removal.reason = Some("there is no backup".to_owned());
            return Ok(removal);
        };
        removal.needed_from = Some(needed.to_string());
        let dir = Directory::open_named(&self.dir).map_err(cannot("open", &self.dir))?;
        for (name, file) in self.files()? {
            if file.place().is_some_and(|place| place.position < needed.position) {
                let path = self.dir.join(&name);
                let meta = dir.inspect(&name).map_err(cannot("inspect", &path))?;
                removal.bytes += meta.map_or(0, |meta| meta.len());
                removal.files += 1;
                if !is_dry_run {
                    dir.remove_file(&name).map_err(cannot("remove", &path))?;
                }
            }
        }
        if removal.files > 0 && !is_dry_run {
            dir.sync().map_err(cannot("sync", &self.dir))?;
        }
        Ok(removal)
    }
}
