//! What a person looks at first in a trace: sizes, order, alignment, syncs, latencies, working set.
//!
//! [`collect`] streams a trace once. Its memory is bounded by the number of files (some KiB each) and by the sampled
//! working sets (at most 2^19 blocks per block size); the module `working_set` says what the sampling costs.

mod collect;
mod histogram;
mod text;
mod working_set;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use collect::{Collector, collect};
pub use histogram::{LatencyHistogram, Quantiles, SizeHistogram};
pub use text::render;

use crate::layout::{Role, Usage};

/// Block sizes for which the working set is counted.
pub const WORKING_SET_BLOCKS: [u64; 3] = [4096, 16384, 131072];
/// Parts into which the recording is cut for [`Stats::throughput`].
pub const THROUGHPUT_BUCKETS: usize = 60;

/// The statistics of a trace; serialized, this is the object that `trace show --json` prints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    /// Length of the recording in seconds.
    pub duration_s: f64,
    /// Events in the trace.
    pub events: u64,
    /// Events that the recorder lost.
    pub lost_events: u64,
    /// What the recorder could not see, with counts.
    pub unseen: Vec<(String, u64)>,
    /// Bytes of a torn end that were not used; 0 for a whole trace.
    pub torn_bytes: u64,
    /// Who wrote the trace.
    pub creator: String,
    /// How the events were seen.
    pub probe_set: String,
    /// What was followed.
    pub subject: String,
    /// Name of the layout that the paths suggest, if any.
    pub layout: Option<String>,
    /// All files together.
    #[serde(flatten)]
    pub total: Group,
    /// Per role.
    pub roles: BTreeMap<String, Group>,
    /// Per file, in the order of the trace's file table, also those without an event.
    pub files: Vec<FileStats>,
    /// The recording in [`THROUGHPUT_BUCKETS`] equal parts.
    pub throughput: Vec<Throughput>,
    /// Share of the blocks from which the working set is estimated, per block size; 1 where it is exact.
    pub working_set_sampled: BTreeMap<String, f64>,
}

/// One file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileStats {
    /// Its path.
    pub path: String,
    /// Its role: the recorder's, or from its use where the recorder knew none.
    pub role: String,
    /// Whether the role was guessed from the file's use.
    #[serde(default)]
    pub role_from_use: bool,
    /// Size in bytes at the end.
    pub size: u64,
    /// What was done to it.
    #[serde(flatten)]
    pub group: Group,
    /// The same, as [`crate::layout::by_use`] takes it.
    #[serde(skip)]
    pub usage: Usage,
}

/// A file, a role or the whole.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Group {
    /// Operations by name; every name is there in the total, elsewhere those that occur.
    pub ops: BTreeMap<String, u64>,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Sizes of reads by power of two.
    pub read_size_histogram: SizeHistogram,
    /// Sizes of writes by power of two.
    pub write_size_histogram: SizeHistogram,
    /// Reads in detail.
    pub read: Direction,
    /// Writes in detail.
    pub write: Direction,
    /// Syncs.
    pub sync: Sync,
    /// Distinct blocks touched, per block size.
    pub working_set: Vec<WorkingSetSize>,
    /// Bytes written per distinct byte written (in 4K blocks); `None` if nothing was written.
    pub overwrite_factor: Option<f64>,
}

/// Bytes moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// By reads.
    pub read: u64,
    /// By writes.
    pub write: u64,
}

/// Reads or writes in detail. A `None` means that there was no such operation, or none with the needed figure.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Direction {
    /// Sizes by how the operation was issued: `sync`, `async` (not synchronous), `direct`, `buffered`.
    pub size_histogram_by_kind: BTreeMap<String, SizeHistogram>,
    /// Share of operations that began where the same thread's last one of this direction on this file ended.
    pub sequential: Option<f64>,
    /// Largest power of two, up to 1M, that divides 99 % of the offsets.
    pub offset_alignment: Option<u64>,
    /// The same for lengths.
    pub length_alignment: Option<u64>,
    /// Latencies, of operations that have one.
    pub latency_ns: Option<Quantiles>,
}

/// How data was made durable.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sync {
    /// `fsync` and `fdatasync` calls.
    pub calls: u64,
    /// Writes that were synchronous themselves.
    pub sync_writes: u64,
    /// Mean number of writes between two sync calls on a file.
    pub writes_per_sync: Option<f64>,
    /// Mean bytes written between two sync calls on a file.
    pub bytes_per_sync: Option<f64>,
    /// Latencies of the calls.
    pub latency_ns: Option<Quantiles>,
}

/// Distinct blocks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingSetSize {
    /// The block size.
    pub block: u64,
    /// Bytes in blocks that were read.
    pub read_bytes: u64,
    /// Bytes in blocks that were written.
    pub write_bytes: u64,
    /// Bytes in blocks that were read or written.
    pub bytes: u64,
}

/// One part of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Its start in seconds.
    pub start_s: f64,
    /// Reads that began in it.
    pub reads: u64,
    /// Writes that began in it.
    pub writes: u64,
    /// Sync calls that began in it.
    pub syncs: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub write_bytes: u64,
}

impl Stats {
    /// The files' role: the recorder's, or what their use suggests.
    pub fn role_of(&self, file: u32) -> Option<Role> {
        self.files.get(file as usize).and_then(|f| Role::from_name(&f.role))
    }
}
