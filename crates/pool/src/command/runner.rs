//! The commands.

use std::path::PathBuf;
use std::time::Duration;

use super::dataset::DatasetSpace;
use super::error::CommandError;
use super::event::PoolEvent;
use super::histogram::{HistogramKind, VdevHistogram};
use super::property::DatasetProperties;
use super::snapshot::SnapshotTotals;
use super::space::PoolSpace;
use super::status::KernelPool;
use super::vdev_counters::VdevCounters;
use super::version::InstalledVersion;

/// How to run `zpool` and `zfs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOptions {
    /// The path of `zpool`. `None`: search PATH, `/usr/sbin` and `/sbin`.
    pub zpool: Option<PathBuf>,
    /// The path of `zfs`. `None`: search PATH, `/usr/sbin` and `/sbin`.
    pub zfs: Option<PathBuf>,
    /// The device file of the kernel module, without which nothing is run, because `zpool` would load the module. `None`: do
    /// not check.
    pub device: Option<PathBuf>,
    /// The time limit of one run.
    pub deadline: Duration,
    /// The limit for the output of one run, in bytes.
    pub max_output: usize,
    /// The number of commands that may be stuck in the kernel before further ones are refused.
    pub max_stuck: usize,
}

impl Default for CommandOptions {
    /// The installed programs, 10 s, 64 MiB, at most 4 stuck commands.
    fn default() -> CommandOptions {
        CommandOptions {
            zpool: None,
            zfs: None,
            device: Some(PathBuf::from("/dev/zfs")),
            deadline: Duration::from_secs(10),
            max_output: 64 << 20,
            max_stuck: 4,
        }
    }
}

/// Runs `zpool` and `zfs`. All methods read only. Several threads can use one `ZfsCommands`.
#[derive(Debug, Default)]
pub struct ZfsCommands {
    options: CommandOptions,
}

impl ZfsCommands {
    /// Runs commands with these options.
    pub fn new(options: CommandOptions) -> ZfsCommands {
        ZfsCommands { options }
    }

    /// The options.
    pub fn options(&self) -> &CommandOptions {
        &self.options
    }

    /// The number of commands that timed out and have not ended.
    pub fn stuck(&self) -> usize {
        todo!()
    }

    /// The versions of the programs and of the kernel module.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn version(&self) -> Result<InstalledVersion, CommandError> {
        todo!()
    }

    /// The state of all pools, from the JSON output of 2.3 and later, or from the text of 2.1 and 2.2.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn status(&self) -> Result<Vec<KernelPool>, CommandError> {
        todo!()
    }

    /// The space of all pools.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn list(&self) -> Result<Vec<PoolSpace>, CommandError> {
        todo!()
    }

    /// The I/O of all vdevs of a pool. `None` before 2.2.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn vdev_counters(&self, pool: &str) -> Result<Option<Vec<VdevCounters>>, CommandError> {
        todo!("{pool}")
    }

    /// The histograms of all pools and their vdevs.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn histograms(&self, kind: HistogramKind) -> Result<Vec<VdevHistogram>, CommandError> {
        todo!("{kind:?}")
    }

    /// The space of all file systems and volumes.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn datasets(&self) -> Result<Vec<DatasetSpace>, CommandError> {
        todo!()
    }

    /// The properties that Poolwright tunes, of all file systems and volumes.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn properties(&self) -> Result<Vec<DatasetProperties>, CommandError> {
        todo!()
    }

    /// The number and the ages of the snapshots of each dataset that has any. The output is added up while it arrives; its
    /// size has no limit but the deadline.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn snapshots(&self) -> Result<Vec<SnapshotTotals>, CommandError> {
        todo!()
    }

    /// The events in the module's log, oldest first.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn events(&self) -> Result<Vec<PoolEvent>, CommandError> {
        todo!()
    }
}
