//! Options of `replay` and `tune` for trials on a pool of the kernel.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use poolwright_datasets::{DatasetAdmin as _, KernelDatasets, pool_of};
use poolwright_openzfs::property::{self, Settings};
use poolwright_pool::{CommandOptions, Kstats, ZfsCommands};
use poolwright_replay::KernelPoolOptions;
use poolwright_tune::PoolTrials;

use super::options::{Usage, parse_size, parse_time};
use crate::failure::hint;

/// Trials on a pool of the kernel
#[derive(Debug, clap::Args)]
pub struct PoolTrialOptions {
    /// Run the trials below this dataset of the kernel's OpenZFS, on the vdevs of its pool, instead of on the engine. Each trial creates
    /// datasets and destroys them. Requires root. Not for a pool whose users cannot bear a load like the recorded one
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["arc", "device", "ashift"])]
    pub on: Option<String>,

    /// With --on: fill the datasets of a trial with at most this many bytes per second
    #[arg(long, value_name = "SIZE", default_value = "100M", value_parser = parse_size, requires = "on")]
    pub fill_rate: u64,

    /// With --on: start no further trial when the trials have written this much to the pool
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse_size, requires = "on")]
    pub max_bytes: u64,

    /// With --on: stop if half of the pool's device I/O takes longer than this for 3 s while others use the pool
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_time, requires = "on")]
    pub max_io_time: Duration,
}

/// Room in a trial's quota for what the pool keeps until it is freed, in bytes.
const SPARE: u64 = 256 << 20;
/// Free space of the pool, as a share, that a trial may use.
const SHARE: u64 = 2;
/// The limits of the module that decide about the writes of a pool.
const DIRTY_MAX: &str = "/sys/module/zfs/parameters/zfs_dirty_data_max";

/// A pool of the kernel for trials.
#[derive(Debug)]
pub struct PoolForTrials {
    /// The trials.
    pub trials: PoolTrials,
    /// The ARC's limit in bytes, which the trials share with all pools.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` in bytes.
    pub dirty_bytes: u64,
}

impl PoolTrialOptions {
    /// Examines the pool of `--on`; `None` without the option.
    ///
    /// # Errors
    /// As [`PoolTrialOptions::below`].
    pub fn pool(&self, scratch: &Path, sample_bytes: u64) -> anyhow::Result<Option<PoolForTrials>> {
        self.on.as_deref().map(|dataset| self.below(dataset, scratch, sample_bytes)).transpose()
    }

    /// Examines the pool of a dataset.
    ///
    /// # Errors
    /// If the user is not root, the dataset does not exist, its pool is not healthy or has too little space, or its release of OpenZFS
    /// does not count the I/O of vdevs.
    pub fn below(&self, dataset: &str, scratch: &Path, sample_bytes: u64) -> anyhow::Result<PoolForTrials> {
        let pool = ExaminedPool::of(dataset)?;
        let quota = sample_bytes.saturating_mul(4).saturating_add(SPARE).min(pool.available);
        let arcstats = Kstats::default().arcstats().with_context(|| format!("--on {dataset}"))?;
        let arc_bytes = arcstats.and_then(|arc| arc.unsigned("c_max")).unwrap_or(0);
        let dirty = std::fs::read_to_string(DIRTY_MAX).ok().and_then(|text| text.trim().parse().ok());
        let options = KernelPoolOptions {
            parent: dataset.to_owned(),
            mount_dir: scratch.to_owned(),
            properties: properties(),
            quota,
            fill_rate: Some(self.fill_rate.max(1)),
            latency_limit_ns: self.max_io_time.as_nanos() as u64,
        };
        Ok(PoolForTrials {
            trials: PoolTrials { options, ashift: pool.ashift, max_bytes: self.max_bytes },
            arc_bytes,
            dirty_bytes: dirty.unwrap_or_else(poolwright_openzfs::limits::default_dirty_bytes),
        })
    }
}

/// What a pool of the kernel offers to trials below a dataset.
#[derive(Clone, Copy, Debug)]
pub struct ExaminedPool {
    /// The largest ashift of the vdevs.
    pub ashift: u32,
    /// The bytes that a trial may use.
    pub available: u64,
}

impl ExaminedPool {
    /// Examines the pool of the dataset that `--on` names.
    ///
    /// # Errors
    /// If the user is not root, the dataset does not exist, its pool is not healthy, or its release of OpenZFS does not count the I/O of
    /// vdevs.
    pub fn of(dataset: &str) -> anyhow::Result<ExaminedPool> {
        let failed = || format!("--on {dataset}");
        if !rustix::process::geteuid().is_root() {
            return Err(anyhow!("only root can create and mount datasets").context(failed()).context(Usage));
        }
        let commands = ZfsCommands::new(CommandOptions::default());
        let tree = commands.tree_of(dataset).with_context(failed)?;
        let Some(found) = tree.first() else {
            let create = format!("zfs create {dataset}, or name an existing dataset");
            return Err(anyhow!("the dataset does not exist")
                .context(failed())
                .context(hint(create))
                .context(Usage));
        };
        let ashift = check_pool(&commands, dataset).with_context(failed)?;
        Ok(ExaminedPool { ashift, available: found.available.unwrap_or(0) / SHARE })
    }
}

/// Refuses a pool that is not healthy or does not count the I/O of its vdevs; returns the largest ashift of the vdevs.
fn check_pool(commands: &ZfsCommands, dataset: &str) -> anyhow::Result<u32> {
    if let Some(problem) = KernelDatasets::default().pool_problem(dataset)? {
        return Err(anyhow!(problem));
    }
    let vdevs = commands.vdev_counters(pool_of(dataset))?;
    let vdevs = vdevs.context("the I/O of vdevs is not counted: OpenZFS 2.2 or later is required")?;
    let largest = vdevs.iter().filter_map(|vdev| vdev.ashift).max().filter(|ashift| *ashift > 0);
    Ok(largest.map_or(12, |ashift| ashift as u32))
}

/// The properties that a trial's datasets must not inherit from the scratch dataset, with OpenZFS's defaults; the database's values
/// replace them.
pub fn properties() -> Settings {
    let mut all = property::defaults();
    all.remove("snapdir");
    all.insert("atime".to_owned(), "on".to_owned());
    all
}
