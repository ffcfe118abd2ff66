//! The mount points of a migration's datasets: the database's directories, or the staging directory.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use poolwright_base::directory::Directory;
use poolwright_base::quoted;
use poolwright_base::{cannot, mountinfo};
use poolwright_zfs::datasets::{DatasetAdmin, is_user_pool, of_pool, pool_of};
use poolwright_zfs::kernel::DatasetChange;
use poolwright_zfs::kernel::command::property::{PropertySource, SourcedValue};

use crate::error::refused;
use crate::migration::work::{DatasetMove, PoolEngine};
use crate::{Result, RunObserver};

/// The property with the directory on which a dataset is mounted.
pub(crate) const MOUNTPOINT: &str = "mountpoint";
/// The property that determines whether it is mounted when its pool is imported.
pub(crate) const CANMOUNT: &str = "canmount";

/// A dataset, with access to its pool.
pub(crate) struct PlacedDataset<'a> {
    pub name: &'a str,
    pub admin: Box<dyn DatasetAdmin>,
    pub engine: PoolEngine,
}

impl<'a> PlacedDataset<'a> {
    pub fn open(name: &'a str) -> Result<PlacedDataset<'a>> {
        let pool = pool_of(name);
        let engine = if is_user_pool(pool)? { PoolEngine::User } else { PoolEngine::Kernel };
        Ok(PlacedDataset { name, admin: of_pool(pool)?, engine })
    }

    pub fn exists(&self) -> Result<bool> {
        Ok(!self.admin.properties(self.name)?.is_empty())
    }

    /// Whether it is mounted on a directory.
    pub fn is_on(&self, dir: &Path) -> Result<bool> {
        Ok(self.admin.mount_of(self.name)?.is_some_and(|mount| mount.point == dir))
    }

    pub fn is_mounted(&self) -> Result<bool> {
        Ok(self.admin.mount_of(self.name)?.is_some())
    }

    /// Makes a change and reports it.
    pub fn change(&self, change: &DatasetChange, observer: &mut dyn RunObserver) -> Result<()> {
        observer.command(&change.to_string());
        Ok(self.admin.change(change)?)
    }

    /// Unmounts it, if it is mounted.
    pub fn unmount(&self, observer: &mut dyn RunObserver) -> Result<()> {
        match self.is_mounted()? {
            false => Ok(()),
            true => self.change(&DatasetChange::Unmount { dataset: self.name.to_owned() }, observer),
        }
    }

    /// Mounts it according to its properties, which must name this directory; on a pool of the user-space engine, on this directory.
    pub fn mount(&self, dir: &Path, observer: &mut dyn RunObserver) -> Result<()> {
        if self.is_on(dir)? {
            return Ok(());
        }
        self.check_free(dir)?;
        // The owner of the directory above could have put a link there.
        if fs::symlink_metadata(dir).is_ok_and(|meta| !meta.is_dir()) {
            return refused(format!(
                "{} is not a directory, so {} is not mounted there",
                quoted(&dir),
                self.name
            ));
        }
        match self.engine {
            PoolEngine::User => {
                self.unmount(observer)?;
                make_dir(dir)?;
                self.admin.mount(self.name, dir)?;
            }
            PoolEngine::Kernel => {
                self.change(&DatasetChange::Mount { dataset: self.name.to_owned() }, observer)?
            }
        }
        if self.is_on(dir)? {
            return Ok(());
        }
        self.unmount(observer)?;
        refused(format!("{} is not mounted on {}\nhint: mount it", self.name, quoted(&dir)))
    }

    /// Refuses a directory on which something else is mounted: `zfs` would mount over it.
    pub fn check_free(&self, dir: &Path) -> Result<()> {
        let mounts = mountinfo::read()?;
        match mountinfo::on(&mounts, dir).filter(|mount| mount.source.to_string_lossy() != self.name) {
            Some(other) => refused(format!(
                "{} is mounted on {}, the place of {}\nhint: unmount it, or undo what has mounted it there",
                other.source.to_string_lossy(),
                quoted(&dir),
                self.name
            )),
            None => Ok(()),
        }
    }

    fn set(&self, property: &str, value: &str, observer: &mut dyn RunObserver) -> Result<()> {
        if self.engine == PoolEngine::User {
            return Ok(());
        }
        let present = self.admin.placed_properties(self.name)?.remove(property);
        if present.is_some_and(|of| of.value == value && of.source == PropertySource::Local) {
            return Ok(());
        }
        let (dataset, property, value) = (self.name.to_owned(), property.to_owned(), value.to_owned());
        self.change(&DatasetChange::Set { dataset, property, value }, observer)
    }

    /// Keeps it from being mounted when its pool is imported.
    pub fn hold_back(&self, observer: &mut dyn RunObserver) -> Result<()> {
        self.set(CANMOUNT, "noauto", observer)
    }

    /// Gives it a mount point in the staging directory. It must not be mounted.
    pub fn park(&self, staging: &Path, observer: &mut dyn RunObserver) -> Result<()> {
        self.set(MOUNTPOINT, &staging.to_string_lossy(), observer)
    }

    /// Mounts a dataset of the new pool on its final mount point.
    pub fn settle(&self, of: &DatasetMove, observer: &mut dyn RunObserver) -> Result<()> {
        self.check_free(&of.mountpoint)?;
        self.set(MOUNTPOINT, &of.mountpoint.to_string_lossy(), observer)?;
        self.mount(&of.mountpoint, observer)
    }

    /// Whether the properties that determine where and when it is mounted are as before.
    pub fn is_restored(&self, of: &DatasetMove) -> Result<bool> {
        let present = self.admin.placed_properties(self.name)?;
        Ok(of.mounting.iter().all(|(property, before)| present.get(property) == Some(before)))
    }

    /// Allows a dataset of the new pool to be mounted when its pool is imported, if the dataset that it replaces was.
    pub fn release(&self, of: &DatasetMove, observer: &mut dyn RunObserver) -> Result<()> {
        let value = of.mounting.get(CANMOUNT).map_or("on", |before| before.value.as_str());
        self.set(CANMOUNT, value, observer)
    }

    /// Gives a property of the dataset that the database was on the value and the source from before.
    pub fn restore(&self, of: &DatasetMove, property: &str, observer: &mut dyn RunObserver) -> Result<()> {
        let Some(before) = of.mounting.get(property) else { return Ok(()) };
        if self.admin.placed_properties(self.name)?.get(property) == Some(before) {
            return Ok(());
        }
        let (dataset, name) = (self.name.to_owned(), property.to_owned());
        let change = match &before.source {
            PropertySource::Local => {
                DatasetChange::Set { dataset, property: name, value: before.value.clone() }
            }
            // A property that is never inherited returns to its default only this way.
            source => {
                let received = property == CANMOUNT || *source == PropertySource::Received;
                DatasetChange::Inherit { dataset, property: name, received }
            }
        };
        self.change(&change, observer)
    }

    /// The properties that determine where and when it is mounted.
    pub fn mounting(&self) -> Result<BTreeMap<String, SourcedValue>> {
        let mut all = self.admin.placed_properties(self.name)?;
        all.retain(|property, _| [MOUNTPOINT, CANMOUNT].contains(&property.as_str()));
        match (self.engine, all.len()) {
            (PoolEngine::User, _) => Ok(BTreeMap::new()),
            (PoolEngine::Kernel, 2) => Ok(all),
            (PoolEngine::Kernel, _) => refused(format!("{} is not a file system", self.name)),
        }
    }

    /// Its GUID, if it has one.
    pub fn guid(&self) -> Result<Option<String>> {
        Ok(self.admin.placed_properties(self.name)?.remove("guid").map(|of| of.value))
    }
}

/// Creates a directory for a mount, private until something is mounted on it. The directory above can belong to the database's user.
pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    let (parent, name) = above(dir)?;
    match Directory::open_named(parent).and_then(|parent| parent.create_directory(name)) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => Ok(made.map(drop).map_err(cannot("create", dir))?),
    }
}

/// Removes an empty directory that may not exist.
pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    let (parent, name) = above(dir)?;
    match Directory::open_named(parent).and_then(|parent| parent.remove_directory(name)) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(()),
        removed => Ok(removed.map_err(cannot("remove", dir))?),
    }
}

/// The directory that has a directory, and its name there.
fn above(dir: &Path) -> Result<(&Path, &OsStr)> {
    match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => refused(format!("cannot mount on {}", quoted(dir))),
    }
}
