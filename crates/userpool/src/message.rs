//! What goes through the socket: requests, replies, and the values in them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::{DatasetStats, FileChange, PoolStats, Scan, ScanState, VdevHealth};
use serde::{Deserialize, Serialize};

use crate::Fault;

/// Something wanted of a pool. Names of datasets and snapshots are whole, with the pool's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub enum Request {
    /// Space, errors and mounts: [`PoolInfo`].
    Status,
    /// All that counts: [`crate::Counters`].
    Counters,
    /// All datasets and snapshots: a list of [`DatasetInfo`].
    List,
    /// Properties of a dataset, all if none is named: a list of [`Value`].
    Get {
        /// Dataset.
        dataset: String,
        /// Properties and figures by name.
        #[serde(default)]
        properties: Vec<String>,
    },
    /// Sets properties, at once also for a mounted dataset.
    Set {
        /// Dataset.
        dataset: String,
        /// Property → value, as `zfs set` takes them.
        settings: BTreeMap<String, String>,
    },
    /// Removes a dataset's own value of a property: a list of the datasets it was done to.
    Inherit {
        /// Dataset.
        dataset: String,
        /// Property.
        property: String,
        /// Of all datasets below it too.
        #[serde(default)]
        recursive: bool,
    },
    /// Creates a dataset.
    Create {
        /// Dataset.
        dataset: String,
        /// Its own properties; the others are inherited.
        #[serde(default)]
        settings: BTreeMap<String, String>,
        /// Make missing datasets above it too, and be content if it exists.
        #[serde(default)]
        parents: bool,
    },
    /// Takes a snapshot.
    Snapshot {
        /// `DATASET@SNAPSHOT`.
        name: String,
        /// Of all datasets below it too.
        #[serde(default)]
        recursive: bool,
    },
    /// Takes a dataset back to a snapshot.
    Rollback {
        /// `DATASET@SNAPSHOT`.
        name: String,
        /// Destroy the snapshots after it.
        #[serde(default)]
        recursive: bool,
    },
    /// Destroys a dataset or a snapshot.
    Destroy {
        /// Dataset or `DATASET@SNAPSHOT`.
        name: String,
        /// With all that is below it.
        #[serde(default)]
        recursive: bool,
    },
    /// Reads and checks every block: [`Scrub`].
    Scrub {
        /// What of it.
        #[serde(default)]
        how: ScrubHow,
    },
    /// Waits until all that was written is on disk in a transaction group.
    Sync,
    /// Adds a mount to those of the owner: [`Mounted`] as it really is.
    Mount(Mounted),
    /// Ends all mounts; the owner then exports the pool and ends. Refused if one of them is in use.
    Release,
}

/// What is wanted of a scrub.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScrubHow {
    /// Start it, or join one that is running, and wait for its end.
    #[default]
    Wait,
    /// Start it. A process that has the pool open only for this waits all the same.
    Start,
    /// End the one that is running.
    Stop,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// What was asked for; `null` where there is nothing to say.
    Ok(serde_json::Value),
    /// It did not work.
    Error(Fault),
}

/// A dataset mounted in a directory, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// Dataset.
    pub dataset: String,
    /// Where, as an absolute path.
    pub dir: PathBuf,
    /// Nothing can be written.
    #[serde(default)]
    pub readonly: bool,
    /// Files are served although their ACLs say more than their modes; only for reading.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignore_acls: bool,
    /// `through`, `pages` or `writeback`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caching: Option<String>,
    /// Threads that serve it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// The trace its I/O is recorded into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Over what is there: a system directory, files, another mount, the caller's working directory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overlay: bool,
    /// The process that asks, as the socket knows it; not a part of the request.
    #[serde(skip)]
    pub caller: Option<i32>,
}

/// A pool that is open, from inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// Its name.
    pub pool: String,
    /// The process that has it open.
    pub pid: u32,
    /// Whether that process stays (a mount), or only looked it up for this.
    pub owned: bool,
    /// Since when, in seconds since 1970. Errors are counted from then on.
    pub since_unix_s: u64,
    /// The engine's version.
    pub engine: String,
    /// Its files that are open.
    pub files: Vec<PathBuf>,
    /// Space and errors.
    pub stats: PoolStats,
    /// Where it is mounted.
    pub mounts: Vec<Mounted>,
    /// Its vdevs, the root first and each before what it is made of, then those of the cache.
    #[serde(default)]
    pub vdevs: Vec<VdevHealth>,
    /// The last scrub or resilver, whoever ran it.
    #[serde(default)]
    pub scan: Option<Scan>,
    /// Blocks that could not be read whole.
    #[serde(default)]
    pub data_errors: u64,
    /// Files that were removed, replaced, truncated or moved since the pool was opened.
    #[serde(default)]
    pub file_faults: Vec<FileFault>,
}

/// A file of an open pool that is not what it was when the pool was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFault {
    /// Its path when the pool was opened.
    pub path: PathBuf,
    /// What happened to it.
    pub change: FileChange,
    /// Whether the pool has the same data nowhere else. It then refuses all changes.
    pub lost: bool,
    /// `/proc/PID/fd/N`, through which the content can be read while the owner lives.
    pub content: PathBuf,
    /// Where it was moved to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<PathBuf>,
}

/// What a name in a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file system.
    Filesystem,
    /// A snapshot of one.
    Snapshot,
}

/// A dataset or a snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetInfo {
    /// Its whole name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its space; nothing if the engine cannot open it (`trouble` says why).
    pub stats: Option<DatasetStats>,
    /// Bytes that can still be written to it; nothing for a snapshot.
    pub available: Option<u64>,
    /// Where it is mounted.
    pub mounted_on: Vec<PathBuf>,
    /// Why it cannot be opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A property's or figure's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Value {
    /// Dataset.
    pub dataset: String,
    /// Property.
    pub property: String,
    /// Its value; sizes in plain bytes, ratios with two decimals.
    pub value: String,
    /// Whether the value is a size in bytes.
    pub size: bool,
    /// Where it comes from: `default`, `local`, `inherited from DATASET`, `received`; `-` of a figure.
    pub source: String,
}

/// A scrub, as far as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scrub {
    /// When it began, in seconds since 1970.
    pub started_unix_s: u64,
    /// How long it took.
    pub seconds: f64,
    /// Bytes of the pool that were allocated, and so were read.
    pub allocated: u64,
    /// Read errors met by it.
    pub read_errors: u64,
    /// Write errors met by it, in repairing.
    pub write_errors: u64,
    /// Blocks with a wrong checksum, whether repaired from another copy or not.
    pub checksum_errors: u64,
    /// Bytes put right from another copy.
    #[serde(default)]
    pub repaired: u64,
    /// Blocks that are lost.
    #[serde(default)]
    pub lost: u64,
    /// Whether it goes on, has ended, or was ended.
    #[serde(default = "finished")]
    pub state: ScanState,
}

/// What was written before there was a word for it had ended.
fn finished() -> ScanState {
    ScanState::Finished
}

impl Scrub {
    /// All errors met.
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
