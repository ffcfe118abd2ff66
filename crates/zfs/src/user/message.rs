//! Messages of the socket's protocol: requests, replies, and the values in them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::{DatasetStats, PoolStats, Scan, ScanState, VdevGroup, VdevHealth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::user::{Fault, FileFault};

/// A request to the owner of a pool. Names of datasets and snapshots are full names, which include the pool's.
///
/// A request that changes something fails with `EROFS` if the pool is read-only, and with `EIO` if a file of the pool is lost. The
/// engine's own errors are possible too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum Request {
    /// Returns space, errors and mounts as [`PoolInfo`].
    Status,
    /// Returns all counters as [`crate::user::Counters`].
    Counters,
    /// Returns all datasets and snapshots as a list of [`DatasetInfo`].
    List,
    /// Returns properties of a dataset, all if none is named, as a list of [`Value`]. `ENOENT` if the dataset or snapshot does not exist;
    /// `EINVAL` for a malformed name or an unknown property.
    Get {
        /// Dataset.
        dataset: String,
        /// Names of properties, including read-only ones.
        #[serde(default)]
        properties: Vec<String>,
    },
    /// Sets properties; if one of them is invalid, none. On a mounted dataset, they take effect at once. `ENOENT` if the dataset does not
    /// exist; `EINVAL` for an unknown property or an invalid value.
    Set {
        /// Dataset.
        dataset: String,
        /// Values by property, as for `zfs set`.
        settings: BTreeMap<String, String>,
    },
    /// Removes a dataset's own value of a property. Returns the list of changed datasets. Errors as for `Set`.
    Inherit {
        /// Dataset.
        dataset: String,
        /// Property.
        property: String,
        /// Whether to include all datasets below it.
        #[serde(default)]
        recursive: bool,
    },
    /// Creates a dataset. `EEXIST` if it exists and `parents` is not set; `ENOENT` if its parent does not exist and `parents` is not set;
    /// otherwise as for `Set`.
    Create {
        /// Dataset.
        dataset: String,
        /// Its own properties; the others are inherited.
        #[serde(default)]
        settings: BTreeMap<String, String>,
        /// Whether to create missing parents too, and to succeed if the dataset exists.
        #[serde(default)]
        parents: bool,
    },
    /// Creates a dataset from a snapshot; the two share their blocks. `ENOENT` if the snapshot does not exist; `EEXIST` if the
    /// dataset exists; otherwise as for `Create`.
    Clone {
        /// `DATASET@SNAPSHOT`.
        snapshot: String,
        /// The new dataset.
        dataset: String,
        /// Its own properties; the others are inherited.
        #[serde(default)]
        settings: BTreeMap<String, String>,
        /// Whether to create missing parents too.
        #[serde(default)]
        parents: bool,
    },
    /// Promotes a clone: the snapshots up to and including its origin move to it, so that the other dataset can be destroyed. `ENOENT` if
    /// it does not exist; `EINVAL` if it is not a clone or has a snapshot of the same name as one that it would get; `EBUSY` if a program
    /// uses such a snapshot.
    Promote {
        /// The clone.
        dataset: String,
    },
    /// Takes a snapshot. Returns the names. `ENOENT` if the dataset does not exist; `EEXIST` if one of the snapshots exists, and then none
    /// is taken; `EINVAL` for a malformed name.
    Snapshot {
        /// `DATASET@SNAPSHOT`.
        name: String,
        /// Whether to include all datasets below it.
        #[serde(default)]
        recursive: bool,
    },
    /// Takes snapshots of several datasets in one transaction group: all of them, or none. Returns the names. As `Snapshot`; `EINVAL` if
    /// there is no name, a dataset is named twice, or the names of the snapshots differ.
    SnapshotAll {
        /// `DATASET@SNAPSHOT` for each dataset; all have the same name of the snapshot.
        names: Vec<String>,
    },
    /// Rolls a dataset back to a snapshot. `ENOENT` if the snapshot does not exist; `EBUSY` if the dataset is being recorded or its mount
    /// cannot be rolled back; `EEXIST` if there are newer snapshots and `recursive` is not set.
    Rollback {
        /// `DATASET@SNAPSHOT`.
        name: String,
        /// Whether to destroy newer snapshots.
        #[serde(default)]
        recursive: bool,
    },
    /// Destroys a dataset or a snapshot. Returns the destroyed names. `ENOENT` if it does not exist; `EBUSY` if it or a dataset below it is
    /// mounted, or if there is something below it and `recursive` is not set; `EINVAL` for the root dataset of the pool.
    Destroy {
        /// Dataset or `DATASET@SNAPSHOT`.
        name: String,
        /// Whether to destroy everything below it too.
        #[serde(default)]
        recursive: bool,
    },
    /// Scrubs the pool: reads and checks every block. Returns [`Scrub`]. `EBUSY` if a scrub is running that `how` does not wait for or
    /// stop; `ENOENT` if there is none to stop.
    Scrub {
        /// Whether to wait, start or stop.
        #[serde(default)]
        how: ScrubHow,
    },
    /// Adds vdevs to the pool. Returns [`VdevChange`]. The pool is unchanged after an error: `EPERM` if their redundancy differs from that
    /// of the pool's data; `EBUSY` if a file belongs to the pool; `ENOTEMPTY` if a file is not empty; `EINVAL` for invalid groups.
    Add {
        /// The new vdevs, with absolute paths.
        groups: Vec<VdevGroup>,
    },
    /// Adds a new file to a vdev's mirror. Returns [`VdevChange`]. `ENODEV` if the pool has no such device; `ENOTSUP` if it cannot be
    /// mirrored; `EOVERFLOW` if the file is too small; otherwise as for `Add`.
    Attach {
        /// A file of the pool, or a GUID.
        device: PathBuf,
        /// The new file.
        #[serde(flatten)]
        new: NewVdevFile,
        /// Whether to wait for the end of the resilver. A command that opens the pool for one request always waits.
        #[serde(default)]
        wait: bool,
    },
    /// Removes a file from its mirror, or ends the use of a spare; the file stays. Returns [`VdevChange`]. `ENODEV` if the pool has no such
    /// device; `ENOTSUP` if it is not part of a mirror; `EBUSY` if no other vdev has all of its data.
    Detach {
        /// A file of the pool, or a GUID.
        device: PathBuf,
    },
    /// Removes an available spare, a cache vdev, or a log; the files stay. Returns [`VdevChange`]. `ENODEV` if the pool has no such device;
    /// `ENOTSUP` if it is a vdev of another kind; `EBUSY` if a log has changes that were not replayed, or those of an encrypted dataset.
    Remove {
        /// A file of the pool, or a GUID.
        device: PathBuf,
    },
    /// Replaces a vdev by a new file. Returns [`VdevChange`]. Errors as for `Attach`; `EIO` if the resilver, for which the caller waits, has
    /// failed.
    Replace {
        /// A file of the pool, or a GUID.
        device: PathBuf,
        /// The new file, or an available spare of the pool; `None`: at the path of the old one, which no longer exists.
        #[serde(default)]
        new: Option<NewVdevFile>,
        /// As for an attachment.
        #[serde(default)]
        wait: bool,
    },
    /// Waits until a transaction group with all earlier writes is on disk.
    Sync,
    /// Adds a mount to the owner's. Returns the actual [`Mounted`]. `ENOENT` if the dataset does not exist; `EBUSY` if it is mounted; the
    /// refusals of a mount point.
    Mount(Mounted),
    /// Ends all mounts; the owner then exports the pool and exits. `EBUSY` if a program uses one of them; then all of them stay.
    Release,
}

impl Request {
    /// Whether it can be repeated if the owner exited without an answer: it changes nothing that outlives the owner.
    pub fn is_repeatable(&self) -> bool {
        use Request::{Counters, Get, List, Mount, Status, Sync};
        matches!(self, Status | Counters | List | Get { .. } | Sync | Mount(_))
    }
}

/// A new file of a vdev.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewVdevFile {
    /// Its absolute path.
    pub file: PathBuf,
    /// Its size in bytes; `None`: that of the file that it mirrors or replaces, or of the spare that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// A pool after a change of its vdevs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VdevChange {
    /// The pool's files; those of available spares and cache vdevs last.
    pub files: Vec<PathBuf>,
    /// The resilver that the change has started.
    #[serde(default)]
    pub resilver: Option<Scan>,
    /// Whether a vdev is still being replaced. Its file belongs to the pool until the end of the resilver.
    #[serde(default)]
    pub replacing: bool,
    /// The spares that replace a vdev. Both remain until one of them is detached.
    #[serde(default)]
    pub spares_in_use: Vec<PathBuf>,
}

/// The action of a scrub request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubHow {
    /// Start a scrub or join a running one, and wait for its end.
    #[default]
    Wait,
    /// Start a scrub. A command that opens the pool for one request always waits for its end.
    Start,
    /// Stop the running scrub.
    Stop,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// The result; `null` for requests without one.
    Ok(serde_json::Value),
    /// The request failed.
    Error(Fault),
}

/// A mounted dataset with its mount options.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mounted {
    /// Dataset.
    pub dataset: String,
    /// The mount point, an absolute path.
    pub dir: PathBuf,
    /// Whether the mount is read-only.
    #[serde(default)]
    pub readonly: bool,
    /// Whether to serve files whose ACLs cannot be expressed as modes; only read-only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_acls: bool,
    /// `through`, `pages` or `writeback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caching: Option<String>,
    /// Number of threads that serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The trace into which its I/O is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Whether to mount over a system directory, files, another mount or the caller's working directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlay: bool,
    /// The requesting process according to the socket; not a part of the message.
    #[serde(skip)]
    pub caller: Option<i32>,
}

impl Mounted {
    /// A writable mount of a dataset on a directory, with the defaults of everything else.
    pub fn new(dataset: impl Into<String>, dir: impl Into<PathBuf>) -> Mounted {
        Mounted { dataset: dataset.into(), dir: dir.into(), ..Mounted::default() }
    }
}

/// The state of an open pool, reported by its owner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PoolInfo {
    /// Its name.
    pub pool: String,
    /// The process that has it open.
    pub pid: u32,
    /// Whether that process keeps it open (a mount) or has opened it only for this request.
    pub owned: bool,
    /// The time at which it was opened, in seconds since 1970. Errors are counted from then on.
    pub since_unix_s: u64,
    /// The engine's version.
    pub engine: String,
    /// Its open files.
    pub files: Vec<PathBuf>,
    /// Space and errors.
    pub stats: PoolStats,
    /// Its mounts.
    pub mounts: Vec<Mounted>,
    /// Its vdevs: the root first, each before its children, then the cache vdevs, then the hot spares.
    #[serde(default)]
    pub vdevs: Vec<VdevHealth>,
    /// The last scrub or resilver, by Poolwright or the ZFS kernel module.
    #[serde(default)]
    pub scan: Option<Scan>,
    /// Number of damaged blocks that could not be repaired.
    #[serde(default)]
    pub data_errors: u64,
    /// Files that were removed, replaced, truncated or moved since the pool was opened.
    #[serde(default)]
    pub file_faults: Vec<FileFault>,
}

/// The kind of an object in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file system.
    Filesystem,
    /// A snapshot of one.
    Snapshot,
}

/// A dataset or a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatasetInfo {
    /// Its full name.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// Its space; `None` if the engine cannot open it (`trouble` has the cause).
    pub stats: Option<DatasetStats>,
    /// Bytes that can still be written to it; `None` for a snapshot.
    pub available: Option<u64>,
    /// Its mount points.
    pub mounted_on: Vec<PathBuf>,
    /// The reason why the engine cannot open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The value of a property.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Value {
    /// Dataset.
    pub dataset: String,
    /// Property.
    pub property: String,
    /// Its value; sizes in plain bytes, ratios with two decimals.
    pub value: String,
    /// Whether the value is a size in bytes.
    pub size: bool,
    /// Its source: `default`, `local`, `inherited from DATASET`, `received`; `-` for a read-only property.
    pub source: String,
}

/// The progress or result of a scrub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scrub {
    /// The time at which it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// Its duration in seconds.
    pub seconds: f64,
    /// Allocated bytes of the pool, all of which a scrub reads.
    pub allocated: u64,
    /// Read errors during the scrub.
    pub read_errors: u64,
    /// Write errors during the scrub, from repairs.
    pub write_errors: u64,
    /// Blocks with a wrong checksum, whether repaired from another copy or not.
    pub checksum_errors: u64,
    /// Bytes repaired from another copy.
    #[serde(default)]
    pub repaired: u64,
    /// Blocks that could not be repaired.
    #[serde(default)]
    pub lost: u64,
    /// Whether it is running, has finished or was stopped.
    #[serde(default = "finished")]
    pub state: ScanState,
}

/// The state of scrubs in registry entries of older versions, which recorded only finished ones.
fn finished() -> ScanState {
    ScanState::Finished
}

impl Scrub {
    /// The number of all errors.
    pub fn errors(&self) -> u64 {
        self.read_errors + self.write_errors + self.checksum_errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_as_documented() {
        let text = r#"{"verb":"set","dataset":"tank/db","settings":{"recordsize":"16K"}}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let text = r#"{"verb":"attach","device":"/a","file":"/b","bytes":67108864,"wait":true}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let text = r#"{"verb":"add","groups":[{"layout":{"raidz":1},"usage":"data","files":[["/a",67108864],["/b",67108864]]}]}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let text = r#"{"verb":"snapshot-all","names":["tank/a@s","tank/b@s"]}"#;
        let request: Request = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        let short: Request = serde_json::from_str(r#"{"verb":"destroy","name":"tank/a"}"#).unwrap();
        assert_eq!(short, Request::Destroy { name: "tank/a".into(), recursive: false });
        assert_eq!(serde_json::to_string(&Request::Release).unwrap(), r#"{"verb":"release"}"#);
        let ok = serde_json::to_string(&Reply::Ok(serde_json::Value::Null)).unwrap();
        assert_eq!(ok, r#"{"ok":null}"#);
        let error = serde_json::to_string(&Reply::Error(Fault::new(2, "gone"))).unwrap();
        assert_eq!(error, r#"{"error":{"errno":2,"message":"gone"}}"#);
        assert!(serde_json::from_str::<Request>(r#"{"verb":"format"}"#).is_err());
    }
}
