//! Statistics of a trace: sizes, order, alignment, syncs, latencies, working set.
//!
//! [`collect`] streams a trace once. Its memory is bounded by the number of files (some KiB each) and by the sampled
//! working sets (at most 2^19 blocks per block size); the module `working_set` describes the error of sampling.

mod collect;
mod histogram;
mod text;
mod working_set;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use collect::{Collector, collect, load_with_roles};
pub use histogram::{LatencyHistogram, Quantiles, SizeHistogram};
pub use text::render;

use crate::layout::{Role, Usage};

/// Block sizes in bytes for which the working set is counted.
pub const WORKING_SET_BLOCKS: [u64; 3] = [4096, 16384, 131072];
/// The number of equal parts of the recording in [`Stats::throughput`].
pub const THROUGHPUT_BUCKETS: usize = 60;

/// The statistics of a trace. `trace show --json` prints their serialization.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Stats {
    /// Length of the recording in seconds.
    pub duration_s: f64,
    /// The number of events in the trace.
    pub events: u64,
    /// The number of events that the recorder lost.
    pub lost_events: u64,
    /// Kinds of I/O that the recorder could not see, with counts.
    pub unseen: Vec<(String, u64)>,
    /// Unused bytes of a torn end; 0 for a complete trace.
    pub torn_bytes: u64,
    /// The program that wrote the trace.
    pub creator: String,
    /// The source of the events.
    pub probe_set: String,
    /// The recorded subject.
    pub subject: String,
    /// Name of the layout that the paths match, if any.
    pub layout: Option<String>,
    /// All files together.
    #[serde(flatten)]
    pub total: Group,
    /// Figures by role.
    pub roles: BTreeMap<Role, Group>,
    /// Figures by file, in the order of the trace's file table, including files without events.
    pub files: Vec<FileStats>,
    /// The recording in [`THROUGHPUT_BUCKETS`] equal parts.
    pub throughput: Vec<Throughput>,
    /// Block size in bytes → share of the blocks from which the working set is estimated; 1 if it is exact.
    pub working_set_sampled: BTreeMap<String, f64>,
}

/// The figures of one file.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FileStats {
    /// Its path.
    pub path: String,
    /// Its role: from the recorder, otherwise derived from its use.
    pub role: Role,
    /// Whether the role was derived from the file's use.
    #[serde(default)]
    pub role_from_use: bool,
    /// Size in bytes at the end of the recording.
    pub size: u64,
    /// The operations on the file.
    #[serde(flatten)]
    pub group: Group,
    /// The file's use, as input of [`crate::layout::by_use`].
    #[serde(skip)]
    pub usage: Usage,
}

/// The figures of a file, of a role, or of all files.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// Operations by name. The total has an entry for every name, other groups only for names that occur.
    pub ops: BTreeMap<String, u64>,
    /// Bytes transferred.
    pub bytes: Bytes,
    /// Page faults in mapped files whose pages were in the page cache. Other page faults are counted as reads.
    #[serde(default)]
    pub cached_faults: u64,
    /// Sizes of reads in bytes, by power of two.
    pub read_size_histogram: SizeHistogram,
    /// Sizes of writes in bytes, by power of two.
    pub write_size_histogram: SizeHistogram,
    /// Figures of reads.
    pub read: Direction,
    /// Figures of writes.
    pub write: Direction,
    /// Figures of syncs.
    pub sync: Sync,
    /// Distinct blocks touched, in bytes, by block size.
    pub working_set: Vec<WorkingSetSize>,
    /// Bytes written per distinct byte written (in 4K blocks); `None` if nothing was written.
    pub overwrite_factor: Option<f64>,
}

/// Bytes transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub write: u64,
}

/// Figures of reads or of writes. A field is `None` if no operation has the figure.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Direction {
    /// Sizes by how the operation was issued: `sync`, `async` (not synchronous), `direct`, `buffered`.
    pub size_histogram_by_kind: BTreeMap<String, SizeHistogram>,
    /// Share of operations that began where the same thread's last operation in this direction on this file ended.
    pub sequential: Option<f64>,
    /// Largest power of two in bytes, up to 1M, that divides 99 % of the offsets.
    pub offset_alignment: Option<u64>,
    /// Largest power of two in bytes, up to 1M, that divides 99 % of the lengths.
    pub length_alignment: Option<u64>,
    /// Latencies in nanoseconds of the operations that have one.
    pub latency_ns: Option<Quantiles>,
}

/// How data was made durable.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Sync {
    /// The number of `fsync` and `fdatasync` calls.
    pub calls: u64,
    /// The number of synchronous writes.
    pub sync_writes: u64,
    /// Mean number of writes to a file until a commit: a call, or a synchronous write, which is counted.
    pub writes_per_sync: Option<f64>,
    /// Mean bytes written to a file until a commit.
    pub bytes_per_sync: Option<f64>,
    /// Latencies of the calls and of synchronous writes in nanoseconds.
    pub latency_ns: Option<Quantiles>,
}

/// Distinct blocks of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSetSize {
    /// The block size in bytes.
    pub block: u64,
    /// Bytes in blocks that were read.
    pub read_bytes: u64,
    /// Bytes in blocks that were written.
    pub write_bytes: u64,
    /// Bytes in blocks that were read or written.
    pub bytes: u64,
}

/// One part of the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Throughput {
    /// Its start in seconds.
    pub start_s: f64,
    /// Number of reads that began in this part.
    pub reads: u64,
    /// Number of writes that began in this part.
    pub writes: u64,
    /// Number of sync calls that began in this part.
    pub syncs: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Bytes of those writes.
    pub write_bytes: u64,
}

impl Stats {
    /// Returns the file's role: from the recorder, otherwise derived from its use.
    pub fn role_of(&self, file: u32) -> Option<Role> {
        self.files.get(file as usize).map(|f| f.role)
    }
}
