//! The dispatch of requests.

use serde::Serialize;

use super::{Answer, LocalPool};
use crate::user::{Fault, Reply, Request};

impl LocalPool {
    /// Executes one request. Its names are not trusted.
    pub fn answer(&self, request: &Request) -> Reply {
        let result = match request {
            Request::Status => self.status().and_then(json),
            Request::Counters => self.counters().and_then(json),
            Request::List => self.list().and_then(json),
            Request::Get { dataset, properties } => self.get(dataset, properties).and_then(json),
            Request::Set { dataset, settings } => self.set(dataset, settings).and_then(json),
            Request::Inherit { dataset, property, recursive } => {
                self.inherit(dataset, property, *recursive).and_then(json)
            }
            Request::Create { dataset, settings, parents } => {
                self.create(dataset, settings, *parents).and_then(json)
            }
            Request::Clone { snapshot, dataset, settings, parents } => {
                self.clone_snapshot(snapshot, dataset, settings, *parents).and_then(json)
            }
            Request::Promote { dataset } => self.promote(dataset).and_then(json),
            Request::Snapshot { name, recursive } => self.snapshot(name, *recursive).and_then(json),
            Request::SnapshotAll { names } => self.snapshot_all(names).and_then(json),
            Request::Rollback { name, recursive } => self.rollback(name, *recursive).and_then(json),
            Request::Destroy { name, recursive } => self.destroy(name, *recursive).and_then(json),
            Request::Scrub { how } => self.scrub(*how).and_then(json),
            Request::Add { groups } => self.add(groups).and_then(json),
            Request::Attach { device, new, wait } => self.attach(device, new, *wait).and_then(json),
            Request::Detach { device } => self.detach(device).and_then(json),
            Request::Remove { device } => self.remove(device).and_then(json),
            Request::Replace { device, new, wait } => {
                self.replace(device, new.as_ref(), *wait).and_then(json)
            }
            Request::Sync => self.sync().and_then(json),
            Request::Mount(wanted) => self.mount(wanted).and_then(json),
            Request::Release => self.release().and_then(json),
        };
        result.map_or_else(Reply::Error, Reply::Ok)
    }
}

fn json(value: impl Serialize) -> Answer<serde_json::Value> {
    serde_json::to_value(value)
        .map_err(|why| Fault::new(libc::EILSEQ, format!("cannot encode the answer as JSON: {why}")))
}
