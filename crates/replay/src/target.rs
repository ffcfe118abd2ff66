//! What a replay runs on: the engine, or a directory of the host.

use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Counters of a target; differences of two are what a trial cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// What reached the devices.
    pub vdev: VdevStats,
    /// The cache; all zero for a directory.
    pub arc: ArcStats,
    /// The intent log; all zero for a directory.
    pub zil: ZilStats,
    /// User and system time of this process in seconds.
    pub cpu_seconds: f64,
}

/// Operations on the trace's files, by their number in the trace. Called from many threads at once.
///
/// `tests/targets.rs` holds every implementation against the same conformance suite.
pub trait Target: Send + Sync {
    /// Makes the file, empty; no error if it is there.
    fn create(&self, file: u32) -> Result<()>;
    /// Reads; the bytes read, fewer only at the end of the file.
    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize>;
    /// Writes all; `sync` makes it durable before it returns.
    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()>;
    /// Makes the file's writes durable.
    fn sync(&self, file: u32) -> Result<()>;
    /// Sets the length.
    fn truncate(&self, file: u32, size: u64) -> Result<()>;
    /// Frees a range.
    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()>;
    /// Removes the file.
    fn unlink(&self, file: u32) -> Result<()>;
    /// Lets what is dirty go to disk, without waiting: what the passing of a txg timeout does.
    fn kick(&self) -> Result<()>;
    /// Waits until all is on disk.
    fn settle(&self) -> Result<()>;
    /// The counters now.
    fn counters(&self) -> Result<Counters>;
    /// Bytes allocated on disk for the files, metadata of theirs included; after [`Target::settle`].
    fn allocated_bytes(&self) -> Result<u64>;
    /// The same before compression: on a directory, the files' lengths without holes that cost nothing.
    fn logical_bytes(&self) -> Result<u64>;
}
