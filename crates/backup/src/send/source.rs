//! The dataset that is sent: one of backups, an archive of them, or a WAL archive.

use std::fs::File;
use std::path::Path;

use poolwright_zfs::datasets::{is_user_pool, pool_of};
use poolwright_zfs::kernel::command::snapshot::HistoryPoint;
use poolwright_zfs::kernel::{DatasetChange, ZfsCommands};

use super::SendOptions;
use super::plan::SourceState;
use super::target::{SendTarget, TargetState, is_encrypted};
use super::wal_snapshots::WalSnapshots;
use crate::destination::BackupDestination;
use crate::error::refused;
use crate::wal::WalArchive;
use crate::{Error, Result};

/// A dataset to send. While this exists, no backup is removed from it, and no other run sends the WAL archive to the same target.
pub(super) struct SendSource {
    /// The dataset.
    pub mounted: BackupDestination,
    /// The WAL archive, if it is one.
    pub wal: Option<WalSnapshots>,
    _lock: Option<File>,
}

impl SendSource {
    /// Opens and locks a dataset.
    ///
    /// # Errors
    /// A refusal if it cannot be sent to this target, or is in use; or if it cannot be read.
    pub(super) fn open(dataset: &str, options: &SendOptions) -> Result<SendSource> {
        if is_user_pool(pool_of(dataset))? {
            return refused(format!(
                "{dataset} is in a pool of the user-space engine, which cannot send streams"
            ));
        }
        check_target(dataset, &options.target)?;
        let mounted = BackupDestination::open(dataset)?;
        if let Some(archive) = WalArchive::find(mounted.mountpoint())? {
            let wal = WalSnapshots::new(dataset, archive, &options.target, options.shell.as_deref());
            let lock = options.lock_dir.as_deref().map(|dir| wal.lock(dir)).transpose()?;
            return Ok(SendSource { mounted, wal: Some(wal), _lock: lock });
        }
        if mounted.identity()?.is_none() {
            return refused(format!("{dataset} is neither a dataset of backups nor a WAL archive"));
        }
        let lock = mounted.lock_for_reading()?;
        Ok(SendSource { mounted, wal: None, _lock: Some(lock) })
    }

    /// The snapshots to send. Of a WAL archive: the snapshot whose transfer was interrupted, and one that is not taken yet.
    ///
    /// # Errors
    /// A refusal if there is nothing; or if the dataset cannot be read.
    pub(super) fn state(&self, commands: &ZfsCommands, target: Option<&TargetState>) -> Result<SourceState> {
        let dataset = self.mounted.dataset().to_owned();
        let points = commands.history_of(&dataset)?;
        let due = match &self.wal {
            Some(wal) => wal.due(&points, target),
            None => self.backups(&points)?,
        };
        let values = commands.values_of(&dataset, ["encryption"])?;
        let is_encrypted = values.is_some_and(|[encryption]| is_encrypted(encryption));
        Ok(SourceState { dataset, is_encrypted, points, due })
    }

    fn backups(&self, points: &[HistoryPoint]) -> Result<Vec<HistoryPoint>> {
        let listed = self.mounted.list()?.backups;
        let is_backup = |of: &&HistoryPoint| {
            !of.is_bookmark() && listed.iter().any(|entry| entry.manifest.name == of.short_name())
        };
        let backups: Vec<HistoryPoint> = points.iter().filter(is_backup).cloned().collect();
        match backups.is_empty() {
            true => refused(format!("{} has no backup", self.mounted.dataset())),
            false => Ok(backups),
        }
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// If it cannot be taken.
    pub(super) fn take(&self, name: &str, commands: &ZfsCommands) -> Result<HistoryPoint> {
        self.mounted.admin().change(&DatasetChange::Snapshot { name: name.to_owned() })?;
        let points = commands.history_of(self.mounted.dataset())?;
        let lost = || Error::Refused(format!("{name} was destroyed after it was taken"));
        points.into_iter().find(|of| of.name == name).ok_or_else(lost)
    }
}

/// Refuses a target in a pool of the user-space engine, which cannot receive streams, and one in the dataset.
fn check_target(dataset: &str, target: &SendTarget) -> Result<()> {
    if target.host.is_some() {
        return Ok(());
    }
    let name = &target.dataset;
    if is_user_pool(pool_of(name))? {
        return refused(format!(
            "{name} is in a pool of the user-space engine, which cannot receive streams"
        ));
    }
    match Path::new(name).starts_with(dataset) {
        true => refused(format!("{name} is in {dataset}")),
        false => Ok(()),
    }
}
