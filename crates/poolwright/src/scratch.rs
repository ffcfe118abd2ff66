//! Where scratch directories are made, and found again if their process was killed.

use std::path::{Path, PathBuf};

use anyhow::Context;
pub use poolwright_host::Scratch;
use poolwright_host::{memory, scratch::sweep};

const PREFIX: &str = "poolwright-scratch-";
const MEMORY: &str = "/dev/shm";

/// A scratch directory below `parent`, or in memory (`/dev/shm`) if that has `needed` bytes twice over, or in the temporary
/// directory. What killed processes left in any of these is removed on the way.
pub fn create(parent: Option<&Path>, needed: u64) -> anyhow::Result<Scratch> {
    for place in [PathBuf::from(MEMORY), std::env::temp_dir()] {
        sweep(&place, PREFIX);
    }
    let parent = parent.map_or_else(|| choose(needed), Path::to_owned);
    Scratch::create(&parent, PREFIX)
        .with_context(|| format!("making a scratch directory in {}", parent.display()))
}

/// Memory (`/dev/shm`) if it has `needed` bytes twice over, or the temporary directory.
pub fn choose(needed: u64) -> PathBuf {
    let (place, twice) = (PathBuf::from(MEMORY), needed.saturating_mul(2));
    let fits = poolwright_replay::capture::check_room(&place, twice).is_ok() && available_memory() > twice;
    if fits { place } else { std::env::temp_dir() }
}

/// `MemAvailable` in bytes; 0 if it cannot be read.
pub fn available_memory() -> u64 {
    memory::available().unwrap_or(0)
}

/// `MemTotal` in bytes; 0 if it cannot be read.
pub fn total_memory() -> u64 {
    memory::total().unwrap_or(0)
}
