//! Determines which probe sets the running kernel permits.

use crate::error::{Error, Result};
use crate::loader;
use crate::probes::{PROBE_SETS, ProbeSet};

/// Whether the kernel permits a probe set.
#[derive(Debug)]
pub struct Support {
    /// The name of the set, as in a trace's `probe_set`.
    pub set: &'static str,
    /// The reason if the set is not permitted.
    pub refused: Option<Error>,
    /// The kinds of I/O that the set would not see on this kernel.
    pub unseen: Vec<&'static str>,
}

/// Determines which probe sets this kernel permits by loading each of them, without attaching it.
pub fn probe_support() -> Vec<Support> {
    PROBE_SETS
        .iter()
        .map(|set| match loader::try_load(set) {
            Ok(unseen) => Support { set: set.name, refused: None, unseen },
            Err(error) => Support { set: set.name, refused: Some(error), unseen: Vec::new() },
        })
        .collect()
}

/// Loads the first set that the kernel permits. If there is none, returns the error of the last one.
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
