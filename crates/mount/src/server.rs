//! The process that owns a pool: it mounts the pool's datasets, answers requests on the pool's socket, and exports the pool
//! after the last mount has ended.
//!
//! [`mount`] adds a mount to the pool's owner. If the pool has no owner, the calling process becomes the owner, and the
//! function returns when the pool is exported. [`background`] starts such a process without a terminal, and [`LogFile`] is
//! the log of that process.

mod add;
pub mod background;
mod devices;
mod error;
mod file_watch;
mod frontend;
mod log_file;
mod mount_options;
mod mount_point;
mod mount_table;
mod open_dataset;
mod serve;

pub use crate::Caching;
pub use devices::Devices;
pub use error::{Error, Result};
pub use frontend::{Frontend, Severity};
pub use log_file::{LogFile, detach, remove_routine_logs};
pub use mount_options::{InvalidOption, parse_mount};
pub use mount_point::check_mount_point;
pub use serve::{ServeOptions, mount};
