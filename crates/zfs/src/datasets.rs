//! The datasets of pools: of the kernel's OpenZFS, or of the user-space engine, behind one interface.

mod error;
mod kernel;
mod user;

use std::collections::BTreeMap;
use std::path::Path;

use crate::kernel::DatasetChange;
use crate::kernel::command::property::SourcedValue;
use crate::kernel::command::quota::OwnerQuota;
pub use crate::kernel::command::snapshot::SnapshotSummary;
use poolwright_base::mountinfo::{self, MountEntry};

pub use error::{Error, Result};
pub use kernel::KernelDatasets;
pub use user::UserDatasets;

/// The type of a kernel dataset's file system in the table of mounts.
const KERNEL: &str = "zfs";
/// The type of a mount of the user-space engine.
const USER: &str = "fuse.poolwright";

/// A dataset and its space. Numbers are bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetSummary {
    /// Its name.
    pub name: String,
    /// The space that it can still use.
    pub available: u64,
    /// The space that it refers to.
    pub referenced: u64,
    /// The same before compression.
    pub logical_referenced: u64,
}

/// Access to the datasets of pools. One conformance suite tests both implementations.
pub trait DatasetAdmin {
    /// The properties of a dataset with their sources, sizes in bytes. Empty if the dataset does not exist.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn properties(&self, dataset: &str) -> Result<BTreeMap<String, SourcedValue>>;

    /// As [`DatasetAdmin::properties`]; on the kernel, with those that determine where the dataset is mounted and that it keeps forever
    /// ([`placed`](crate::kernel::command::property::placed)).
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn placed_properties(&self, dataset: &str) -> Result<BTreeMap<String, SourcedValue>>;

    /// The value of a user property (`module:name`) that the dataset has itself; `None` if it has none. The user-space engine has no
    /// user properties.
    ///
    /// # Errors
    /// If the pool cannot be queried, or the dataset does not exist.
    fn user_property(&self, dataset: &str, property: &str) -> Result<Option<String>>;

    /// The dataset, and all file systems below it; the dataset first. Empty if the dataset does not exist.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn tree(&self, dataset: &str) -> Result<Vec<DatasetSummary>>;

    /// The snapshots of a dataset, oldest first.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn snapshots(&self, dataset: &str) -> Result<Vec<SnapshotSummary>>;

    /// Whether `root`, the directory of a snapshot in the mount of its dataset, shows the snapshot. The kernel mounts it there when it is
    /// accessed, and the directory looks empty if that fails. Keep the directory open while it is used: the kernel unmounts unused
    /// snapshots.
    ///
    /// # Errors
    /// If the table of mounts cannot be read.
    fn shows_snapshot(&self, name: &str, root: &Path) -> Result<bool>;

    /// The project IDs of the dataset's files other than 0. A copy of a file has that of its directory.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn project_ids(&self, dataset: &str) -> Result<Vec<u64>>;

    /// The quotas of users and groups in the dataset.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn owner_quotas(&self, dataset: &str) -> Result<Vec<OwnerQuota>>;

    /// Why the dataset's pool should not be changed now; `None` if it is healthy.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    fn pool_problem(&self, dataset: &str) -> Result<Option<String>>;

    /// Makes a change.
    ///
    /// # Errors
    /// If the pool refuses the change or cannot be queried.
    fn change(&self, change: &DatasetChange) -> Result<()>;

    /// Mounts a dataset on an empty directory: on the kernel, by its property `mountpoint`; on the user-space engine, in the process
    /// that owns the pool, until that process ends.
    ///
    /// # Errors
    /// As [`DatasetAdmin::change`].
    fn mount(&self, dataset: &str, dir: &Path) -> Result<()>;

    /// The mount of a dataset; `None` if it is not mounted. The names of pools of the user-space engine are unique for one user only, so
    /// their owner reports where it has mounted the dataset.
    ///
    /// # Errors
    /// If the pool or the table of mounts cannot be read.
    fn mount_of(&self, dataset: &str) -> Result<Option<MountEntry>>;
}

/// Access to the datasets of a mount; `None` for a mount of another file system.
pub fn of_mount(mount: &MountEntry) -> Option<Box<dyn DatasetAdmin>> {
    match mount.file_system.as_str() {
        KERNEL => Some(Box::new(KernelDatasets::default())),
        USER => Some(Box::new(UserDatasets)),
        _ => None,
    }
}

/// Access to the datasets of a pool, by the pool's name: of the user-space engine if a process has a pool of this name mounted, else
/// of the kernel.
///
/// # Errors
/// If the socket of the pool's owner exists but cannot be used.
pub fn of_pool(pool: &str) -> Result<Box<dyn DatasetAdmin>> {
    match is_user_pool(pool)? {
        true => Ok(Box::new(UserDatasets)),
        false => Ok(Box::new(KernelDatasets::default())),
    }
}

/// Whether a process has a pool of the user-space engine with this name mounted. A dataset that is created in it is not mounted, as
/// one of the kernel is.
///
/// # Errors
/// As [`of_pool`].
pub fn is_user_pool(pool: &str) -> Result<bool> {
    Ok(crate::user::Client::connect(pool)?.is_some())
}

/// The table of mounts.
fn mounts() -> Result<Vec<MountEntry>> {
    mountinfo::read().map_err(|failed| Error::Mounts(failed.cause))
}

/// Whether a mount is of a dataset, of the kernel or of the user-space engine.
pub fn is_dataset(mount: &MountEntry) -> bool {
    [KERNEL, USER].contains(&mount.file_system.as_str())
}

/// Whether `stat` shows the exact block size of the files of a mount: those of the kernel's datasets. A mount of the user-space engine
/// is one of FUSE.
pub fn has_exact_block_sizes(mount: &MountEntry) -> bool {
    is_kernel(mount)
}

/// Whether a mount is of a dataset of the kernel's OpenZFS.
pub fn is_kernel(mount: &MountEntry) -> bool {
    mount.file_system == KERNEL
}

/// The pool of a dataset or snapshot.
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@']).next().unwrap_or(name)
}
