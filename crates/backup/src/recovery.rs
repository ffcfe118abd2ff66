//! Selects the backup to restore, and the time up to which the archived log is replayed on it.

use poolwright_base::time;

use crate::Result;
use crate::destination::{BackupDestination, BackupEntry};
use crate::error::refused;
use crate::manifest::BackupManifest;
use crate::wal::{WalArchive, history_command, restore_command};

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
    /// None of the archived log: the state of the backup.
    Backup,
}

/// The archived log that is replayed after a restore.
#[derive(Clone, Debug)]
pub(crate) struct Recovery {
    archive: WalArchive,
    target: RecoveryTarget,
}

impl Recovery {
    /// The recovery with the WAL archive of a dataset of backups, or with the one in the dataset `wal`.
    ///
    /// # Errors
    /// A refusal if it has no WAL archive; or if that cannot be read.
    pub fn of(
        destination: &BackupDestination,
        target: RecoveryTarget,
        wal: Option<&str>,
    ) -> Result<Recovery> {
        let archive = destination.identity()?.map(|identity| match wal {
            Some(dataset) => WalArchive::of_dataset(dataset, &identity).map(Some),
            None => WalArchive::of_backups(&identity),
        });
        match archive.transpose()?.flatten() {
            Some(archive) => Ok(Recovery { archive, target }),
            None => refused(format!(
                "{} has no WAL archive\nhint: `poolwright backup wal-create` makes one; the log is archived from then on",
                destination.dataset()
            )),
        }
    }

    /// The text of its target: `latest`, or the time in RFC 3339; `None` if none of the log is replayed.
    pub fn until(&self) -> Option<String> {
        match self.target {
            RecoveryTarget::Latest => Some("latest".to_owned()),
            RecoveryTarget::Time(time) => Some(time::rfc3339(time)),
            RecoveryTarget::Backup => None,
        }
    }

    /// Refuses a backup whose log was not archived, or has a gap before its end: the server would end there, and report success.
    ///
    /// # Errors
    /// A refusal; or if the backup cannot be read.
    pub fn check(&self, destination: &BackupDestination, backup: &BackupManifest) -> Result<()> {
        if self.target == RecoveryTarget::Backup {
            return Ok(());
        }
        let first = self.archive.needed_by(&destination.root_of(&backup.name), backup)?;
        if !self.archive.has(first) {
            return refused(format!(
                "the WAL archive does not have {first}, in which the recovery of {} begins\nhint: a backup that was made before the log \
                 was archived cannot be used, and one that was made just now can when the segment is archived",
                backup.name
            ));
        }
        let gap = match self.target {
            RecoveryTarget::Latest => self.archive.gap_after(first)?,
            _ => None,
        };
        match gap {
            None => Ok(()),
            Some(gap) => refused(format!(
                "the WAL archive does not have {gap}, so that the log after {} cannot be replayed to its end\nhint: name a time before the \
                 gap, or a newer backup",
                backup.name
            )),
        }
    }

    /// The settings of a server that replays the log, and then begins a new timeline.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let dir = self.archive.dir();
        let (command, timeline, time) = match self.target {
            RecoveryTarget::Latest => (restore_command(dir), "latest", String::new()),
            // An earlier recovery to another time has begun a newer timeline, which does not have what came after that time.
            // The server does not know abbreviations of time zones yet, such as `Z`, when it reads this.
            RecoveryTarget::Time(time) => {
                (restore_command(dir), "current", time::rfc3339(time).replace('Z', "+00"))
            }
            RecoveryTarget::Backup => (history_command(dir), "current", String::new()),
        };
        vec![
            ("restore_command", command),
            ("recovery_target_timeline", timeline.to_owned()),
            ("recovery_target_time", time),
            ("recovery_target_action", "promote".to_owned()),
        ]
    }
}

/// The chosen backups of a dataset, the oldest first. None is chosen that can have a commit from after the target.
///
/// # Errors
/// A refusal if there is none; or if the backups cannot be listed.
pub(crate) fn choose(
    destination: &BackupDestination,
    choice: &RestoreChoice,
    target: RecoveryTarget,
) -> Result<Vec<BackupManifest>> {
    let mut backups = destination.list()?.backups;
    let mut before = String::new();
    if let RecoveryTarget::Time(time) = target {
        retain_earlier(&mut backups, time, choice);
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

/// Removes the backups that can be from after a time. One whose time is before that of an earlier one was made with another clock, so
/// nothing is known of it, unless the user names it.
fn retain_earlier(backups: &mut Vec<BackupEntry>, time: u64, choice: &RestoreChoice) {
    let mut latest = 0;
    backups.retain(|entry| {
        let end = snapshot_end(&entry.manifest);
        let is_in_order = end >= latest || matches!(choice, RestoreChoice::Named(_));
        latest = latest.max(end);
        is_in_order && end <= time
    });
}

/// A time before which the snapshot of the database was complete, in seconds since 1970. The time in the manifest is the one before the
/// snapshot, cut to seconds.
fn snapshot_end(backup: &BackupManifest) -> u64 {
    let quiesced_s = backup.database.quiesced_s.unwrap_or_default().ceil() as u64;
    backup.created_unix_s + quiesced_s + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::entry;

    #[test]
    fn a_backup_of_a_wrong_clock_is_not_one_from_before_the_target() {
        let left = |times: &[u64], time: u64, choice: &RestoreChoice| -> Vec<u64> {
            let mut backups = times.iter().map(|time| entry(*time, '?')).collect();
            retain_earlier(&mut backups, time, choice);
            backups.iter().map(|entry| entry.manifest.created_unix_s).collect()
        };
        let newest = RestoreChoice::Newest;
        assert_eq!(left(&[100, 200, 300], 250, &newest), [100, 200]);
        assert_eq!(left(&[100, 5, 300], 150, &newest), [100], "the clock was behind: it is from after 100");
        assert_eq!(left(&[100, 900, 200], 250, &newest), [100], "the clock was ahead");
        assert_eq!(left(&[100, 5, 300], 150, &RestoreChoice::Named("5".to_owned())), [100, 5]);
    }
}
