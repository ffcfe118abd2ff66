//! Power loss, simulated at the seam: a testing facility, which exists only with the cargo feature `fault-injection`.
//!
//! With it on, every vdev write goes into a volatile write cache in memory, as in a drive without power-loss
//! protection; reads see the cache, and only a flush makes a file's cached writes durable. At a power cut a random
//! subset of the unflushed writes reaches the files, in random order, one of them perhaps torn between two sectors; the
//! rest is lost, and the process ends at once with [`EXIT_CODE`], so that nothing more is acknowledged. Importing the
//! pool again, in another process, is what a machine does when the power is back. TRIM is ignored meanwhile.
//!
//! A cut counts as the loss of the simulated drives' power, not of the host's: what a flush has written is in the
//! host's page cache.
//!
//! # Under an unmodified program
//!
//! `POOLWRIGHT_POWER` turns it on for a whole process that opens a pool, `poolwright mount` for one, and is looked at
//! once, when the first vdev is opened:
//!
//! ```sh
//! cargo build --release -p poolwright --features fault-injection --target-dir target/fault-injection
//! POOLWRIGHT_POWER=after=1234,seed=7 target/fault-injection/release/poolwright mount tank /mnt
//! ```
//!
//! `after=N` cuts the power at the N-th write or flush of a vdev; without it there is only the cache, and `kill -9` is
//! a cut that no unflushed write survives. `seed=N` chooses what survives (0 if left out); `limit=BYTES` bounds the
//! cache (256M); `lie` makes the flushes do nothing, for tests that must fail. What a process has written but never
//! flushed is lost at its end, however it ends; an export flushes all that matters.

use crate::error::check;
use crate::{Result, ffi};

/// How a process ends when its power is cut.
pub const EXIT_CODE: i32 = ffi::PW_POWER_EXIT as i32;

/// How the simulated drives behave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The power is cut by itself at this write or flush of a vdev, counted from [`start`]; 0: only by [`cut`].
    pub after_ops: u64,
    /// Chooses what survives that cut.
    pub seed: u64,
    /// Bytes of unflushed writes kept over all files; beyond them a file's oldest are written to it, as by a drive
    /// with a full cache. 0: 256 MiB.
    pub limit_bytes: u64,
    /// Flushes are acknowledged and do nothing: a drive that loses acknowledged data. For tests of tests.
    pub lie: bool,
}

/// Puts the write cache between all vdevs and their files from now on. If it is there already, the options are
/// replaced, the count starts again and what is cached stays.
pub fn start(options: &Options) {
    let raw = ffi::pw_power_options {
        after_ops: options.after_ops,
        seed: options.seed,
        limit_bytes: options.limit_bytes,
        lie: u32::from(options.lie),
    };
    // SAFETY: the struct has the C side's layout and is copied before the call returns.
    unsafe { ffi::pw_power_start(&raw) }
}

/// Writes all that is cached to the files, and lets vdevs write to them directly again.
///
/// # Errors
/// The host's refusal of a write; the cache then stays on with what could not be written.
pub fn stop() -> Result<()> {
    // SAFETY: a plain call that takes its own lock.
    check("writing the cache of", "the simulated drives", unsafe { ffi::pw_power_stop() })
}

/// Cuts the power now: the process ends with [`EXIT_CODE`].
pub fn cut(seed: u64) -> ! {
    // SAFETY: takes a number and ends the process, without running anything of it.
    unsafe { ffi::pw_power_cut(seed) }
}
