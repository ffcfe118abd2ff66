//! The requests that an owner executes, and their dispatch.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Counters, DatasetInfo, Fault, Mounted, PoolInfo, Reply, Request, Scrub, ScrubHow, Value};

/// A process that has a pool open and executes requests. Names are full names, which the caller has not checked.
///
/// Each method fails with a [`Fault`] if the request is invalid, refused for safety, or fails in the engine.
pub trait PoolApi: Send + Sync {
    /// Space, errors and mounts.
    fn status(&self) -> Result<PoolInfo, Fault>;
    /// All counters.
    fn counters(&self) -> Result<Counters, Fault>;
    /// All datasets and snapshots.
    fn list(&self) -> Result<Vec<DatasetInfo>, Fault>;
    /// Properties of a dataset; all if none is named.
    fn get(&self, dataset: &str, properties: &[String]) -> Result<Vec<Value>, Fault>;
    /// Sets properties of a dataset; if one of them is invalid, sets none.
    fn set(&self, dataset: &str, settings: &BTreeMap<String, String>) -> Result<(), Fault>;
    /// Makes a dataset inherit a property, and all below it if `recursive`. Returns the changed datasets.
    fn inherit(&self, dataset: &str, property: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Creates a dataset, and its missing parents if `parents`.
    fn create(&self, dataset: &str, settings: &BTreeMap<String, String>, parents: bool) -> Result<(), Fault>;
    /// Takes a snapshot, also of all datasets below it if `recursive`. Returns the new snapshots.
    fn snapshot(&self, name: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Rolls a dataset back to its latest snapshot, or to an older one if `recursive`, which destroys the newer ones.
    fn rollback(&self, name: &str, recursive: bool) -> Result<(), Fault>;
    /// Destroys a dataset or snapshot, and everything below it if `recursive`. Returns the destroyed names.
    fn destroy(&self, name: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Starts, stops or waits for a scrub.
    fn scrub(&self, how: ScrubHow) -> Result<Scrub, Fault>;
    /// Waits until a transaction group with all earlier writes is on disk.
    fn sync(&self) -> Result<(), Fault>;
    /// Adds a mount.
    fn mount(&self, wanted: &Mounted) -> Result<Mounted, Fault>;
    /// Ends all mounts.
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
        Request::Snapshot { name, recursive } => owner.snapshot(name, *recursive).and_then(json),
        Request::Rollback { name, recursive } => owner.rollback(name, *recursive).and_then(json),
        Request::Destroy { name, recursive } => owner.destroy(name, *recursive).and_then(json),
        Request::Scrub { how } => owner.scrub(*how).and_then(json),
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
