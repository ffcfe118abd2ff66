//! A FUSE file system on the engine: an unmodified program works on a dataset, with no kernel module of ZFS.
//!
//! [`Mount::start`] mounts a dataset and serves it with a few threads; [`Options`] say how many, and what the kernel may
//! cache. The layers, from the kernel upwards: [`proto`] knows the protocol's bytes, `session` (and `uring`)
//! carries them between kernel and file system, `sharded_lock` stops them for a rollback, `fs` does what they ask for on the engine's nodes. `mountpoint` makes and ends the
//! mount itself.
//!
//! `unsafe` is in the transports alone: `device` and `uring`.

mod counters;
mod device;
mod error;
mod fs;
mod mount;
mod mountpoint;
mod observe;
mod options;
pub mod proto;
mod safety;
mod session;
mod sharded_lock;
mod snapshot;
mod sync;
mod uring;

pub use counters::Counters;
pub use error::{Error, Result};
pub use mount::Mount;
pub use mountpoint::{check_answer, is_dead};
pub use observe::{Observer, Operation};
pub use options::{Caching, Options};
pub use safety::{check_mount_point, refuse_working_directory};
pub use snapshot::SnapshotInUse;
