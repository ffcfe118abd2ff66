//! A pool of the kernel's OpenZFS as a target: a scratch dataset with one dataset per role, on the pool's real vdevs.
//!
//! A trial creates the datasets; its parent process destroys them when the trial has ended ([`PoolWatch`]).

mod datasets;
mod meter;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_trace::layout::Role;
use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host_files::HostFiles;
use crate::settings::RoleSettings;
use crate::{Counters, Error, Result, Target};

pub use datasets::TrialDatasets;
pub use watch::{PoolLoad, PoolWatch};

/// The last part of the name of a trial's dataset, before the process ID of the trial.
const PREFIX: &str = "poolwright-trial-";
/// The user property that marks a trial's dataset. Its value is the process ID of the trial.
const MARK: &str = "poolwright:trial";
/// The time limit of one command. `zpool sync` waits for all dirty data.
const DEADLINE: Duration = Duration::from_secs(300);

/// Where trials create their datasets, and their limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelPoolOptions {
    /// The dataset below which each trial creates its own.
    pub parent: String,
    /// The directory in which a trial's datasets are mounted.
    pub mount_dir: PathBuf,
    /// Properties of all datasets of a trial that the settings of a role can replace.
    #[serde(default)]
    pub properties: Settings,
    /// The space in bytes that a trial may use.
    pub quota: u64,
    /// The bytes per second with which a trial fills its datasets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_rate: Option<u64>,
    /// A trial is stopped if half of the pool's device I/O takes longer than this, in nanoseconds, while others use the pool.
    pub latency_limit_ns: u64,
}

impl KernelPoolOptions {
    /// The name of the pool.
    pub fn pool(&self) -> &str {
        self.parent.split('/').next().unwrap_or(&self.parent)
    }

    /// The name of the dataset of the trial with this process ID.
    fn dataset_of(&self, trial: u32) -> String {
        format!("{}/{PREFIX}{trial}", self.parent)
    }

    fn mountpoint_of(&self, trial: u32) -> PathBuf {
        self.mount_dir.join(format!("{PREFIX}{trial}"))
    }
}

/// The role of a dataset, from its name.
fn role_of(dataset: &str) -> &str {
    dataset.rsplit('/').next().unwrap_or(dataset)
}

/// The files of a trace in datasets of the kernel.
#[derive(Debug)]
pub struct KernelPoolTarget {
    datasets: TrialDatasets,
    files: HostFiles,
    fill_rate: Option<u64>,
    /// Whether the rate is limited.
    filling: AtomicBool,
    /// The bytes written while it is, since then.
    filled: AtomicU64,
    began: Instant,
}

impl KernelPoolTarget {
    /// Creates the datasets. `roles` is the role of each file of the trace; `settings` contains the properties of each role's dataset.
    /// The datasets remain when the target is dropped: the process that started the trial destroys them.
    ///
    /// # Errors
    /// If the trace has a volume, if a dataset cannot be created and mounted, or if the pool's counters cannot be read.
    pub fn create(
        options: &KernelPoolOptions,
        roles: &[Role],
        settings: &RoleSettings,
    ) -> Result<KernelPoolTarget> {
        if roles.contains(&Role::Volume) {
            return Err(Error::Nothing("volumes are not replayed on a pool of the kernel".to_owned()));
        }
        let of_role = |role: &Role| (role.name().to_owned(), settings.get(role).cloned().unwrap_or_default());
        let datasets =
            TrialDatasets::create(options, &roles.iter().map(of_role).collect(), &BTreeMap::new())?;
        let directories: Vec<PathBuf> =
            roles.iter().map(|role| datasets.mountpoint().join(role.name())).collect();
        Ok(KernelPoolTarget {
            datasets,
            files: HostFiles::new(directories.iter().map(PathBuf::as_path)),
            fill_rate: options.fill_rate,
            filling: AtomicBool::new(true),
            filled: AtomicU64::new(0),
            began: Instant::now(),
        })
    }

    /// Ends the limit of the rate, which applies while the datasets are filled.
    pub fn end_filling(&self) {
        self.filling.store(false, Ordering::Relaxed);
    }

    /// The bytes that each role's dataset refers to.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    pub fn allocated_by_role(&self) -> Result<BTreeMap<Role, u64>> {
        let of_role = |(name, bytes): (String, u64)| Some((Role::from_name(&name)?, bytes));
        Ok(self.each(|of| of.referenced)?.into_iter().filter_map(of_role).collect())
    }

    fn each(&self, value: impl Fn(&DatasetSpace) -> Option<u64>) -> Result<BTreeMap<String, u64>> {
        let space = self.datasets.space()?;
        Ok(space.into_iter().filter_map(|(role, of)| Some((role, value(&of)?))).collect())
    }

    /// Waits until the bytes written so far are no more than the rate allows.
    fn pace(&self, bytes: usize) {
        if !self.filling.load(Ordering::Relaxed) {
            return;
        }
        if let Some(rate) = self.fill_rate {
            let filled = self.filled.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
            let due = Duration::from_secs_f64(filled as f64 / rate.max(1) as f64);
            std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
    }
}

impl Target for KernelPoolTarget {
    fn create(&self, file: u32) -> Result<()> {
        self.files.create(file)
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize> {
        self.files.read(file, offset, buf, direct)
    }

    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()> {
        self.files.write(file, offset, buf, sync, direct)?;
        self.pace(buf.len());
        Ok(())
    }

    fn sync(&self, file: u32) -> Result<()> {
        self.files.sync(file)
    }

    fn truncate(&self, file: u32, size: u64) -> Result<()> {
        self.files.truncate(file, size)
    }

    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()> {
        self.files.punch(file, offset, len)
    }

    fn unlink(&self, file: u32) -> Result<()> {
        self.files.unlink(file)
    }

    fn start_txg(&self) -> Result<()> {
        Ok(()) // left to the kernel
    }

    fn settle(&self) -> Result<()> {
        self.files.settle()?;
        self.datasets.sync()
    }

    fn counters(&self) -> Result<Counters> {
        self.datasets.counters()
    }

    fn allocated_bytes(&self) -> Result<u64> {
        Ok(self.allocated_by_role()?.values().sum())
    }

    fn logical_bytes(&self) -> Result<u64> {
        Ok(self.each(|of| of.logical_referenced)?.values().sum())
    }
}
