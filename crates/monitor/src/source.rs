//! Sources: each reads figures from one origin.

pub mod backups;
pub mod host;
pub mod kernel;
pub mod plan;
pub mod user_pool;

use std::path::PathBuf;
use std::time::Duration;

use poolwright_zfs::kernel::{CommandOptions, Kstats};

use crate::{Readings, Result};

/// Identifies a source: the values of the labels of [`crate::family::SOURCE`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName {
    /// The kind of source, such as `user-pool`.
    pub source: &'static str,
    /// The pool; empty for a source that concerns all pools.
    pub pool: String,
}

/// Reads one origin of figures. A source is cheap to make: it opens nothing before the first [`Source::read`].
pub trait Source: Send {
    /// The name, unique among all sources.
    fn name(&self) -> SourceName;

    /// The shortest time between two reads. More frequent scrapes receive the same readings again.
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads the present values. The caller runs it in a separate thread, so that it may block.
    ///
    /// # Errors
    /// If nothing could be read. The message becomes a line of the log.
    fn read(&mut self) -> Result<Readings>;
}

/// Lists the sources of one kind, which come and go with the pools.
pub trait Discovery: Send + Sync {
    /// The sources that exist now. Must not block: it reads directories, and runs no program.
    fn sources(&self) -> Vec<Box<dyn Source>>;
}

/// Nanoseconds in seconds.
fn seconds(nanoseconds: u64) -> f64 {
    Duration::from_nanos(nanoseconds).as_secs_f64()
}

/// Which sources to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOptions {
    /// The directory of the host's `/proc`: another one in a container.
    pub proc: PathBuf,
    /// The files of plans to compare with the present.
    pub plans: Vec<PathBuf>,
    /// The directories with summaries of backups.
    pub backups: Vec<PathBuf>,
}

impl Default for SourceOptions {
    fn default() -> SourceOptions {
        SourceOptions { proc: PathBuf::from("/proc"), plans: Vec::new(), backups: Vec::new() }
    }
}

/// All kinds of sources.
pub fn all(options: &SourceOptions) -> Vec<Box<dyn Discovery>> {
    let kstats = Kstats::new(options.proc.join("spl/kstat/zfs"));
    vec![
        Box::new(host::HostFacts),
        Box::new(kernel::KernelPools::new(kstats, CommandOptions::default())),
        Box::new(user_pool::UserPools),
        Box::new(plan::Plans(options.plans.clone())),
        Box::new(backups::BackupSummaries(options.backups.clone())),
    ]
}
