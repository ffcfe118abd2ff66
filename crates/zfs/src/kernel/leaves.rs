//! The I/O of all devices of a pool together.

use std::collections::BTreeSet;

use crate::kernel::command::{CommandError, ZfsCommands};

/// The leaf vdevs of a pool: files, disks and partitions, without cache devices and spares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLeaves {
    pool: String,
    guids: BTreeSet<u64>,
}

/// The I/O of the leaf vdevs since the pool was imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafTotals {
    /// Reads.
    pub read_ops: u64,
    /// Writes.
    pub write_ops: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
}

impl PoolLeaves {
    /// The leaves of a pool. `None` if the pool is not imported, or the release of OpenZFS has no counters of vdevs (before 2.2).
    ///
    /// # Errors
    /// If a command cannot be run, does not end in time, or fails.
    pub fn of(commands: &ZfsCommands, pool: &str) -> Result<Option<PoolLeaves>, CommandError> {
        if commands.vdev_counters(pool)?.is_none() {
            return Ok(None);
        }
        let status = commands.status()?;
        let vdevs = status.iter().filter(|of| of.name == pool).flat_map(|of| of.walk());
        let guids =
            vdevs.filter(|(_, vdev)| vdev.children.is_empty()).filter_map(|(_, vdev)| vdev.guid).collect();
        Ok(Some(PoolLeaves { pool: pool.to_owned(), guids }))
    }

    /// Reads the counters. `None` if the pool is not imported any more.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, or fails.
    pub fn totals(&self, commands: &ZfsCommands) -> Result<Option<LeafTotals>, CommandError> {
        let Some(vdevs) = commands.vdev_counters(&self.pool)? else { return Ok(None) };
        let mut totals = LeafTotals::default();
        for vdev in vdevs.iter().filter(|vdev| vdev.guid.is_some_and(|guid| self.guids.contains(&guid))) {
            totals.read_ops += vdev.read_ops.unwrap_or(0);
            totals.write_ops += vdev.write_ops.unwrap_or(0);
            totals.read_bytes += vdev.read_bytes.unwrap_or(0);
            totals.write_bytes += vdev.write_bytes.unwrap_or(0);
        }
        Ok(Some(totals))
    }
}
