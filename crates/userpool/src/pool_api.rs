//! What an owner can be asked, and the way from a request to its answer.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Counters, DatasetInfo, Fault, Mounted, PoolInfo, Reply, Request, Scrub, ScrubHow, Value};

/// Whoever has a pool open and answers for it. Names are whole and were not checked by the caller.
pub trait PoolApi: Send + Sync {
    /// Space, errors and mounts.
    fn status(&self) -> Result<PoolInfo, Fault>;
    /// All that counts.
    fn counters(&self) -> Result<Counters, Fault>;
    /// All datasets and snapshots.
    fn list(&self) -> Result<Vec<DatasetInfo>, Fault>;
    /// Properties and figures of a dataset; all if none is named.
    fn get(&self, dataset: &str, properties: &[String]) -> Result<Vec<Value>, Fault>;
    /// Sets properties of a dataset, all or (if one is wrong) none.
    fn set(&self, dataset: &str, settings: &BTreeMap<String, String>) -> Result<(), Fault>;
    /// Has a dataset inherit a property, and all below it if `recursive`. Gives the datasets it was done to.
    fn inherit(&self, dataset: &str, property: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Creates a dataset, with those above it if `parents`.
    fn create(&self, dataset: &str, settings: &BTreeMap<String, String>, parents: bool) -> Result<(), Fault>;
    /// Takes a snapshot, of all below it too if `recursive`. Gives the snapshots taken.
    fn snapshot(&self, name: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Takes a dataset back to its last snapshot, or to an older one if `recursive`: those after it are destroyed.
    fn rollback(&self, name: &str, recursive: bool) -> Result<(), Fault>;
    /// Destroys a dataset or snapshot, with all below it if `recursive`. Gives what was destroyed.
    fn destroy(&self, name: &str, recursive: bool) -> Result<Vec<String>, Fault>;
    /// Reads and checks every block.
    fn scrub(&self, how: ScrubHow) -> Result<Scrub, Fault>;
    /// Waits until all that was written is on disk in a transaction group.
    fn sync(&self) -> Result<(), Fault>;
    /// Adds a mount.
    fn mount(&self, wanted: &Mounted) -> Result<Mounted, Fault>;
    /// Ends all mounts.
    fn release(&self) -> Result<(), Fault>;
}

/// Answers one request.
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
        .map_err(|why| Fault::new(libc::EILSEQ, format!("the answer cannot be written as JSON: {why}")))
}
