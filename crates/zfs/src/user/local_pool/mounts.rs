//! The mounts of an open pool.

use poolwright_openzfs::{Dataset, Pool};

use super::Answer;
use crate::user::{Fault, MountCounters, Mounted};

/// The owner's mounts. A mounted dataset is open, and cannot be opened a second time. The defaults are those of an owner that mounts
/// nothing.
pub trait Mounts: Send + Sync {
    /// Whether this process keeps the pool open after the request.
    fn owns(&self) -> bool;
    /// All mounts, with their counters.
    fn list(&self) -> Vec<(Mounted, MountCounters)> {
        Vec::new()
    }
    /// The open handle of a mounted dataset.
    fn dataset(&self, _name: &str) -> Option<Dataset> {
        None
    }
    /// Waits for a mount of this dataset that was unmounted and is still writing.
    ///
    /// # Errors
    /// `EBUSY` if that takes too long.
    fn settle(&self, _dataset: &str) -> Result<(), Fault> {
        Ok(())
    }
    /// Mounts a dataset.
    ///
    /// # Errors
    /// If the mount is refused or fails.
    fn mount(&self, _pool: &Pool, wanted: &Mounted) -> Result<Mounted, Fault> {
        let why = "this process opens the pool for one request only";
        Err(Fault::new(libc::ENOTSUP, format!("cannot mount {}: {why}", wanted.dataset)))
    }
    /// Rolls a mounted dataset back to its latest snapshot; `None` if it is not mounted.
    fn roll_back(&self, _dataset: &str, _snapshot: &str) -> Option<Result<(), Fault>> {
        None
    }
    /// Calls `look` with a snapshot of a mounted dataset, which the mount may have open; `None` if the dataset is not
    /// mounted.
    fn with_snapshot(
        &self,
        _dataset: &str,
        _snapshot: &str,
        _look: &mut dyn FnMut(&Dataset),
    ) -> Option<Answer<()>> {
        None
    }
    /// Closes a snapshot of a mounted dataset and keeps it closed while `then` runs; `None` if the dataset is not
    /// mounted. `EBUSY` if a program uses the snapshot.
    fn without_snapshot(
        &self,
        _dataset: &str,
        _snapshot: &str,
        _then: &mut dyn FnMut() -> Answer<()>,
    ) -> Option<Answer<()>> {
        None
    }
    /// Makes every later change through a mount fail with `EIO`.
    fn refuse_changes(&self) {}
    /// Ends all mounts, or none if one of them is in use.
    ///
    /// # Errors
    /// `EBUSY`, which names the mount in use.
    fn release(&self) -> Result<(), Fault> {
        Ok(())
    }
}

/// No mounts: for a command that opens the pool for one request.
#[derive(Clone, Copy, Debug)]
pub struct NoMounts;

impl Mounts for NoMounts {
    fn owns(&self) -> bool {
        false
    }
}
