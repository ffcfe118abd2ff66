//! Datasets of the kernel's OpenZFS.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::kernel::command::property::SourcedValue;
use crate::kernel::command::quota::OwnerQuota;
use crate::kernel::{CommandError, CommandOptions, DatasetChange, HealthState, ZfsCommands};

use poolwright_base::mountinfo::{self, MountEntry};

use super::{DatasetAdmin, DatasetSummary, SnapshotSummary, is_kernel, mounts, pool_of};
use crate::datasets::Result;

/// The time limit of one command. A rollback and the destruction of a snapshot can free many blocks.
const DEADLINE: Duration = Duration::from_secs(900);

/// Runs `zfs` and `zpool`.
#[derive(Debug)]
pub struct KernelDatasets {
    commands: ZfsCommands,
}

impl Default for KernelDatasets {
    fn default() -> KernelDatasets {
        let options = CommandOptions { deadline: DEADLINE, ..CommandOptions::default() };
        KernelDatasets { commands: ZfsCommands::new(options) }
    }
}

impl DatasetAdmin for KernelDatasets {
    fn properties(&self, dataset: &str) -> Result<BTreeMap<String, SourcedValue>> {
        Ok(self.commands.properties_of(dataset)?.map(|found| found.properties).unwrap_or_default())
    }

    fn placed_properties(&self, dataset: &str) -> Result<BTreeMap<String, SourcedValue>> {
        Ok(self.commands.placed_properties(dataset)?.map(|found| found.properties).unwrap_or_default())
    }

    fn user_property(&self, dataset: &str, property: &str) -> Result<Option<String>> {
        Ok(self.commands.local_value(dataset, property)?)
    }

    fn tree(&self, dataset: &str) -> Result<Vec<DatasetSummary>> {
        let tree = self.commands.tree_of(dataset)?;
        let summary = |of: crate::kernel::command::dataset::DatasetSpace| DatasetSummary {
            name: of.name,
            available: of.available.unwrap_or(0),
            referenced: of.referenced.unwrap_or(0),
            logical_referenced: of.logical_referenced.unwrap_or(0),
        };
        Ok(tree.into_iter().map(summary).collect())
    }

    fn snapshots(&self, dataset: &str) -> Result<Vec<SnapshotSummary>> {
        Ok(self.commands.snapshots_of(dataset)?)
    }

    fn shows_snapshot(&self, name: &str, root: &Path) -> Result<bool> {
        let mounts = mounts()?;
        Ok(mountinfo::on(&mounts, root).is_some_and(|mount| mount.source.to_string_lossy() == name))
    }

    fn project_ids(&self, dataset: &str) -> Result<Vec<u64>> {
        Ok(self.commands.project_ids(dataset)?)
    }

    fn owner_quotas(&self, dataset: &str) -> Result<Vec<OwnerQuota>> {
        Ok(self.commands.owner_quotas(dataset)?)
    }

    fn pool_problem(&self, dataset: &str) -> Result<Option<String>> {
        let pool = pool_of(dataset);
        let pools = self.commands.list()?;
        let Some(found) = pools.into_iter().find(|of| of.name == pool) else {
            return Err(CommandError::NoSuchPool { pool: pool.to_owned() }.into());
        };
        Ok(match found.health {
            _ if found.is_readonly => Some(format!("the pool {pool} is imported read-only")),
            HealthState::Online => None,
            state => Some(format!("the pool {pool} is {}, not ONLINE", state.as_str())),
        })
    }

    fn change(&self, change: &DatasetChange) -> Result<()> {
        Ok(self.commands.change(change)?)
    }

    fn mount_of(&self, dataset: &str) -> Result<Option<MountEntry>> {
        let is_it = |mount: &MountEntry| {
            is_kernel(mount) && mount.source.to_string_lossy() == dataset && mount.root == Path::new("/")
        };
        Ok(mounts()?.into_iter().rfind(is_it))
    }

    fn mount(&self, dataset: &str, dir: &Path) -> Result<()> {
        let (dataset, property) = (dataset.to_owned(), "mountpoint".to_owned());
        self.change(&DatasetChange::Set { dataset, property, value: dir.to_string_lossy().into_owned() })
    }
}
