//! Backups, from the summaries that `poolwright backup` writes. Neither the datasets of the backups nor their pools are accessed.

use std::path::PathBuf;

use poolwright_backup::BackupSummary;
use poolwright_backup::send::SendRecord;

use crate::family::*;
use crate::source::{Discovery, SourceName};
use crate::{Readings, Result, Source};

/// The directories with summaries. A directory that does not exist is skipped.
#[derive(Clone, Debug)]
pub struct BackupSummaries(pub Vec<PathBuf>);

impl Discovery for BackupSummaries {
    fn sources(&self) -> Vec<Box<dyn Source>> {
        let existing = self.0.iter().filter(|dir| dir.is_dir());
        existing.map(|dir| Box::new(SummaryDirectory(dir.clone())) as Box<dyn Source>).collect()
    }
}

/// One directory. The label `pool` of the source has its path.
#[derive(Debug)]
struct SummaryDirectory(PathBuf);

impl Source for SummaryDirectory {
    fn name(&self) -> SourceName {
        SourceName { source: "backups", pool: self.0.to_string_lossy().into_owned() }
    }

    fn read(&mut self) -> Result<Readings> {
        let mut readings = Readings::default();
        for summary in BackupSummary::all_in(&self.0)? {
            add(&mut readings, &summary);
        }
        for sent in SendRecord::all_in(&self.0)? {
            readings.add(&REPLICA, [&sent.dataset, &sent.target]).count(&REPLICA_SENT, sent.sent_unix_s);
        }
        Ok(readings)
    }
}

fn add(readings: &mut Readings, summary: &BackupSummary) {
    let labels = [summary.dataset.as_str(), summary.tier.name(), summary.database.name()];
    let restore = summary.last_restore;
    readings
        .add(&BACKUPS, labels)
        .count(&BACKUPS_KEPT, summary.count)
        .count(&BACKUPS_OLDEST, summary.oldest_unix_s)
        .count(&BACKUPS_NEWEST, summary.newest_unix_s)
        .count(&BACKUPS_NEWEST_SIZE, summary.newest_bytes)
        .count(&BACKUPS_NEWEST_GOOD, summary.newest_good_unix_s)
        .count(&BACKUPS_RESTORE, restore.map(|of| of.unix_s))
        .flag(&BACKUPS_RESTORE_PASSED, restore.map(|of| of.passed))
        .count(&BACKUPS_GOOD_RESTORE, summary.last_good_restore_unix_s)
        .flag(&BACKUPS_UNTESTED, (restore.is_some() || summary.is_untested).then_some(summary.is_untested))
        .count(&BACKUPS_LATEST, summary.latest_unix_s);
}
