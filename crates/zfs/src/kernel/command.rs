//! Runs `zpool` and `zfs` and parses their output.
//!
//! [`ZfsCommands`] runs the programs; each of the other modules has the types and the parsers of one kind of output. The parsers
//! are functions of the text alone.
//!
//! The programs wait in the kernel if a pool is suspended or a lock is held, and cannot be killed then. Therefore each run has a
//! deadline: the caller gets [`CommandError::TimedOut`], and a thread in the background waits for the program. If too many
//! programs are stuck, further calls fail at once with [`CommandError::Stuck`], so that a monitor that polls every few seconds does not
//! fill the process table.

pub mod dataset;
mod error;
pub mod event;
pub mod histogram;
mod number;
mod process;
pub mod property;
mod property_query;
pub mod quota;
pub mod remote;
mod runner;
pub mod send;
pub mod snapshot;
pub mod space;
pub mod status;
mod transfer;
pub mod vdev_counters;
pub mod version;

pub use error::{CommandError, MalformedOutput};
pub use runner::{CommandOptions, ZfsCommands};
pub use transfer::Transfer;
