//! Numbers and ages of snapshots: `zfs list -t snapshot`.

use super::error::MalformedOutput;

/// The snapshots of one dataset together. Their space is [`super::dataset::DatasetSpace::used_by_snapshots`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTotals {
    /// The dataset's name.
    pub dataset: String,
    /// The number of snapshots.
    pub count: u64,
    /// When the oldest was taken, in seconds since 1970.
    pub oldest: u64,
    /// When the newest was taken, in seconds since 1970.
    pub newest: u64,
}

/// Adds up snapshots line by line, so that the output need not be kept.
#[derive(Debug, Default)]
pub struct SnapshotCounter {
    totals: Vec<SnapshotTotals>,
    line: usize,
}

impl SnapshotCounter {
    /// Adds one line of the output of `zfs list -Hp -t snapshot -o name,creation`.
    ///
    /// # Errors
    /// If the line is malformed.
    pub fn add(&mut self, line: &str) -> Result<(), MalformedOutput> {
        self.line += 1;
        todo!("{line}")
    }

    /// The totals of the datasets that have snapshots, sorted by name.
    pub fn finish(self) -> Vec<SnapshotTotals> {
        self.totals
    }
}
