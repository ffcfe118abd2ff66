//! Simulated power loss, for tests. Exists only with the cargo feature `fault-injection`.
//!
//! While it is on, every vdev write goes to a volatile write cache in memory, as in a drive without power-loss protection.
//! Reads see the cache, and only a flush makes a file's cached writes durable. At a power cut, a random subset of the unflushed
//! writes reaches the files in random order, one of them perhaps torn between two sectors. The rest is lost, and the process
//! ends at once with [`EXIT_CODE`], so that it acknowledges nothing more. Importing the pool in another process corresponds to
//! a machine whose power is back. TRIM is ignored.
//!
//! A cut is the loss of power of the simulated drives, not of the host: flushed data is in the host's page cache.
//!
//! # Under an unmodified program
//!
//! The environment variable `POOLWRIGHT_POWER` turns it on for a whole process that opens a pool, such as a mount. It is read
//! once, when the first vdev is opened:
//!
//! ```sh
//! cargo build --release -p poolwright --features fault-injection --target-dir target/fault-injection
//! POOLWRIGHT_POWER=after=1234,seed=7 target/fault-injection/release/poolwright mount tank /mnt
//! ```
//!
//! `after=N` cuts the power at the N-th write or flush of a vdev. Without it, the power is never cut; with the cache alone, `kill -9` acts
//! as a cut that no unflushed write survives. `seed=N` selects the surviving writes (default 0); `limit=BYTES` bounds the cache (default
//! 256M); `lie` turns flushes into no-ops, for tests that must fail. Unflushed writes of a process are lost when it ends, however it ends;
//! an export flushes all data that matters.

use crate::error::check;
use crate::{Result, ffi};

/// The exit code of a process whose power is cut.
pub const EXIT_CODE: i32 = ffi::PW_POWER_EXIT as i32;

/// The behaviour of the simulated drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Cut the power at this write or flush of a vdev, counted from [`start`]; 0: only by [`cut`].
    pub after_ops: u64,
    /// Selects the writes that survive that cut.
    pub seed: u64,
    /// The largest total of unflushed writes of all files in bytes. Beyond it, a file's oldest writes are written to it, as by a
    /// drive with a full cache. 0: 256 MiB.
    pub limit_bytes: u64,
    /// Acknowledge flushes without doing them, as a drive that loses acknowledged data. For tests of tests.
    pub lie: bool,
}

/// Turns the write cache on for all vdevs. If it is on, this replaces the options and resets the count, and cached writes
/// stay cached.
pub fn start(options: &Options) {
    let raw = ffi::pw_power_options {
        after_ops: options.after_ops,
        seed: options.seed,
        limit_bytes: options.limit_bytes,
        lie: u32::from(options.lie),
    };
    // SAFETY: the callee copies the struct.
    unsafe { ffi::pw_power_start(&raw) }
}

/// Writes the cache to the files and turns it off.
///
/// # Errors
/// [`crate::Error::Engine`] if the host refuses a write. The cache then stays on with the writes that failed.
pub fn stop() -> Result<()> {
    // SAFETY: the callee locks.
    check("writing the cache of", "the simulated drives", unsafe { ffi::pw_power_stop() })
}

/// Cuts the power: the process ends with [`EXIT_CODE`].
pub fn cut(seed: u64) -> ! {
    // SAFETY: takes a number, and ends the process without running exit handlers.
    unsafe { ffi::pw_power_cut(seed) }
}
