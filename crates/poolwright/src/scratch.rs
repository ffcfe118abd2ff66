//! Scratch directories: where, and nothing left behind.

use std::path::{Path, PathBuf};

use anyhow::Context;
use poolwright_tune::machine::memory_bytes;

/// A directory of this process, removed at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

const PREFIX: &str = "poolwright-scratch-";

impl Scratch {
    /// Below `parent`, or in memory (`/dev/shm`) if that has `needed` bytes twice over, or in the temporary directory.
    /// What an earlier process was killed with is removed on the way.
    pub fn create(parent: Option<&Path>, needed: u64) -> anyhow::Result<Scratch> {
        let parent = parent.map_or_else(|| choose(needed), Path::to_owned);
        remove_stale(&parent);
        let dir = parent.join(format!("{PREFIX}{}", std::process::id()));
        std::fs::create_dir(&dir)
            .with_context(|| format!("making the scratch directory {}", dir.display()))?;
        Ok(Scratch(dir))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn choose(needed: u64) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let fits = poolwright_replay::capture::check_room(&memory, needed * 2).is_ok()
        && available_memory() > needed * 2;
    if fits { memory } else { std::env::temp_dir() }
}

/// `MemAvailable` in bytes; 0 if it cannot be read.
pub fn available_memory() -> u64 {
    memory_bytes("MemAvailable")
}

/// `MemTotal` in bytes; 0 if it cannot be read.
pub fn total_memory() -> u64 {
    memory_bytes("MemTotal")
}

/// Removes scratch directories whose process is gone.
fn remove_stale(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
