//! Traces whose end is torn.

use std::fmt;
use std::path::PathBuf;

use poolwright_base::quoted;

use crate::{Error, Reader, Result};
use poolwright_base::units::counted;

/// The torn end of a trace whose recorder was killed, or whose copy is incomplete. `Display` returns a warning and a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornEnd {
    /// The trace.
    pub path: PathBuf,
    /// The number of bytes in the torn part.
    pub lost: u64,
    /// The number of events before the torn part.
    pub events: u64,
    /// The length of the file before the torn part, in bytes.
    pub good_len: u64,
}

impl Reader {
    /// Returns what is lost if the end of the file is torn ([`Reader::recovered`]).
    ///
    /// # Errors
    /// [`Error::NothingLeft`] if there is no event before the torn part.
    pub fn torn_end(&self) -> Result<Option<TornEnd>> {
        let Some(lost) = self.recovered() else { return Ok(None) };
        let (path, good_len) = (self.path().to_owned(), self.good_len());
        match self.len() {
            0 => Err(Error::NothingLeft { path, lost, len: good_len + lost }),
            events => Ok(Some(TornEnd { path, lost, events, good_len })),
        }
    }
}

impl fmt::Display for TornEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TornEnd { path, lost, events, good_len } = self;
        let path = quoted(&path);
        write!(
            f,
            "{path} is torn: {} after the last checkpoint {} lost; using {} before it\n\
             hint: `truncate -s {good_len} {path}` repairs the file for other programs",
            counted(*lost, "byte"),
            if *lost == 1 { "is" } else { "are" },
            counted(*events, "event"),
        )
    }
}
