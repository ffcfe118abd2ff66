//! The target of a replay: the engine, a directory of the host, or datasets of the kernel.

use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;

/// Counters of a target. The difference of two readings is the cost of a trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Device I/O.
    pub vdev: VdevStats,
    /// Cache counters; zero for a directory.
    pub arc: ArcStats,
    /// Intent log counters; zero for a directory.
    pub zil: ZilStats,
    /// User and system time of this process in seconds; on a pool of the kernel, also that of the kernel's threads.
    pub cpu_seconds: f64,
}

/// Operations on the trace's files, which are identified by their number in the trace. Many threads call them at once.
///
/// `tests/targets.rs` tests every implementation with the same conformance suite.
pub trait Target: Send + Sync {
    /// Creates an empty file; does nothing if it exists.
    ///
    /// # Errors
    /// If the engine or the host cannot create or open the file.
    fn create(&self, file: u32) -> Result<()>;
    /// Reads at `offset` (in bytes) and returns the number of bytes read, fewer than requested only at the end of the
    /// file.
    ///
    /// # Errors
    /// If the engine or the host cannot open or read the file.
    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize>;
    /// Writes all of `buf`. With `sync`, the data is durable when the call returns.
    ///
    /// # Errors
    /// If the engine or the host cannot open the file or write all of `buf`, for example because no space is left.
    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()>;
    /// Makes the file's writes durable.
    ///
    /// # Errors
    /// If the engine or the host cannot make the data durable.
    fn sync(&self, file: u32) -> Result<()>;
    /// Sets the length in bytes.
    ///
    /// # Errors
    /// If the engine or the host cannot open the file or change its length.
    fn truncate(&self, file: u32, size: u64) -> Result<()>;
    /// Frees a range given in bytes.
    ///
    /// # Errors
    /// If the engine or the host cannot open the file or free the range.
    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()>;
    /// Removes the file.
    ///
    /// # Errors
    /// If the engine or the host cannot remove the file.
    fn unlink(&self, file: u32) -> Result<()>;
    /// Starts writing dirty data to disk without waiting, as the engine does after a txg timeout.
    ///
    /// # Errors
    /// If the engine cannot start a transaction group.
    fn start_txg(&self) -> Result<()>;
    /// Waits until all data is on disk.
    ///
    /// # Errors
    /// If the engine or the host cannot write the data.
    fn settle(&self) -> Result<()>;
    /// Returns the current counters.
    ///
    /// # Errors
    /// If the target cannot read its counters; both present targets always can.
    fn counters(&self) -> Result<Counters>;
    /// Returns the bytes allocated on disk for the files, including their metadata. Call [`Target::settle`] first.
    ///
    /// # Errors
    /// If the engine cannot read the space of a dataset, or the host cannot list the directory.
    fn allocated_bytes(&self) -> Result<u64>;
    /// Returns the bytes of the files before compression; in a directory, the allocated bytes.
    ///
    /// # Errors
    /// As [`Target::allocated_bytes`].
    fn logical_bytes(&self) -> Result<u64>;
}
