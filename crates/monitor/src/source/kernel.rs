//! Pools of the kernel's OpenZFS.
//!
//! Each pool has several sources, because they differ in what can delay them and in their cost:
//!
//! | source | reads | can hang |
//! | --- | --- | --- |
//! | `kernel-counters` | the kstats of the pool | no |
//! | `kernel-status` | `zpool status`, `zpool list`, `zpool get`, `zpool iostat` | with the pool |
//! | `kernel-datasets` | `zfs list` | with the pool |
//! | `kernel-properties` | `zfs get` | with the pool |
//! | `kernel-snapshots` | `zfs list -t snapshot` | with the pool |
//!
//! `kernel-module` (the ARC and other counters of the whole module) and `kernel-events` (`zpool events`) concern all pools.
//! Each source runs one command at a time. A command that exceeds its time limit and cannot be killed keeps its source from
//! running another one.

mod datasets;
mod events;
mod module;
mod pool_counters;
mod pool_status;
mod vdevs;

use poolwright_zfs::kernel::{CommandOptions, Kstats, ZfsCommands};

use self::datasets::{PoolDatasets, PoolProperties, PoolSnapshots};
use self::events::ModuleEvents;
use self::module::ModuleCounters;
use self::pool_counters::PoolCounters;
use self::pool_status::KernelPoolStatus;
use crate::source::{Discovery, Source};

/// The value of the label `engine`.
const ENGINE: &str = "kernel";

/// Lists the sources of the kernel module and of its pools.
#[derive(Debug)]
pub struct KernelPools {
    kstats: Kstats,
    options: CommandOptions,
}

impl KernelPools {
    /// The pools in these kstats, examined by commands with these options. A source runs no command while another of its
    /// commands is stuck, whatever `options.max_stuck` is.
    pub fn new(kstats: Kstats, options: CommandOptions) -> KernelPools {
        KernelPools { kstats, options: CommandOptions { max_stuck: 1, ..options } }
    }

    fn commands(&self, pool: &str) -> ZfsCommands {
        ZfsCommands::of_pool(self.options.clone(), pool)
    }
}

impl Discovery for KernelPools {
    /// None if the kernel module is not loaded.
    fn sources(&self) -> Vec<Box<dyn Source>> {
        if !self.kstats.is_present() {
            return Vec::new();
        }
        let all = ZfsCommands::new(self.options.clone());
        let mut sources: Vec<Box<dyn Source>> =
            vec![Box::new(ModuleCounters::new(self.kstats.clone())), Box::new(ModuleEvents::new(all))];
        for pool in self.kstats.pools().unwrap_or_default() {
            let name = pool.name().to_owned();
            sources.push(Box::new(KernelPoolStatus::new(name.clone(), self.commands(&name))));
            sources.push(Box::new(PoolDatasets::new(name.clone(), self.commands(&name))));
            sources.push(Box::new(PoolProperties::new(name.clone(), self.commands(&name))));
            sources.push(Box::new(PoolSnapshots::new(name.clone(), self.commands(&name))));
            sources.push(Box::new(PoolCounters::new(pool)));
        }
        sources
    }
}
