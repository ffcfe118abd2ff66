//! Finding pools, and communicating with the process that has a pool open.
//!
//! A pool is a set of files; no daemon manages it. A command finds a pool by its name in the [`registry`] (or in a
//! directory, by [`label`]). Then it
//!
//! - sends a [`Request`] through the owner's private socket ([`Client`]), if a mount process owns the pool,
//! - otherwise opens the pool, executes the same request itself ([`LocalPool`]), and exports the pool again.
//!
//! [`PoolConnection`] chooses between the two. Both use the same implementation: [`LocalPool::answer`]. [`lifecycle`] creates,
//! imports, exports and destroys pools, and keeps the registry up to date. [`vdevs`] changes their vdevs.
//!
//! The protocol is one JSON object per line in each direction. A connection carries any number of requests, which are
//! answered in order:
//!
//! ```text
//! → {"verb":"set","dataset":"tank/db","settings":{"recordsize":"16K"}}
//! ← {"ok":null}
//! → {"verb":"destroy","name":"tank/none","recursive":false}
//! ← {"error":{"errno":2,"message":"tank/none: no such dataset","kind":{"name":"not_found","pool":"tank"}}}
//! ```
//!
//! A monitor reads [`Counters`]: it sends `{"verb":"counters"}` at intervals and takes differences.

mod client;
pub mod connection;
mod counters;
mod dataset_filter;
mod dirs;
mod error;
mod fault;
mod file_fault;
pub mod find;
pub mod json_output;
pub mod label;
pub mod lifecycle;
mod local_pool;
mod lock_owner;
mod message;
pub mod name;
mod nvlist;
mod pool_status;
pub mod registry;
pub mod scan_text;
mod server;
mod settings;
pub mod vdevs;

pub use client::Client;
pub use connection::{ConnectOptions, KnownPools, OnWait, Opened, OwnerWait, PoolConnection};
pub use counters::{Counters, DatasetCounters, FileCounters, MountCounters};
pub use dataset_filter::DatasetFilter;
pub use dirs::{backups_dir, readable_backups_dirs, runtime_dir, socket_path, state_dir};
pub use error::{Error, Result};
pub use fault::{Fault, FaultKind};
pub use file_fault::FileFault;
pub use local_pool::{LocalPool, Mounts, NoMounts};
pub use lock_owner::LockOwner;
pub use message::{
    DatasetInfo, Kind, Mounted, NewVdevFile, PoolInfo, Reply, Request, Scrub, ScrubHow, Value, VdevChange,
};
pub use pool_status::{PoolStatus, layout};
pub use server::{ENDING, Server};
pub use settings::parse_settings;
