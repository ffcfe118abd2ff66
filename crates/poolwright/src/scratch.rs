//! Creates scratch directories, and removes those that killed processes left.

use std::path::{Path, PathBuf};

use anyhow::Context;
pub use poolwright_host::Scratch;
use poolwright_host::{memory, scratch::sweep};

const PREFIX: &str = "poolwright-scratch-";
const MEMORY: &str = "/dev/shm";

/// Creates a scratch directory below `parent`; without `parent`, in the directory of [`choose`]. Removes scratch directories
/// that killed processes left in any of these.
///
/// # Errors
/// If the directory cannot be created.
pub fn create(parent: Option<&Path>, needed: u64) -> anyhow::Result<Scratch> {
    for place in [PathBuf::from(MEMORY), std::env::temp_dir()] {
        sweep(&place, PREFIX);
    }
    let parent = parent.map_or_else(|| choose(needed), Path::to_owned);
    Scratch::create(&parent, PREFIX)
        .with_context(|| format!("cannot create a scratch directory in {}", parent.display()))
}

/// `/dev/shm` if it has room for twice `needed` bytes; otherwise the temporary directory.
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
