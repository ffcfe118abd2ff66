//! The counters of the pool that holds the database: what the database and others wrote, and what reached the devices.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use poolwright_base::mountinfo::MountEntry;
use poolwright_plan::Plan;
use poolwright_zfs::kernel::{CommandOptions, Kstats, PoolLeaves, ZfsCommands};
use poolwright_zfs::user::{Client, Counters, Request};

use crate::Result;
use crate::state::PlanMounts;

/// Time limit of an answer of a pool's owner.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Counters of a pool and its devices since it was opened. Numbers are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Written to the devices.
    pub device_written: u64,
    /// Written by programs to the database's datasets.
    pub written_by_database: u64,
    /// Written by programs to all datasets of the pool.
    pub written_by_all: u64,
}

impl DeviceCounters {
    /// The difference to earlier counters; zero where a counter was reset.
    pub fn since(self, before: DeviceCounters) -> DeviceCounters {
        DeviceCounters {
            device_written: self.device_written.saturating_sub(before.device_written),
            written_by_database: self.written_by_database.saturating_sub(before.written_by_database),
            written_by_all: self.written_by_all.saturating_sub(before.written_by_all),
        }
    }
}

/// Reads the counters of one pool.
#[derive(Debug)]
pub struct PoolMeter {
    pool: String,
    datasets: BTreeSet<String>,
    /// The commands and the leaf vdevs; `None` for a pool of the user-space engine.
    kernel: Option<(ZfsCommands, PoolLeaves)>,
}

impl PoolMeter {
    /// The meter of the pool that holds the files of the plan. `None` if they are not on ZFS, on several pools, or if the release of
    /// OpenZFS has no counters of vdevs (before 2.2).
    ///
    /// # Errors
    /// If the pool cannot be asked.
    pub fn of(plan: &Plan, mounts: &PlanMounts) -> Result<Option<PoolMeter>> {
        let paths = plan.roles.iter().flat_map(|role| &role.paths);
        let paths = std::iter::once(&plan.subject.directory).chain(paths);
        let holders: Option<Vec<&MountEntry>> =
            paths.map(|path| mounts.of_dataset(Path::new(path))).collect();
        let Some(holders) = holders.filter(|holders| !holders.is_empty()) else { return Ok(None) };
        let datasets: BTreeSet<String> =
            holders.iter().map(|mount| mount.source.to_string_lossy().into_owned()).collect();
        let pools: BTreeSet<&str> = datasets.iter().filter_map(|name| name.split('/').next()).collect();
        let [pool] = pools.into_iter().collect::<Vec<_>>()[..] else { return Ok(None) };
        let pool = pool.to_owned();
        let kernel = match poolwright_zfs::datasets::is_kernel(holders[0]) {
            false => None,
            true => {
                let commands = ZfsCommands::new(CommandOptions { max_stuck: 1, ..CommandOptions::default() });
                let Some(leaves) = PoolLeaves::of(&commands, &pool)? else { return Ok(None) };
                Some((commands, leaves))
            }
        };
        Ok(Some(PoolMeter { pool, datasets, kernel }))
    }

    /// Reads the counters. `None` if the pool is not open any more.
    ///
    /// # Errors
    /// If the pool cannot be asked.
    pub fn read(&self) -> Result<Option<DeviceCounters>> {
        match &self.kernel {
            Some((commands, leaves)) => self.read_kernel(commands, leaves),
            None => self.read_user(),
        }
    }

    fn read_kernel(&self, commands: &ZfsCommands, leaves: &PoolLeaves) -> Result<Option<DeviceCounters>> {
        let Some(totals) = leaves.totals(commands)? else { return Ok(None) };
        let mut found = DeviceCounters { device_written: totals.write_bytes, ..DeviceCounters::default() };
        for pool in Kstats::default().pools()?.iter().filter(|pool| pool.name() == self.pool) {
            let unusable = pool.for_each_objset(["nwritten"], |dataset, [written]| {
                self.add_written(&mut found, dataset, written.unwrap_or(0));
            })?;
            // The sums would be too low.
            unusable.into_iter().next().map_or(Ok(()), Err)?;
        }
        Ok(Some(found))
    }

    fn read_user(&self) -> Result<Option<DeviceCounters>> {
        let Some(mut client) = Client::connect(&self.pool)? else { return Ok(None) };
        client.set_timeout(ANSWER_LIMIT)?;
        let counters: Counters = client.ask(&Request::Counters)?;
        let mut found = DeviceCounters::default();
        for file in &counters.files {
            found.device_written += file.moved.write_bytes;
        }
        for mount in &counters.mounts {
            self.add_written(&mut found, &mount.dataset, mount.write_bytes);
        }
        Ok(Some(found))
    }

    fn add_written(&self, found: &mut DeviceCounters, dataset: &str, bytes: u64) {
        found.written_by_all += bytes;
        if self.datasets.contains(dataset) {
            found.written_by_database += bytes;
        }
    }
}
