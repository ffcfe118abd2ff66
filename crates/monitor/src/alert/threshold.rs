//! The table of thresholds, with their sources.

use std::collections::BTreeMap;

use crate::{Error, Result};

/// A number that users may change.
#[derive(Debug, PartialEq)]
pub struct Threshold {
    /// The name, as in `--threshold NAME=VALUE`.
    pub name: &'static str,
    /// The value, in the unit of what is compared with it. Ratios are parts of 1.
    pub value: f64,
    /// Why it has this value.
    pub source: &'static str,
}

/// Defines the thresholds, and a list of all.
macro_rules! thresholds {
    ($($id:ident = $name:literal $value:literal $source:literal;)+) => {
        $(#[doc = concat!("`", $name, "`: ", $source)]
        pub static $id: Threshold = Threshold { name: $name, value: $value, source: $source };)+
        /// All thresholds, by name.
        pub static THRESHOLDS: &[&Threshold] = &[$(&$id),+];
    };
}

thresholds! {
    ARC_FILLED = "arc-filled" 0.8 "Our choice, in parts of the target size.";
    ARC_HITS = "arc-hits" 0.7 "Our choice, in parts of the demand accesses. [mrc.md](mrc.md) shows what a larger ARC would give.";
    ARC_MISSES = "arc-misses" 5000.0 "Our choice, in demand misses per second: the random reads of one SATA SSD at a moderate queue depth.";
    ARC_RECLAIMS = "arc-reclaims" 1.0 "Our choice, in reclaims per second.";
    ARC_SHARE = "arc-share" 0.1 "Our choice, in parts of the host's memory.";
    ARC_TARGET_SHARE = "arc-target-share" 0.5 "Our choice, in parts of the maximum size.";
    ARCHIVE_AGE = "archive-age" 777600.0 "Our choice, in seconds: 9 days, so that a weekly archiving may be two days late.";
    BACKUP_AGE = "backup-age" 129600.0 "Our choice, in seconds: 36 hours, so that a daily backup may take half a day.";
    BLOCK_SIZES = "block-sizes" 0.1 "Our choice, in parts of the examined files.";
    BUSY_ACCESSES = "busy-accesses" 1000.0 "Our choice, in ARC accesses per second. With fewer, the ratio of hits says little.";
    BUSY_WRITES = "busy-writes" 100.0 "Our choice, in writes per second. With fewer, their cost does not matter.";
    CAPACITY_CRITICAL = "capacity-critical" 0.9 "Our choice, in parts of the capacity: 5 points before the 95 % at which our campaign measured a quarter of the writes ([timeseries](campaigns/timeseries.md)).";
    CAPACITY_WARNING = "capacity-warning" 0.8 "The customary limit, in parts of the capacity, where our campaign measured 1.71 times (1.38 to 2.11) fewer writes per second than in a half-full pool ([timeseries](campaigns/timeseries.md)).";
    EXPORTER_MEMORY = "exporter-memory" 268435456.0 "Our choice, in bytes: four times what the exporter is designed to need.";
    FRAGMENTATION = "fragmentation" 0.5 "Our choice, in parts of 1, as `zpool list` shows it.";
    L2ARC_HEADERS = "l2arc-headers" 0.02 "Our choice, in parts of the ARC.";
    L2ARC_HITS = "l2arc-hits" 0.05 "Our choice, in parts of the reads that the ARC could not answer.";
    LARGE_DATASET = "large-dataset" 10737418240.0 "Our choice, in bytes. Snapshots of smaller datasets do not matter.";
    PEER_FACTOR = "peer-factor" 4.0 "Our choice. Buckets of latencies are powers of 4, so that smaller differences can be chance.";
    PLAN_AGE = "plan-age" 15552000.0 "Our choice, in seconds: 180 days.";
    QUOTA = "quota" 0.9 "Our choice, in parts of the quota.";
    REPLICA_AGE = "replica-age" 129600.0 "Our choice, in seconds: 36 hours, so that a daily transfer may take half a day.";
    REQUEST_SIZE_FACTOR = "request-size-factor" 2.0 "Our choice: one step of `recordsize`.";
    REQUEST_SIZE_SHARE = "request-size-share" 0.5 "Our choice: one step of `recordsize`.";
    RESTORE_AGE = "restore-age" 1209600.0 "Our choice, in seconds: 14 days, so that one of the weekly restore tests may be missed.";
    SCRUB_AGE = "scrub-age" 3024000.0 "In seconds: 35 days. Debian's package scrubs each pool on the second Sunday of a month, so that at most 35 days pass.";
    SERIOUS_LATENCY = "serious-latency" 0.02 "Our choice, in seconds: slower than a seek of a hard disk. A faster vdev is fast enough, even if its peers are faster still.";
    SLOG_LATENCY = "slog-latency" 0.02 "Our choice, in seconds: a log device that is slower than a hard disk's seek is not useful.";
    SNAPSHOT_AGE = "snapshot-age" 34560000.0 "Our choice, in seconds: 400 days, so that a yearly snapshot may stay until the next one.";
    SNAPSHOT_PAUSE = "snapshot-pause" 172800.0 "Our choice, in seconds: 2 days, twice the usual period.";
    SNAPSHOT_SCHEDULE = "snapshot-schedule" 6.0 "Our choice. A dataset with more snapshots is assumed to have a schedule.";
    SNAPSHOT_SHARE = "snapshot-share" 0.5 "Our choice, in parts of the space that the dataset uses.";
    SOURCE_AGE = "source-age" 900.0 "In seconds: three times the longest interval of a source (300 s, for snapshots).";
    SYNC_QUEUE = "sync-queue" 0.1 "Our choice, in seconds.";
    TX_DELAYED = "tx-delayed" 0.1 "Our choice, in parts of the transactions. OpenZFS starts to delay at `zfs_delay_min_dirty_percent` (60 %) of `zfs_dirty_data_max`.";
    TX_STOPPED = "tx-stopped" 0.001 "Our choice, in parts of the transactions. OpenZFS stops them at `zfs_dirty_data_max`.";
    TXG_SYNC_TIME = "txg-sync" 15.0 "In seconds: three times `zfs_txg_timeout` (5 s), the longest time that a group is open when nothing is wrong.";
    WRITE_SHARE = "write-share" 0.25 "Our choice, in parts of `recordsize`. OpenZFS then reads and writes four times the bytes of each write.";
}

/// Thresholds, some of them changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Thresholds {
    changed: BTreeMap<&'static str, f64>,
}

impl Thresholds {
    /// The thresholds with these changes, each as `NAME=NUMBER`.
    ///
    /// # Errors
    /// [`Error::InvalidThreshold`], [`Error::NoSuchThreshold`].
    pub fn changed(changes: &[String]) -> Result<Thresholds> {
        let mut thresholds = Thresholds::default();
        for text in changes {
            let invalid = || Error::InvalidThreshold(text.clone());
            let (name, value) = text.split_once('=').ok_or_else(invalid)?;
            let value: f64 =
                value.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(invalid)?;
            let known = THRESHOLDS.iter().find(|threshold| threshold.name == name);
            let known = known.ok_or_else(|| Error::NoSuchThreshold(name.to_owned()))?;
            thresholds.changed.insert(known.name, value);
        }
        Ok(thresholds)
    }

    /// The value of a threshold.
    pub fn value(&self, of: &Threshold) -> f64 {
        self.changed.get(of.name).copied().unwrap_or(of.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_sorted_and_can_be_changed() {
        assert!(THRESHOLDS.is_sorted_by(|a, b| a.name < b.name));
        let text = |text: &str| vec![text.to_owned()];
        let changed = Thresholds::changed(&text("quota=0.5")).unwrap();
        assert_eq!((changed.value(&QUOTA), changed.value(&FRAGMENTATION)), (0.5, FRAGMENTATION.value));
        for wrong in ["quota", "quota=", "quota=x", "quota=inf"] {
            assert!(matches!(Thresholds::changed(&text(wrong)), Err(Error::InvalidThreshold(_))), "{wrong}");
        }
        assert!(matches!(Thresholds::changed(&text("none=1")), Err(Error::NoSuchThreshold(_))));
    }
}
