//! What the datasets of a trial are on.
//!
//! Two today: [`PoolTarget`], a pool of the engine in user space, and [`Directory`]. `crates/poolwright/tests/lab_targets.rs`
//! holds both against the same suite. One on kernel pools takes the same words: roles are datasets `POOL/ROLE`, and
//! properties are spelled as `zfs` spells them.

mod directory;
mod pool;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};

pub use directory::Directory;
pub use pool::PoolTarget;

use super::Setting;
use crate::{Result, TargetSpec, TrialSpec};

/// Datasets by role, mounted.
pub trait Target: Sync {
    /// Where a role's files go.
    fn path(&self, role: &str) -> PathBuf;
    /// Makes ready for a phase: `cold` empties all caches, `record` has reads and writes recorded.
    fn prepare(&mut self, cold: bool, record: bool) -> Result<()>;
    /// Sets properties of a role's dataset, at once.
    fn set(&self, role: &str, settings: &Settings) -> Result<()>;
    /// Waits until all that was written is on disk.
    fn sync(&self) -> Result<()>;
    /// What each role takes; after [`Target::sync`].
    fn sizes(&self) -> Result<BTreeMap<String, Size>>;
    /// The counters now; nothing where there are none.
    fn counters(&self) -> Result<Option<Counters>>;
    /// Ends the recording that [`Target::prepare`] began: the traces by role.
    fn recorded(&mut self) -> Result<BTreeMap<String, Recorded>>;
    /// The process that serves the datasets, if it is one of its own.
    fn engine(&self) -> Option<i32>;
    /// Why it can no longer be used, if that is so.
    fn trouble(&self) -> Option<String>;
    /// A place on the device that all of it is on.
    fn place(&self) -> &Path;
    /// Versions worth keeping with the results.
    fn versions(&self) -> Result<BTreeMap<String, String>>;
    /// Takes it down in order and removes its files; the second time does nothing. Without this, it is taken down
    /// without regard when it is dropped.
    fn tear_down(&mut self) -> Result<()>;
}

/// Bytes of a dataset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Before compression: `logicalreferenced`.
    pub logical: u64,
    /// On disk: `referenced`.
    pub allocated: u64,
}

/// Counters of a pool, from its opening on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// The cache.
    pub arc: ArcStats,
    /// Per vdev file, by its name.
    pub vdevs: BTreeMap<String, VdevStats>,
    /// The intent logs of the roles' datasets.
    pub zils: BTreeMap<String, ZilStats>,
}

/// A trace, and when its time 0 was.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The file.
    pub trace: PathBuf,
    /// Its beginning, known to some milliseconds.
    pub began: Instant,
}

/// Makes the datasets of a trial.
pub fn create(spec: &TrialSpec, setting: &Setting) -> Result<Box<dyn Target>> {
    Ok(match &spec.target {
        TargetSpec::Pool(pool) => {
            Box::new(PoolTarget::create(pool, &spec.datasets, &spec.places, &spec.scratch, setting)?)
        }
        TargetSpec::Directory(parent) => {
            Box::new(Directory::create(parent, spec.datasets.keys().map(String::as_str))?)
        }
    })
}
