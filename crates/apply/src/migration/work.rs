//! The datasets that move, and their new datasets.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::property::Settings;
use poolwright_zfs::kernel::command::property::SourcedValue;
use serde::{Deserialize, Serialize};

/// The direction of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the new pool.
    Forth,
    /// Back to the datasets that the database was on.
    Back,
}

/// The owner of the open pools: the kernel or the user-space engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolEngine {
    /// The kernel's OpenZFS.
    Kernel,
    /// The user-space engine, whose datasets have neither properties of mounts nor user properties.
    User,
}

/// The datasets of a database that move to another pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigrationWork {
    /// The plan's identifier.
    pub plan: String,
    /// The plan's file.
    pub path: PathBuf,
    /// The database's directory.
    pub directory: PathBuf,
    /// The dataset below which the new ones are.
    pub parent: String,
    /// The owner of both open pools.
    pub engine: PoolEngine,
    /// The directory in which datasets are mounted that are not at their final mount points.
    pub staging: PathBuf,
    /// The datasets; one that is mounted in another comes after it.
    pub moves: Vec<DatasetMove>,
}

/// A dataset that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetMove {
    /// The present dataset.
    pub source: String,
    /// Its GUID, which distinguishes it from another one with this name; missing on a pool of the user-space engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_guid: Option<String>,
    /// The dataset in the new pool.
    pub target: String,
    /// Where the database uses it.
    pub mountpoint: PathBuf,
    /// Where the one is mounted that is not in use.
    pub staging: PathBuf,
    /// The properties with which the new dataset is created.
    pub settings: Settings,
    /// The former properties of the present dataset that determine where and when it is mounted; empty on a pool of the user-space engine.
    pub mounting: BTreeMap<String, SourcedValue>,
}

impl DatasetMove {
    /// The datasets from which and to which files are copied.
    pub fn ends(&self, direction: Direction) -> (&str, &str) {
        match direction {
            Direction::Forth => (&self.source, &self.target),
            Direction::Back => (&self.target, &self.source),
        }
    }
}

impl MigrationWork {
    /// The mount points, in which the database may have files open.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.moves.iter().map(|of| of.mountpoint.clone()).collect()
    }

    /// Whether this is the dataset with the database's directory. While it is not mounted, the database does not start.
    pub fn is_holder(&self, of: &DatasetMove) -> bool {
        let holds = |of: &&DatasetMove| self.directory.starts_with(&of.mountpoint);
        self.moves.iter().filter(holds).max_by_key(|of| of.mountpoint.components().count()) == Some(of)
    }

    /// The name of the snapshots of the datasets that the database was on, taken before files are copied back.
    pub fn before_return(&self) -> String {
        format!("poolwright-{}-before-return", self.plan)
    }

    /// The name of a snapshot. Two alternate: one has what was copied last, and the other is being copied.
    pub fn snapshot(&self, which: SnapshotSlot) -> String {
        let letter = match which {
            SnapshotSlot::A => "a",
            SnapshotSlot::B => "b",
        };
        format!("poolwright-{}-move-{letter}", self.plan)
    }
}

/// One of the two snapshots of the datasets from which files are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotSlot {
    /// The first one.
    A,
    /// The second one.
    B,
}

impl SnapshotSlot {
    /// Both.
    pub const ALL: [SnapshotSlot; 2] = [SnapshotSlot::A, SnapshotSlot::B];

    /// The other one.
    pub fn other(self) -> SnapshotSlot {
        match self {
            SnapshotSlot::A => SnapshotSlot::B,
            SnapshotSlot::B => SnapshotSlot::A,
        }
    }
}

#[cfg(test)]
impl MigrationWork {
    /// For tests: datasets of `tank` that move below `fast`, each with its name, its place and its staging directory.
    pub(crate) fn example(directory: PathBuf, moves: &[(&str, PathBuf, PathBuf)]) -> MigrationWork {
        let moves = moves.iter().map(|(name, mountpoint, staging)| DatasetMove {
            source: format!("tank/{name}"),
            source_guid: None,
            target: format!("fast/{name}"),
            mountpoint: mountpoint.clone(),
            staging: staging.clone(),
            settings: Settings::new(),
            mounting: BTreeMap::new(),
        });
        MigrationWork {
            plan: "0123".to_owned(),
            path: "/plan".into(),
            directory,
            parent: "fast".to_owned(),
            engine: PoolEngine::Kernel,
            staging: "/.poolwright-0123".into(),
            moves: moves.collect(),
        }
    }
}
