//! The objects that commands on pools and datasets print as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::user::label::FoundPool;
use crate::user::{DatasetInfo, Mounted, Scrub, Value, VdevChange};

/// A pool that was created.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreatedPool {
    /// Its name.
    pub pool: String,
    /// Its GUID, as text, because not every JSON reader represents numbers of this size.
    pub guid: String,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// Its files.
    pub files: Vec<PathBuf>,
}

/// A pool that was exported or destroyed. Its files stay.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClosedPool {
    /// Its name.
    pub pool: String,
    /// Its files.
    pub files: Vec<PathBuf>,
}

/// The pools in a directory, or the imported pool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum ImportResult {
    /// The pools whose files are in a directory; nothing was imported.
    Listed {
        /// The pools, from the labels of the files.
        pools: Vec<FoundPool>,
    },
    /// The imported pool.
    Imported {
        /// Its name.
        pool: String,
        /// Its files.
        files: Vec<PathBuf>,
        /// Its datasets and snapshots.
        datasets: Vec<DatasetInfo>,
    },
}

/// A scrub and its pool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoolScrub {
    /// The pool's name.
    pub pool: String,
    /// Progress or result.
    #[serde(flatten)]
    pub scrub: Scrub,
}

/// A pool whose vdevs were changed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangedPool {
    /// The pool's name.
    pub pool: String,
    /// Its files and its resilver.
    #[serde(flatten)]
    pub change: VdevChange,
}

/// A clone that was promoted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PromotedDataset {
    /// Its full name.
    pub dataset: String,
}

/// A dataset that was created.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CreatedDataset {
    /// Its full name.
    pub dataset: String,
    /// Property → value, for the properties that were set.
    pub settings: BTreeMap<String, String>,
}

/// Properties that were set.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangedDatasets {
    /// Full names of the datasets.
    pub datasets: Vec<String>,
    /// Property → value.
    pub settings: BTreeMap<String, String>,
}

/// A property that datasets inherit again.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InheritedProperty {
    /// The property.
    pub property: String,
    /// Full names of the datasets that changed.
    pub datasets: Vec<String>,
}

/// Values of properties.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PropertyValues {
    /// The values, by dataset in the requested order.
    pub values: Vec<Value>,
}

/// A list of datasets and snapshots.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DatasetList {
    /// The datasets and snapshots.
    pub datasets: Vec<DatasetInfo>,
}

/// Snapshots that were taken.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TakenSnapshots {
    /// Their full names: `DATASET@SNAPSHOT`.
    pub snapshots: Vec<String>,
}

/// A rollback.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CompletedRollback {
    /// Full name of the snapshot to which the dataset was rolled back.
    pub snapshot: String,
}

/// Datasets and snapshots that were destroyed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DestroyedDatasets {
    /// Their full names.
    pub destroyed: Vec<String>,
}

/// A dataset that was mounted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NewMount {
    /// Process ID of the pool's owner, which serves the mount.
    pub pid: u32,
    /// Whether the command that printed this is the owner.
    pub owner: bool,
    /// The mount.
    pub mounted: Mounted,
}
