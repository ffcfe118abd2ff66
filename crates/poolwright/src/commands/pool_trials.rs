//! Options for trials on a pool of the kernel: of `replay`, and of `lab run` and `confirm`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use poolwright_lab::RunTarget;
use poolwright_openzfs::property::{self, Settings};
use poolwright_replay::KernelPoolOptions;
use poolwright_zfs::datasets::{DatasetAdmin as _, KernelDatasets, pool_of};
use poolwright_zfs::kernel::{CommandOptions, ZfsCommands};

use super::options::{Usage, parse_size, parse_time};
use crate::failure::hint;

/// Trials on a pool of the kernel
#[derive(Debug, clap::Args)]
pub struct PoolTrialOptions {
    /// Run the trials below this dataset of the kernel's OpenZFS, on the vdevs of its pool, instead of on the engine. Each trial creates
    /// datasets and destroys them. Requires root. Do not use it on a pool whose users cannot tolerate a load like the recorded one
    #[arg(long, value_name = "DATASET", conflicts_with_all = ["arc", "device", "ashift"])]
    pub on: Option<String>,

    /// With --on: fill the datasets of a trial with at most this many bytes per second
    #[arg(long, value_name = "SIZE", default_value = "100M", value_parser = parse_size, requires = "on")]
    pub fill_rate: u64,

    /// With --on: start no more trials once the trials have written this much to the pool
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse_size, requires = "on")]
    pub max_bytes: u64,

    /// With --on: stop if half of the pool's device I/O takes longer than this for 3 s while others use the pool
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_time, requires = "on")]
    pub max_io_time: Duration,
}

/// Trials on a pool of the kernel
#[derive(Debug, clap::Args)]
pub struct RunOnPool {
    /// Run the trials below this dataset of the kernel's OpenZFS, on the vdevs of its pool. Each trial creates datasets and destroys them.
    /// Requires root. Do not use it on a pool whose users cannot tolerate the load
    #[arg(long, value_name = "DATASET")]
    pub on: Option<String>,

    /// With --on: start no more trials once the pool's devices have written this much during the trials
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = parse_size, requires = "on")]
    pub max_bytes: u64,

    /// With --on: stop if half of the pool's device I/O takes longer than this for 3 s while others use the pool
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_time, requires = "on")]
    pub max_io_time: Duration,
}

impl RunOnPool {
    /// Examines the pool of `--on`; `None` without the option.
    ///
    /// # Errors
    /// As [`available`].
    pub fn target(&self) -> anyhow::Result<Option<RunTarget>> {
        let Some(dataset) = &self.on else { return Ok(None) };
        let available = available(dataset)?;
        Ok(Some(RunTarget::Dataset {
            options: KernelPoolOptions {
                parent: dataset.clone(),
                mount_dir: PathBuf::new(),
                properties: properties(),
                quota: 0,
                fill_rate: None,
                latency_limit_ns: self.max_io_time.as_nanos() as u64,
            },
            max_bytes: self.max_bytes,
            available,
        }))
    }
}

/// Room in a trial's quota for what the pool keeps until it is freed, in bytes.
const SPARE: u64 = 256 << 20;
/// Free space of the pool, as a share, that a trial may use.
const SHARE: u64 = 2;

impl PoolTrialOptions {
    /// Examines the pool of `--on` and returns the target of the trials; `None` without the option.
    ///
    /// # Errors
    /// If the user is not root, the dataset does not exist, its pool is not healthy or has too little space, or its release of OpenZFS
    /// does not count the I/O of vdevs.
    pub fn pool(&self, scratch: &Path, sample_bytes: u64) -> anyhow::Result<Option<KernelPoolOptions>> {
        let Some(dataset) = self.on.as_deref() else { return Ok(None) };
        let available = available(dataset)?;
        Ok(Some(KernelPoolOptions {
            parent: dataset.to_owned(),
            mount_dir: scratch.to_owned(),
            properties: properties(),
            quota: sample_bytes.saturating_mul(4).saturating_add(SPARE).min(available),
            fill_rate: Some(self.fill_rate.max(1)),
            latency_limit_ns: self.max_io_time.as_nanos() as u64,
        }))
    }
}

/// Examines the pool of the dataset that `--on` names, and returns the bytes that a trial may use.
///
/// # Errors
/// If the user is not root, the dataset does not exist, its pool is not healthy, or its release of OpenZFS does not count the I/O of
/// vdevs.
pub fn available(dataset: &str) -> anyhow::Result<u64> {
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
    check_pool(&commands, dataset).with_context(failed)?;
    Ok(found.available.unwrap_or(0) / SHARE)
}

/// Refuses a pool that is not healthy or does not count the I/O of its vdevs.
fn check_pool(commands: &ZfsCommands, dataset: &str) -> anyhow::Result<()> {
    if let Some(problem) = KernelDatasets::default().pool_problem(dataset)? {
        return Err(anyhow!(problem));
    }
    let vdevs = commands.vdev_counters(pool_of(dataset))?;
    vdevs.context("the I/O of vdevs is not counted: OpenZFS 2.2 or later is required")?;
    Ok(())
}

/// The properties that a trial's datasets must not inherit from the scratch dataset, with OpenZFS's defaults. The settings of a trial
/// replace them.
pub fn properties() -> Settings {
    let mut all = property::defaults();
    all.remove("snapdir");
    all.insert("atime".to_owned(), "on".to_owned());
    all
}
