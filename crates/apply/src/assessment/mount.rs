//! The mounts of a database's datasets.

use std::os::unix::fs::MetadataExt as _;

use poolwright_base::device::Device;
use poolwright_base::directory::Directory;
use poolwright_base::mountinfo::MountEntry;
use poolwright_base::{cannot, quoted};
use poolwright_zfs::datasets::DatasetAdmin;

use crate::Result;
use crate::error::refused;

/// Refuses a dataset whose pool is not healthy.
///
/// # Errors
/// A refusal; the errors of the pool.
pub fn check_healthy(admin: &dyn DatasetAdmin, dataset: &str) -> Result<()> {
    match admin.pool_problem(dataset)? {
        Some(problem) => refused(format!("{problem}\nhint: repair the pool first")),
        None => Ok(()),
    }
}

/// Access to the datasets of a mount.
///
/// # Errors
/// A refusal for a mount of another file system.
pub fn admin_of(mount: &MountEntry) -> Result<Box<dyn DatasetAdmin>> {
    poolwright_zfs::datasets::of_mount(mount).map_or_else(
        || {
            refused(format!(
                "{} is on {}, not on a dataset of OpenZFS",
                quoted(&mount.point),
                mount.describe()
            ))
        },
        Ok,
    )
}

/// Refuses a dataset that is mounted in two places, or of which a directory is: through the other one, files could be in use, and its datasets
/// could not be exchanged.
///
/// # Errors
/// A refusal.
pub fn check_mounted_once(mounts: &[MountEntry], mount: &MountEntry) -> Result<()> {
    match mounts.iter().find(|of| of.device == mount.device && of.point != mount.point) {
        None => Ok(()),
        Some(twice) => refused(format!(
            "{} is also mounted on {}, through which files could be in use\nhint: unmount that mount",
            mount.source.to_string_lossy(),
            quoted(&twice.point)
        )),
    }
}

/// Opens the directory on which a dataset is mounted. Its path can lead through directories of the database's owner, so the dataset is
/// compared. While it is open, the dataset cannot be unmounted.
///
/// # Errors
/// A refusal if the path leads elsewhere; the host's errors.
pub fn open_mount(mount: &MountEntry) -> Result<Directory> {
    let dir = Directory::open(&mount.point).map_err(cannot("open", &mount.point))?;
    let meta = dir.metadata().map_err(cannot("inspect", &mount.point))?;
    if Device::from_raw(meta.dev()) == mount.device {
        return Ok(dir);
    }
    refused(format!("{} is not the directory on which {} is mounted", quoted(&mount.point), mount.describe()))
}
