//! Which probe sets the running kernel permits.

use crate::error::{Error, Result};
use crate::loader;
use crate::probes::{PROBE_SETS, ProbeSet};

/// Whether the kernel permits a probe set.
#[derive(Debug)]
pub struct Support {
    /// Its name, as in a trace's `probe_set`.
    pub set: &'static str,
    /// Why not, if not.
    pub refused: Option<Error>,
    /// What it would not see on this kernel.
    pub unseen: Vec<&'static str>,
}

/// Which probe sets this kernel permits, found by loading each; nothing is attached.
pub fn probe_support() -> Vec<Support> {
    PROBE_SETS
        .iter()
        .map(|set| match loader::try_load(set) {
            Ok(unseen) => Support { set: set.name, refused: None, unseen },
            Err(error) => Support { set: set.name, refused: Some(error), unseen: Vec::new() },
        })
        .collect()
}

/// The first set that loads, or why the last one does not.
pub(crate) fn first_permitted<T>(mut load: impl FnMut(&'static ProbeSet) -> Result<T>) -> Result<T> {
    let mut refused = Error::NoBtf;
    for set in PROBE_SETS {
        match load(set) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}
