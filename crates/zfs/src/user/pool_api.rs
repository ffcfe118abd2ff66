//! The requests that an owner executes, and their dispatch.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_openzfs::VdevGroup;
use serde::Serialize;

use crate::user::{
    Counters, DatasetInfo, Fault, Mounted, NewVdevFile, PoolInfo, Reply, Request, Scrub, ScrubHow, Value,
    VdevChange,
};

/// A process that has a pool open and executes requests. Names are full names, which the caller has not checked.
pub trait PoolApi: Send + Sync {
    /// Space, errors and mounts.
    ///
    /// # Errors
    /// If the engine cannot read the space, the vdevs or the scan of the pool.
    fn status(&self) -> Result<PoolInfo, Fault>;
    /// All counters.
    ///
    /// # Errors
    /// If the engine cannot read the space or the vdevs of the pool.
    fn counters(&self) -> Result<Counters, Fault>;
    /// All datasets and snapshots.
    ///
    /// # Errors
    /// If the engine cannot read the names, or if recent writes cannot be brought to disk first.
    fn list(&self) -> Result<Vec<DatasetInfo>, Fault>;
    /// Properties of a dataset; all if none is named.
    ///
    /// # Errors
    /// `ENOENT` if the dataset or snapshot does not exist; `EINVAL` for a malformed name or an unknown property; or if the
    /// engine cannot open the dataset.
    fn get(&self, dataset: &str, properties: &[String]) -> Result<Vec<Value>, Fault>;
    /// Sets properties of a dataset; if one of them is invalid, sets none.
    ///
    /// # Errors
    /// `ENOENT` if the dataset does not exist; `EINVAL` for an unknown property or an invalid value; `EROFS` if the pool is
    /// read-only; `EIO` if a file of the pool is lost; or if the engine fails.
    fn set(&self, dataset: &str, settings: &BTreeMap<String, String>) -> Result<(), Fault>;
    /// Makes a dataset inherit a property, and all below it if `recursive`. Returns the changed datasets.
    ///
    /// # Errors
    /// As [`PoolApi::set`].
    fn inherit(&self, dataset: &str, property: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Creates a dataset, and its missing parents if `parents`.
    ///
    /// # Errors
    /// `EEXIST` if the dataset exists and `parents` is not set; `ENOENT` if its parent does not exist and `parents` is not
    /// set; otherwise as [`PoolApi::set`].
    fn create(&self, dataset: &str, settings: &BTreeMap<String, String>, parents: bool) -> Result<(), Fault>;
    /// Creates a dataset with the content of a snapshot, and its missing parents if `parents`.
    ///
    /// # Errors
    /// `ENOENT` if the snapshot does not exist; `EEXIST` if the dataset exists; otherwise as [`PoolApi::create`].
    fn clone_snapshot(
        &self,
        snapshot: &str,
        dataset: &str,
        settings: &BTreeMap<String, String>,
        parents: bool,
    ) -> Result<(), Fault>;
    /// Makes a clone the owner of the snapshots up to its origin.
    ///
    /// # Errors
    /// `ENOENT` if the dataset does not exist; `EINVAL` if it is not a clone or has a snapshot of the same name as one that it
    /// would get; `EBUSY` if a program uses such a snapshot; `EROFS` or `EIO` as [`PoolApi::set`].
    fn promote(&self, dataset: &str) -> Result<(), Fault>;
    /// Takes a snapshot, also of all datasets below it if `recursive`. Returns the new snapshots.
    ///
    /// # Errors
    /// `ENOENT` if the dataset does not exist; `EEXIST` if one of the snapshots exists, and then none is taken; `EINVAL` for
    /// a malformed name; `EROFS` or `EIO` as [`PoolApi::set`].
    fn snapshot(&self, name: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Takes snapshots of several datasets in one transaction group. Returns the new snapshots.
    ///
    /// # Errors
    /// As [`PoolApi::snapshot`]; `EINVAL` if there is no name, a dataset is named twice, or the names of the snapshots differ.
    fn snapshot_all(&self, names: &[String]) -> Result<Vec<String>, Fault>;
    /// Rolls a dataset back to its latest snapshot, or to an older one if `recursive`, which destroys the newer ones.
    ///
    /// # Errors
    /// `ENOENT` if the snapshot does not exist; `EBUSY` if the dataset is being recorded or its mount cannot be rolled back;
    /// `EEXIST` if there are newer snapshots and `recursive` is not set; `EROFS` or `EIO` as [`PoolApi::set`].
    fn rollback(&self, name: &str, recursive: bool) -> Result<(), Fault>;
    /// Destroys a dataset or snapshot, and everything below it if `recursive`. Returns the destroyed names.
    ///
    /// # Errors
    /// `ENOENT` if the object does not exist; `EBUSY` if it or a dataset below it is mounted, or if there is something below
    /// it and `recursive` is not set; `EINVAL` for the root dataset of the pool; `EROFS` or `EIO` as [`PoolApi::set`].
    fn destroy(&self, name: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Starts, stops or waits for a scrub.
    ///
    /// # Errors
    /// `EBUSY` if a scrub is running that `how` does not wait for or stop; `ENOENT` if there is none to stop; `EROFS` or
    /// `EIO` as [`PoolApi::set`]; or if the engine refuses.
    fn scrub(&self, how: ScrubHow) -> Result<Scrub, Fault>;
    /// Adds vdevs.
    ///
    /// # Errors
    /// `EPERM` if their redundancy differs from that of the pool's data; `EBUSY` if a file belongs to the pool; `ENOTEMPTY` if a
    /// file is not empty; `EINVAL` for invalid groups; `EROFS` or `EIO` as [`PoolApi::set`]; or if the host or the engine
    /// refuses. The pool is then unchanged.
    fn add(&self, groups: &[VdevGroup]) -> Result<VdevChange, Fault>;
    /// Adds a new file to a vdev's mirror.
    ///
    /// # Errors
    /// `ENODEV` if the pool has no such device; `ENOTSUP` if it cannot be mirrored; `EOVERFLOW` if the file is too small;
    /// otherwise as [`PoolApi::add`].
    fn attach(&self, device: &Path, new: &NewVdevFile, wait: bool) -> Result<VdevChange, Fault>;
    /// Removes a file from its mirror.
    ///
    /// # Errors
    /// `ENODEV` if the pool has no such device; `ENOTSUP` if it is not part of a mirror; `EBUSY` if no other vdev has all of
    /// its data; `EROFS` or `EIO` as [`PoolApi::set`].
    fn detach(&self, device: &Path) -> Result<VdevChange, Fault>;
    /// Removes an available spare, a cache vdev, or a log with all files of its mirror.
    ///
    /// # Errors
    /// `ENODEV` if the pool has no such device; `ENOTSUP` if it is a vdev of another kind; `EBUSY` if a log has changes that were not
    /// replayed, or those of an encrypted dataset; `EROFS` or `EIO` as [`PoolApi::set`]; or if the engine refuses.
    fn remove(&self, device: &Path) -> Result<VdevChange, Fault>;
    /// Replaces a vdev by a new file.
    ///
    /// # Errors
    /// As [`PoolApi::attach`]; `EIO` if the resilver, for which the caller waits, has failed.
    fn replace(&self, device: &Path, new: Option<&NewVdevFile>, wait: bool) -> Result<VdevChange, Fault>;
    /// Waits until a transaction group with all earlier writes is on disk.
    ///
    /// # Errors
    /// `EIO` if a file of the pool is lost; or if the engine cannot write the transaction group.
    fn sync(&self) -> Result<(), Fault>;
    /// Adds a mount.
    ///
    /// # Errors
    /// `ENOENT` if the dataset does not exist; `EBUSY` if it is mounted; `EROFS` if the mount is writable and the pool is
    /// not; `EIO` if a file of the pool is lost; or if the mount point cannot be used or must not be covered, or the kernel
    /// refuses the mount.
    fn mount(&self, wanted: &Mounted) -> Result<Mounted, Fault>;
    /// Ends all mounts.
    ///
    /// # Errors
    /// `EBUSY` if a program uses one of the mounts, and then all of them stay; `EIO` if a file of the pool is lost.
    fn release(&self) -> Result<(), Fault>;
}

/// Executes one request.
pub fn answer(owner: &dyn PoolApi, request: &Request) -> Reply {
    let result = match request {
        Request::Status => owner.status().and_then(json),
        Request::Counters => owner.counters().and_then(json),
        Request::List => owner.list().and_then(json),
        Request::Get { dataset, properties } => owner.get(dataset, properties).and_then(json),
        Request::Set { dataset, settings } => owner.set(dataset, settings).and_then(json),
        Request::Inherit { dataset, property, recursive } => {
            owner.inherit(dataset, property, *recursive).and_then(json)
        }
        Request::Create { dataset, settings, parents } => {
            owner.create(dataset, settings, *parents).and_then(json)
        }
        Request::Clone { snapshot, dataset, settings, parents } => {
            owner.clone_snapshot(snapshot, dataset, settings, *parents).and_then(json)
        }
        Request::Promote { dataset } => owner.promote(dataset).and_then(json),
        Request::Snapshot { name, recursive } => owner.snapshot(name, *recursive).and_then(json),
        Request::SnapshotAll { names } => owner.snapshot_all(names).and_then(json),
        Request::Rollback { name, recursive } => owner.rollback(name, *recursive).and_then(json),
        Request::Destroy { name, recursive } => owner.destroy(name, *recursive).and_then(json),
        Request::Scrub { how } => owner.scrub(*how).and_then(json),
        Request::Add { groups } => owner.add(groups).and_then(json),
        Request::Attach { device, new, wait } => owner.attach(device, new, *wait).and_then(json),
        Request::Detach { device } => owner.detach(device).and_then(json),
        Request::Remove { device } => owner.remove(device).and_then(json),
        Request::Replace { device, new, wait } => owner.replace(device, new.as_ref(), *wait).and_then(json),
        Request::Sync => owner.sync().and_then(json),
        Request::Mount(wanted) => owner.mount(wanted).and_then(json),
        Request::Release => owner.release().and_then(json),
    };
    result.map_or_else(Reply::Error, Reply::Ok)
}

fn json(value: impl Serialize) -> Result<serde_json::Value, Fault> {
    serde_json::to_value(value)
        .map_err(|why| Fault::new(libc::EILSEQ, format!("cannot encode the answer as JSON: {why}")))
}
