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
//! Each source runs one command at a time. While a command that exceeded its time limit cannot be killed, its source runs no other command.

mod datasets;
mod events;
mod module;
mod pool_counters;
mod pool_status;
mod vdevs;

use std::time::Duration;

use poolwright_zfs::kernel::{CommandOptions, Kstats, ZfsCommands};

use self::events::ModuleEvents;
use self::module::ModuleCounters;
use self::pool_counters::PoolCounters;
use crate::source::{Discovery, Source, SourceName};
use crate::{Readings, Result};

/// The value of the label `engine`.
const ENGINE: &str = "kernel";

/// The parts of one pool that a source reads with commands.
#[derive(Debug)]
struct CommandKind {
    /// The name of the source.
    name: &'static str,
    interval: Duration,
    read: fn(&str, &ZfsCommands) -> Result<Readings>,
}

static COMMAND_KINDS: [CommandKind; 4] = [
    CommandKind { name: "kernel-status", interval: Duration::ZERO, read: pool_status::read },
    CommandKind { name: "kernel-datasets", interval: Duration::ZERO, read: datasets::read_space },
    // Properties change rarely, and reading those of a thousand datasets takes longer than reading their space.
    CommandKind {
        name: "kernel-properties",
        interval: Duration::from_secs(60),
        read: datasets::read_properties,
    },
    // `zfs` reads each snapshot from the pool, which can be many.
    CommandKind {
        name: "kernel-snapshots",
        interval: Duration::from_secs(300),
        read: datasets::read_snapshots,
    },
];

/// A source that runs commands for one pool.
#[derive(Debug)]
struct PoolCommands {
    pool: String,
    commands: ZfsCommands,
    kind: &'static CommandKind,
}

impl Source for PoolCommands {
    fn name(&self) -> SourceName {
        SourceName { source: self.kind.name, pool: self.pool.clone() }
    }

    fn interval(&self) -> Duration {
        self.kind.interval
    }

    fn read(&mut self) -> Result<Readings> {
        (self.kind.read)(&self.pool, &self.commands)
    }
}

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
            for kind in &COMMAND_KINDS {
                let commands = ZfsCommands::of_pool(self.options.clone(), pool.name());
                sources.push(Box::new(PoolCommands { pool: pool.name().to_owned(), commands, kind }));
            }
            sources.push(Box::new(PoolCounters::new(pool)));
        }
        sources
    }
}
