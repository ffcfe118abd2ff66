//! A FUSE file system on the engine: unmodified programs work on a dataset without the ZFS kernel module.
//!
//! [`Mount::start`] mounts a dataset and serves it with a few threads; [`Options`] sets how many, and what the kernel may
//! cache. The layers, from the kernel upwards: [`proto`] encodes and decodes the FUSE protocol, `session` (and `uring`)
//! transports requests and answers, `sharded_lock` stops requests during a rollback, and `fs` serves requests on the
//! engine's nodes. `mountpoint` mounts and unmounts. [`TraceRecorder`] records the operations of a mount into a trace.
//!
//! Only the transports, `device` and `uring`, contain `unsafe` code.

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
pub mod server;
mod session;
mod sharded_lock;
mod snapshot;
mod sync;
mod trace_recorder;
mod uring;

pub use counters::Counters;
pub use error::{Error, Result};
pub use mount::Mount;
pub use mountpoint::check_answer;
pub use observe::{Observer, Operation};
pub use options::{Caching, Options};
pub use safety::{check_mount_point, is_dead, refuse_working_directory};
pub use snapshot::SnapshotInUse;
pub use trace_recorder::{TraceRecorder, TraceRecorderError};
