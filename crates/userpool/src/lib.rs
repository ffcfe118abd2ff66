//! Finding pools, and talking to the process that has one open.
//!
//! A pool is a set of files, and there is no daemon. Whoever wants something of a pool finds it by its name in the
//! [`registry`] (or in a directory, by [`label`]), and then:
//!
//! - if a mount process owns it, sends a [`Request`] through that process's owner-only socket ([`Client`]),
//! - else opens the pool, answers the same request itself ([`LocalPool`]), and exports the pool again.
//!
//! So there is one set of verbs and one implementation, whoever runs it: [`answer`] on an [`PoolApi`].
//!
//! The protocol is one JSON object per line in both directions, any number of requests per connection, answered in
//! order:
//!
//! ```text
//! → {"verb":"set","dataset":"tank/db","settings":{"recordsize":"16K"}}
//! ← {"ok":null}
//! → {"verb":"destroy","name":"tank/none","recursive":false}
//! ← {"error":{"errno":2,"message":"tank/none: there is no such dataset; …"}}
//! ```
//!
//! [`Counters`] is what a monitor reads: ask `{"verb":"counters"}` as often as wanted and take differences.

mod client;
mod counters;
mod dirs;
mod error;
pub mod label;
mod local_pool;
mod lock_owner;
mod message;
pub mod name;
mod nvlist;
mod pool_api;
pub mod registry;
mod server;

pub use client::Client;
pub use counters::{Counters, DatasetCounters, FileCounters, MountCounters};
pub use dirs::{runtime_dir, socket_path, state_dir};
pub use error::{Error, Fault, Result};
pub use local_pool::{LocalPool, Mounts, NoMounts};
pub use lock_owner::LockOwner;
pub use message::{DatasetInfo, FileFault, Kind, Mounted, PoolInfo, Reply, Request, Scrub, ScrubHow, Value};
pub use pool_api::{PoolApi, answer};
pub use server::{ENDING, Server};
