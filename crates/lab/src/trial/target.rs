//! The storage for a trial's datasets.
//!
//! There are four implementations: [`PoolTarget`], a pool of the engine in user space, [`SeveralPools`] of them, [`DatasetTarget`],
//! datasets of the kernel's OpenZFS, and [`Directory`]. `crates/poolwright/tests/integration/lab_targets.rs` runs the same test suite on
//! all of them.

mod dataset;
mod directory;
mod pool;
mod several_pools;
mod unmount;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};

pub use dataset::DatasetTarget;
pub use directory::Directory;
pub use pool::PoolTarget;
pub use several_pools::SeveralPools;

use super::Setting;
use crate::{Result, TargetSpec, TrialSpec};

/// Mounted datasets by role.
pub trait Target: Sync {
    /// Returns the directory for a role's files.
    fn path(&self, role: &str) -> PathBuf;
    /// Prepares a phase: `cold` empties all caches, `record` starts the recording of reads and writes.
    ///
    /// # Errors
    /// If the caches cannot be emptied (the pool cannot be exported or imported, a mount is in use, a file cannot be opened),
    /// if a dataset cannot be mounted again for the recording, or if `record` is set and the storage cannot record.
    fn prepare(&mut self, cold: bool, record: bool) -> Result<()>;
    /// Sets properties of a role's dataset; they take effect at once.
    ///
    /// # Errors
    /// If the storage has no properties, the role has no dataset, or the engine refuses a value.
    fn set(&self, role: &str, settings: &Settings) -> Result<()>;
    /// Takes a snapshot of every dataset; all show the same moment.
    ///
    /// # Errors
    /// If the storage takes no snapshots, or a dataset has one of this name.
    fn snapshot(&self, name: &str) -> Result<()>;
    /// Destroys the snapshot of this name of every dataset.
    ///
    /// # Errors
    /// If the storage takes no snapshots, or a dataset has none of this name.
    fn destroy_snapshot(&self, name: &str) -> Result<()>;
    /// Waits until all written data is on disk.
    ///
    /// # Errors
    /// If the data cannot be written, or the process that serves the datasets does not answer.
    fn sync(&self) -> Result<()>;
    /// Returns the size of each role; call it after [`Target::sync`].
    ///
    /// # Errors
    /// If a dataset cannot be read, or the process that serves the datasets does not answer.
    fn sizes(&self) -> Result<BTreeMap<String, Size>>;
    /// Returns the current counters, or `None` if there are none.
    ///
    /// # Errors
    /// If the process that serves the datasets does not answer.
    fn counters(&self) -> Result<Option<Counters>>;
    /// Ends the recording that [`Target::prepare`] began. Returns the traces by role.
    ///
    /// # Errors
    /// If a dataset cannot be unmounted to complete its trace, or not mounted again.
    fn recorded(&mut self) -> Result<BTreeMap<String, Recorded>>;
    /// Returns the process that serves the datasets, if its CPU time can be separated from that of the driver; the first one serves
    /// `[pool]`.
    fn servers(&self) -> Vec<DatasetServer>;
    /// Returns why the target can no longer be used, or `None` if it can.
    fn trouble(&self) -> Option<String>;
    /// Returns a path on the device that contains all data.
    fn location(&self) -> &Path;
    /// Returns versions to store with the results.
    ///
    /// # Errors
    /// If the process that serves the datasets does not answer.
    fn versions(&self) -> Result<BTreeMap<String, String>>;
    /// Destroys the target in order and removes its files; the second call does nothing. Without this call,
    /// dropping the target kills its process.
    ///
    /// # Errors
    /// If a dataset cannot be unmounted, the process does not end in time, or a file cannot be removed.
    fn tear_down(&mut self) -> Result<()>;
}

/// The process or threads that do the I/O of the datasets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatasetServer {
    /// The process with this ID.
    Process(i32),
    /// The kernel's threads.
    Kernel,
}

impl DatasetServer {
    /// Returns the process, if it is one.
    pub fn process(self) -> Option<i32> {
        match self {
            DatasetServer::Process(id) => Some(id),
            DatasetServer::Kernel => None,
        }
    }
}

/// The size of a dataset in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes before compression: `logicalreferenced`.
    pub logical: u64,
    /// Bytes on disk: `referenced`.
    pub allocated: u64,
    /// Bytes on disk that only snapshots hold (`usedbysnapshots`), if the target takes snapshots.
    pub held: Option<u64>,
}

/// Counters of a pool since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Counters of the ARC.
    pub arc: ArcStats,
    /// Counters of each vdev file, by name.
    pub vdevs: BTreeMap<String, VdevStats>,
    /// Counters of the intent log of each role's dataset.
    pub zils: BTreeMap<String, ZilStats>,
}

/// A trace, and the moment of its time 0.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Path of the trace.
    pub trace: PathBuf,
    /// The moment of its time 0, known within some milliseconds.
    pub began: Instant,
}

/// Creates the datasets of a trial.
///
/// # Errors
/// Fails if the pool or the directories cannot be created or mounted.
pub fn create(spec: &TrialSpec, setting: &Setting) -> Result<Box<dyn Target>> {
    Ok(match &spec.target {
        TargetSpec::Pool(pool) => {
            let dir = spec.scratch.join("target");
            let emulates = spec.emulates_from_the_start();
            let main =
                |datasets: &_| PoolTarget::create(pool, datasets, &spec.places, &dir, emulates, setting);
            if spec.pools.is_empty() {
                Box::new(main(&spec.datasets)?)
            } else {
                Box::new(SeveralPools::create(spec, main, setting)?)
            }
        }
        TargetSpec::Dataset(options) => {
            Box::new(DatasetTarget::create(options, &spec.datasets, &spec.places)?)
        }
        TargetSpec::Directory(parent) => {
            Box::new(Directory::create(parent, spec.datasets.keys().map(String::as_str))?)
        }
    })
}
