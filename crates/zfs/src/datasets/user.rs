//! Datasets of the user-space engine, through the process that has the pool mounted.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::kernel::DatasetChange;
use crate::kernel::command::property::{PropertySource, SourcedValue};
use crate::kernel::command::quota::OwnerQuota;
use crate::user::{Client, DatasetInfo, Error as UserPoolError, Kind, Mounted, PoolInfo, Request, Value};
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::unmount_command;
use serde::de::DeserializeOwned;

use super::{DatasetAdmin, DatasetSummary, SnapshotSummary, USER, mounts, pool_of};
use crate::datasets::{Error, Result};

/// Asks the owner of each pool.
#[derive(Clone, Copy, Debug)]
pub struct UserDatasets;

impl DatasetAdmin for UserDatasets {
    fn properties(&self, dataset: &str) -> Result<BTreeMap<String, SourcedValue>> {
        let request = Request::Get { dataset: dataset.to_owned(), properties: Vec::new() };
        let values: Vec<Value> = match ask(dataset, &request) {
            Err(Error::UserPool(UserPoolError::Refused(fault))) if fault.errno == NO_ENTRY => {
                return Ok(BTreeMap::new());
            }
            answer => answer?,
        };
        let sourced = |of: Value| {
            let source = PropertySource::parse(&of.source).unwrap_or(PropertySource::None);
            (of.property, SourcedValue { value: of.value, source })
        };
        Ok(values.into_iter().map(sourced).collect())
    }

    fn placed_properties(&self, dataset: &str) -> Result<BTreeMap<String, SourcedValue>> {
        self.properties(dataset)
    }

    fn user_property(&self, _: &str, _: &str) -> Result<Option<String>> {
        Ok(None)
    }

    fn tree(&self, dataset: &str) -> Result<Vec<DatasetSummary>> {
        let below = format!("{dataset}/");
        let of = list(dataset)?
            .into_iter()
            .filter(|of| of.kind == Kind::Filesystem && (of.name == dataset || of.name.starts_with(&below)));
        let mut tree: Vec<DatasetSummary> = of
            .map(|of| DatasetSummary {
                name: of.name,
                available: of.available.unwrap_or(0),
                referenced: of.stats.map_or(0, |stats| stats.referenced),
                logical_referenced: of.stats.map_or(0, |stats| stats.logicalreferenced),
            })
            .collect();
        tree.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(tree)
    }

    fn snapshots(&self, dataset: &str) -> Result<Vec<SnapshotSummary>> {
        let prefix = format!("{dataset}@");
        let of =
            list(dataset)?.into_iter().filter(|of| of.kind == Kind::Snapshot && of.name.starts_with(&prefix));
        Ok(of.map(|of| SnapshotSummary { name: of.name, clones: Vec::new(), holds: 0 }).collect())
    }

    /// The process that has the pool mounted opens it, and fails if it cannot.
    fn shows_snapshot(&self, _name: &str, _root: &Path) -> Result<bool> {
        Ok(true)
    }

    /// No program can set one through a mount of the user-space engine.
    fn project_ids(&self, _dataset: &str) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }

    /// The engine has no quotas of users.
    fn owner_quotas(&self, _dataset: &str) -> Result<Vec<OwnerQuota>> {
        Ok(Vec::new())
    }

    fn pool_problem(&self, dataset: &str) -> Result<Option<String>> {
        let status: PoolInfo = ask(dataset, &Request::Status)?;
        let pool = &status.pool;
        Ok(match (status.file_faults.first(), status.data_errors) {
            (Some(fault), _) => {
                Some(format!("a file of the pool {pool} was changed: {}", fault.path.display()))
            }
            (None, 0) => None,
            (None, errors) => Some(format!("the pool {pool} has {errors} data errors")),
        })
    }

    fn change(&self, change: &DatasetChange) -> Result<()> {
        let of = |name: &str, request: Request| ask::<serde_json::Value>(name, &request).map(|_| ());
        match change {
            DatasetChange::Set { dataset, property, value } => {
                let settings = BTreeMap::from([(property.clone(), value.clone())]);
                of(dataset, Request::Set { dataset: dataset.clone(), settings })
            }
            DatasetChange::Inherit { dataset, property, received: _ } => of(
                dataset,
                Request::Inherit { dataset: dataset.clone(), property: property.clone(), recursive: false },
            ),
            DatasetChange::Create { dataset, settings } => of(
                dataset,
                Request::Create { dataset: dataset.clone(), settings: settings.clone(), parents: false },
            ),
            DatasetChange::Mount { dataset } => Err(Error::Refused(format!(
                "{dataset} has no mount point of its own: the user-space engine has no such property"
            ))),
            DatasetChange::Rename { dataset, .. } => {
                Err(Error::Refused(format!("the user-space engine cannot rename {dataset}")))
            }
            DatasetChange::Unmount { dataset } => self.unmount(dataset),
            DatasetChange::DestroyDataset { dataset } | DatasetChange::DestroyLeaf { dataset } => {
                check_is_below_root(dataset)?;
                // A process that was killed may have unmounted it a moment ago.
                if self.mount_of(dataset)?.is_none() {
                    self.wait_until_released(dataset)?;
                }
                let recursive = matches!(change, DatasetChange::DestroyDataset { .. });
                of(dataset, Request::Destroy { name: dataset.clone(), recursive })
            }
            DatasetChange::Snapshot { name } => {
                of(name, Request::Snapshot { name: name.clone(), recursive: false })
            }
            DatasetChange::SnapshotAll { names } => {
                let first = names.first().cloned().unwrap_or_default();
                of(&first, Request::SnapshotAll { names: names.clone() })
            }
            DatasetChange::Rollback { name } => {
                of(name, Request::Rollback { name: name.clone(), recursive: false })
            }
            DatasetChange::DestroySnapshot { name } => {
                // Without this character, the request would destroy a dataset.
                if !name.contains('@') {
                    return Err(Error::Refused(format!("{name} is not a snapshot")));
                }
                of(name, Request::Destroy { name: name.clone(), recursive: false })
            }
            DatasetChange::Bookmark { name, .. } | DatasetChange::DestroyBookmark { name } => {
                Err(Error::Refused(format!("the user-space engine has no bookmarks: {name}")))
            }
            DatasetChange::Sync { pool } => of(pool, Request::Sync),
        }
    }

    fn mount_of(&self, dataset: &str) -> Result<Option<MountEntry>> {
        let found = list(dataset)?.into_iter().find(|of| of.name == dataset);
        let Some(dir) = found.and_then(|of| of.mounted_on.into_iter().next()) else { return Ok(None) };
        let mounts = mounts()?;
        Ok(mountinfo::on(&mounts, &dir).filter(|mount| mount.file_system == USER).cloned())
    }

    fn mount(&self, dataset: &str, dir: &Path) -> Result<()> {
        let mounted = Mounted::new(dataset, dir);
        ask::<serde_json::Value>(dataset, &Request::Mount(mounted)).map(|_| ())
    }
}

impl UserDatasets {
    /// Unmounts a dataset, and waits until its owner has released it.
    fn unmount(&self, dataset: &str) -> Result<()> {
        let Some(mount) = self.mount_of(dataset)? else { return Ok(()) };
        let failed = |why: String| Error::Unmount { dataset: dataset.to_owned(), why };
        let done = unmount_command(&mount.point, false).output().map_err(|why| failed(why.to_string()))?;
        if !done.status.success() {
            return Err(failed(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
        }
        self.wait_until_released(dataset)
    }

    /// Waits until the owner has released a dataset that is not mounted any more.
    fn wait_until_released(&self, dataset: &str) -> Result<()> {
        let since = Instant::now();
        while self.is_listed_as_mounted(dataset)? {
            if since.elapsed() > RELEASE_TIMEOUT {
                let why = "its owner does not release it".to_owned();
                return Err(Error::Unmount { dataset: dataset.to_owned(), why });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn is_listed_as_mounted(&self, dataset: &str) -> Result<bool> {
        Ok(list(dataset)?.into_iter().any(|of| of.name == dataset && !of.mounted_on.is_empty()))
    }
}

/// How long the owner of a pool may take to release a dataset that was unmounted.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// `ENOENT`.
const NO_ENTRY: i32 = rustix::io::Errno::NOENT.raw_os_error();

fn list(dataset: &str) -> Result<Vec<DatasetInfo>> {
    ask(dataset, &Request::List)
}

fn ask<T: DeserializeOwned>(name: &str, request: &Request) -> Result<T> {
    let pool = pool_of(name);
    match Client::connect(pool)? {
        Some(mut client) => Ok(client.ask(request)?),
        None => Err(Error::NotMounted(pool.to_owned())),
    }
}

/// Refuses to destroy a name that is not a dataset below the root of its pool: the request would destroy the root or a snapshot.
fn check_is_below_root(name: &str) -> Result<()> {
    match name.contains('/') && !name.contains('@') {
        true => Ok(()),
        false => Err(Error::Refused(format!("{name} is not a dataset below the root of its pool"))),
    }
}
