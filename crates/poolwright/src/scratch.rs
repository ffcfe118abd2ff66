//! Creates scratch directories, and removes those that killed processes left.

use std::path::Path;

use anyhow::Context;
use poolwright_base::memory;
use poolwright_base::quoted;
pub use poolwright_base::scratch::{Scratch, parent_for as choose};
use poolwright_base::scratch::{parents, sweep};

const PREFIX: &str = "poolwright-scratch-";

/// Creates a scratch directory below `parent`; without `parent`, in the directory of [`choose`]. Removes scratch directories
/// that killed processes left in any of these.
///
/// # Errors
/// If the directory cannot be created.
pub fn create(parent: Option<&Path>, needed: u64) -> anyhow::Result<Scratch> {
    for location in parents() {
        sweep(&location, PREFIX);
    }
    let parent = parent.map_or_else(|| choose(needed), Path::to_owned);
    Scratch::create(&parent, PREFIX)
        .with_context(|| format!("cannot create a scratch directory in {}", quoted(&parent)))
}

/// `MemTotal` in bytes; 0 if it cannot be read.
pub fn total_memory() -> u64 {
    memory::total().unwrap_or(0)
}
