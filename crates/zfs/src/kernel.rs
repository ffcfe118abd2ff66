//! Access to the pools of the kernel's OpenZFS, versions 2.1 to 2.3.
//!
//! There are two sources, which a monitor combines:
//!
//! - [`kstat`] reads the counters that the kernel module shows in `/proc/spl/kstat/zfs`. Reading them takes no lock of a pool,
//!   so they can be read while a pool is suspended. A captured copy of the directory can be read too.
//! - [`command`] runs `zpool` and `zfs` and parses their output. These programs can block for ever in the kernel, so each run
//!   has a deadline ([`ZfsCommands`]).
//!
//! Only [`ZfsCommands::change`] and a [`Transfer`] change a pool. Nothing here loads a kernel module, and nothing else needs root, except
//! that some distributions let only root open `/dev/zfs`. Each parser is a pure function of the text, does not panic, and reports malformed
//! input as a typed error with its line.

pub mod change;
pub mod command;
mod health;
pub mod kstat;
mod leaves;

pub use change::DatasetChange;
pub use command::{CommandError, CommandOptions, Transfer, ZfsCommands};
pub use health::HealthState;
pub use kstat::{KstatError, Kstats};
pub use leaves::PoolLeaves;
