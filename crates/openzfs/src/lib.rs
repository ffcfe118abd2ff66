//! The OpenZFS engine in user space, behind a safe API.
//!
//! [`Engine`] starts libzpool once for each process. A [`Pool`] on files contains [`Dataset`]s, and a dataset contains
//! [`File`]s and [`Node`]s in the layout that a kernel mounts; a [`Volume`] is the data of a block device.
//! All I/O between a pool and its files passes through `csrc/kernel/file.c`, which counts it and can delay it as an emulated [`Device`]
//! would. [`codec`] runs the engine's compressors on single records, without a pool.
//!
//! A failed assertion inside libzpool ends the process. A program that must survive that runs the engine in a child process.
//!
//! The program chooses the allocator, which libzpool shares. It should be jemalloc with unprefixed symbols: glibc's
//! allocator keeps several hundred megabytes that the ARC has freed. `malloc_conf` in `csrc/engine.c` configures jemalloc.

mod c_text;
mod changed;
pub mod clock;
pub mod codec;
mod dataset;
mod device;
mod engine;
mod error;
pub mod event;
mod ffi;
mod file;
mod health;
#[cfg(feature = "fault-injection")]
pub mod inject;
mod label;
mod leaf;
pub mod limits;
mod new_files;
pub mod node;
mod pool;
#[cfg(feature = "fault-injection")]
pub mod power;
pub mod property;
mod raw_groups;
mod spares;
mod stats;
mod vdev_error;
mod vdev_spec;
mod vdevs;
mod volume;

pub use changed::{ChangedFile, FileChange};
pub use codec::{Compression, Geometry};
pub use dataset::{Access, Dataset};
pub use device::Device;
pub use engine::{Config, Engine};
pub use error::{Error, Result};
pub use file::{Blocks, File};
pub use health::{Scan, ScanKind, ScanState, VdevHealth};
pub use node::{Errno, IoFlags, Node, NodeResult};
pub use pool::{Import, Pool};
pub use stats::{ArcSizes, ArcStats, DatasetStats, IoStats, PoolStats, VdevStats, ZilStats};
pub use vdev_error::VdevError;
pub use vdev_spec::{DEFAULT_VDEV_BYTES, Layout, Spec, Use, VdevGroup};
pub use volume::Volume;
