//! Which backup is restored, and up to which time the archived log is replayed on it.

use poolwright_host::time;

use crate::Result;
use crate::destination::{BackupDestination, BackupEntry};
use crate::error::refused;
use crate::manifest::BackupManifest;
use crate::wal::{WalArchive, restore_command};

/// The backups to restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreChoice {
    /// The newest.
    Newest,
    /// This one.
    Named(String),
    /// All of them.
    All,
}

/// Up to which time a log is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// The end of the archived log.
    Latest,
    /// This time, in seconds since 1970.
    Time(u64),
}

impl RecoveryTarget {
    /// Its text: `latest`, or the time in RFC 3339.
    pub(crate) fn text(self) -> String {
        match self {
            RecoveryTarget::Latest => "latest".to_owned(),
            RecoveryTarget::Time(time) => time::rfc3339(time),
        }
    }
}

/// The archived log that is replayed after a restore.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    archive: WalArchive,
    target: RecoveryTarget,
}

impl Recovery {
    /// The recovery with the WAL archive of a dataset of backups; `None` without a target.
    ///
    /// # Errors
    /// A refusal if it has no WAL archive; or if that cannot be read.
    pub fn of(destination: &BackupDestination, target: Option<RecoveryTarget>) -> Result<Option<Recovery>> {
        let Some(target) = target else { return Ok(None) };
        let archive =
            destination.identity()?.map(|identity| WalArchive::of_backups(&identity)).transpose()?;
        match archive.flatten() {
            Some(archive) => Ok(Some(Recovery { archive, target })),
            None => refused(format!(
                "{} has no WAL archive\nhint: `poolwright backup wal-create` makes one; the log is archived from then on",
                destination.dataset()
            )),
        }
    }

    /// The text of its target.
    pub fn until(&self) -> String {
        self.target.text()
    }

    /// Refuses a backup whose log was not archived: the server would end with what the backup itself has of it.
    ///
    /// # Errors
    /// A refusal; or if the backup cannot be read.
    pub fn check(&self, destination: &BackupDestination, backup: &BackupManifest) -> Result<()> {
        let first = self.archive.needed_by(&destination.root_of(&backup.name), backup)?;
        if self.archive.has(first) {
            return Ok(());
        }
        refused(format!(
            "the WAL archive does not have {first}, in which the recovery of {} begins\nhint: a backup that was made before the log was \
             archived cannot be used, and one that was made just now can when the segment is archived",
            backup.name
        ))
    }

    /// The settings of a server that replays the log, and then becomes a server of its own.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("restore_command", restore_command(self.archive.dir())),
            ("recovery_target_action", "promote".to_owned()),
            ("recovery_target_timeline", "latest".to_owned()),
        ];
        if let RecoveryTarget::Time(_) = self.target {
            // The server does not know abbreviations of time zones yet, such as `Z`, when it reads this.
            settings.push(("recovery_target_time", self.until().replace('Z', "+00")));
        }
        settings
    }
}

/// The chosen backups of a dataset, the oldest first. A backup contains only what was committed before it, so none that is newer than the
/// target is chosen.
///
/// # Errors
/// A refusal if there is none; or if the backups cannot be listed.
pub(crate) fn choose(
    destination: &BackupDestination,
    choice: &RestoreChoice,
    target: Option<RecoveryTarget>,
) -> Result<Vec<BackupManifest>> {
    let mut backups = destination.list()?.backups;
    let mut before = String::new();
    if let Some(RecoveryTarget::Time(time)) = target {
        backups.retain(|entry| entry.manifest.created_unix_s <= time);
        before = format!(" that was made before {}", time::rfc3339(time));
    }
    let newest = backups.last().map(|of| of.manifest.name.clone());
    let is_chosen = |entry: &BackupEntry| match choice {
        RestoreChoice::Newest => Some(&entry.manifest.name) == newest.as_ref(),
        RestoreChoice::Named(name) => entry.manifest.name == *name,
        RestoreChoice::All => true,
    };
    let chosen: Vec<BackupManifest> =
        backups.into_iter().filter(is_chosen).map(|entry| entry.manifest).collect();
    match (choice, chosen.is_empty()) {
        (_, false) => Ok(chosen),
        (RestoreChoice::Named(name), _) => {
            refused(format!("{} has no backup {name}{before}", destination.dataset()))
        }
        _ => refused(format!("{} has no backup{before}", destination.dataset())),
    }
}
