//! Tells the monitor the state of a dataset of backups.

use poolwright_backup::send::SendRecord;
use poolwright_backup::{BackupDestination, BackupSummary, Result};

/// Writes the summary that `serve`, `monitor` and `check` read. What was done with the backups is done, so a failure is a warning.
pub(super) fn keep(dataset: &str) {
    let kept = BackupDestination::open(dataset).and_then(|destination| write(&destination));
    if let Err(why) = kept {
        tell!("poolwright: warning: the monitor's summary of {dataset} was not updated: {why}");
    }
}

/// Records a transfer that has brought the target up to date.
pub(super) fn keep_sent(dataset: &str, target: &str) {
    if let Err(why) = SendRecord::new(dataset, target).keep(&poolwright_zfs::user::backups_dir()) {
        tell!(
            "poolwright: warning: the monitor's record that {dataset} was sent to {target} was not written: {why}"
        );
    }
}

fn write(destination: &BackupDestination) -> Result<()> {
    BackupSummary::of(destination)?.keep(&poolwright_zfs::user::backups_dir())
}
