//! Everything that counts in an open pool, in one object: what `pool iostat` prints and what a monitor reads.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::{ArcStats, PoolStats, VdevHealth, VdevStats, ZilStats};
use serde::{Deserialize, Serialize};

/// A snapshot of all counters of one owner.
///
/// Counters only ever grow while `pid` and `since_unix_ns` stay the same; then the difference of two snapshots over the
/// difference of their `time_unix_ns` is a rate. When either changes, the owner is another one and all began at 0.
/// Sizes are bytes, times nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// The layout of this object; fields may be added to a version, none change their meaning.
    pub version: u32,
    /// The pool.
    pub pool: String,
    /// Its owner.
    pub pid: u32,
    /// Now, since 1970.
    pub time_unix_ns: u64,
    /// When the pool was opened, since 1970.
    pub since_unix_ns: u64,
    /// Space now, errors since it was opened.
    pub stats: PoolStats,
    /// The ARC of the whole process. `size`, `target`, `max`, `compressed_size`, `uncompressed_size` and `l2_size` are
    /// levels, the others counters.
    pub arc: ArcStats,
    /// What each vdev file moved.
    pub files: Vec<FileCounters>,
    /// The vdevs with their space and errors, the root first and each before what it is made of, then those of the cache.
    #[serde(default)]
    pub vdevs: Vec<VdevHealth>,
    /// Per dataset that is open (mounted).
    pub datasets: Vec<DatasetCounters>,
    /// Per mount.
    pub mounts: Vec<MountCounters>,
}

impl Counters {
    /// The `version` that this library writes.
    pub const VERSION: u32 = 1;
}

/// Counters of one vdev file, labels and uberblocks included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileCounters {
    /// The file.
    pub path: PathBuf,
    /// What it moved.
    #[serde(flatten)]
    pub moved: VdevStats,
}

/// Counters of one open dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetCounters {
    /// Its whole name.
    pub name: String,
    /// Its intent log.
    pub zil: ZilStats,
    /// Log records that were played back when it was opened: more than 0 after a crash.
    pub replayed: u64,
}

/// Counters of one mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountCounters {
    /// The dataset.
    pub dataset: String,
    /// Where it is mounted.
    pub dir: PathBuf,
    /// Requests of the kernel by kind, as FUSE names them in lower case: `lookup`, `read`, `write`, `fsync`, …
    pub ops: BTreeMap<String, u64>,
    /// Bytes handed to readers.
    pub read_bytes: u64,
    /// Bytes taken from writers.
    pub write_bytes: u64,
}
