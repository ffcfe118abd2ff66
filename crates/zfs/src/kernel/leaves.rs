//! The I/O of all devices of a pool together.

use std::collections::BTreeSet;

use poolwright_openzfs::VdevStats;

use crate::kernel::command::{CommandError, ZfsCommands};

/// The leaf vdevs of a pool: files, disks and partitions, without cache devices and spares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolLeaves {
    pool: String,
    guids: BTreeSet<u64>,
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

    /// Reads the I/O of the leaf vdevs since the pool was imported, without flushes and times, which the kernel does not count. `None` if
    /// the pool is not imported any more.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, or fails.
    pub fn totals(&self, commands: &ZfsCommands) -> Result<Option<VdevStats>, CommandError> {
        let Some(vdevs) = commands.vdev_counters(&self.pool)? else { return Ok(None) };
        let leaves = vdevs.iter().filter(|vdev| vdev.guid.is_some_and(|guid| self.guids.contains(&guid)));
        let totals = leaves.map(|leaf| {
            let of = |property| leaf.get(property).unwrap_or(0);
            VdevStats {
                read_ops: of("read_ops"),
                write_ops: of("write_ops"),
                read_bytes: of("read_bytes"),
                write_bytes: of("write_bytes"),
                ..VdevStats::default()
            }
        });
        Ok(Some(totals.fold(VdevStats::default(), |sum, leaf| sum.plus(&leaf))))
    }
}
