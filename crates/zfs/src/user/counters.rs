//! All counters of an open pool, in one object: the input of `pool iostat` and of monitors.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::{ArcStats, PoolStats, VdevHealth, VdevStats, ZilStats};
use serde::{Deserialize, Serialize};

/// A snapshot of all counters of one owner.
///
/// Counters never decrease while `pid` and `since_unix_ns` stay the same. The difference of two snapshots divided by the
/// difference of their `time_unix_ns` is then a rate. A change of either means another owner, whose counters began at 0.
/// Sizes are bytes, times nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Version of this object. New fields do not change it; no field changes its meaning within a version.
    pub version: u32,
    /// The pool's name.
    pub pool: String,
    /// The owner's process ID.
    pub pid: u32,
    /// The time of the snapshot, since 1970.
    pub time_unix_ns: u64,
    /// The time at which the pool was opened, since 1970.
    pub since_unix_ns: u64,
    /// Current space, and errors since the pool was opened.
    pub stats: PoolStats,
    /// The ARC of the whole process. `size`, `target`, `max`, `compressed_size`, `uncompressed_size` and `l2_size` are
    /// levels, the others counters.
    pub arc: ArcStats,
    /// I/O of each vdev file.
    pub files: Vec<FileCounters>,
    /// The vdevs with their space and errors: the root first, each before its children, then the cache vdevs, then the
    /// hot spares.
    #[serde(default)]
    pub vdevs: Vec<VdevHealth>,
    /// Counters of each open (mounted) dataset.
    pub datasets: Vec<DatasetCounters>,
    /// Counters of each mount.
    pub mounts: Vec<MountCounters>,
}

impl Counters {
    /// The `version` that this library writes.
    pub const VERSION: u32 = 1;
}

/// Counters of one vdev file, labels and uberblocks included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileCounters {
    /// The file's path.
    pub path: PathBuf,
    /// Its I/O.
    #[serde(flatten)]
    pub moved: VdevStats,
}

/// Counters of one open dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetCounters {
    /// Its full name.
    pub name: String,
    /// Counters of its intent log.
    pub zil: ZilStats,
    /// Log records that were replayed when it was opened: more than 0 after a crash.
    pub replayed: u64,
}

/// Counters of one mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MountCounters {
    /// The dataset's full name.
    pub dataset: String,
    /// The mount point.
    pub dir: PathBuf,
    /// Requests of the kernel by kind, with FUSE's names in lower case: `lookup`, `read`, `write`, `fsync`, …
    pub ops: BTreeMap<String, u64>,
    /// Bytes returned to readers.
    pub read_bytes: u64,
    /// Bytes accepted from writers.
    pub write_bytes: u64,
}
