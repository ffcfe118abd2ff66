//! The entries of a journal, and the state that results from them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{JournalPhase, JournalState};
use crate::work::{Direction, PlanWork};
use crate::{Error, Result};

/// The version of the format. Version 2 can have directories that move.
pub(super) const VERSION: u32 = 2;
/// The program that writes journals, and its version.
const CREATOR: &str = concat!("poolwright ", env!("CARGO_PKG_VERSION"));

/// One line of the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub(super) enum Entry {
    /// A plan is applied from here on.
    Begin { version: u32, creator: String, at: String, work: PlanWork },
    /// A phase begins.
    Phase {
        direction: Direction,
        phase: JournalPhase,
        at: String,
        /// For [`JournalPhase::Committed`]: the state of all files ([`FileScan::digest`](crate::rewrite::FileScan::digest)).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
        /// For [`JournalPhase::Stopped`]: whether this run stopped the database.
        #[serde(default)]
        stopped: bool,
        /// Whether the database that was stopped was started again.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        started: bool,
    },
    /// The snapshots were destroyed: the plan cannot be undone any more.
    Discarded { at: String },
}

impl Entry {
    /// The beginning of a plan.
    pub fn begin(work: PlanWork) -> Entry {
        // Earlier releases can read a journal without directories that move.
        let has_moves = work.datasets.iter().any(|of| !of.relocations.is_empty());
        let version = if has_moves { VERSION } else { 1 };
        Entry::Begin { version, creator: CREATOR.to_owned(), at: poolwright_base::time::now(), work }
    }

    /// The beginning of a phase.
    pub fn phase(direction: Direction, phase: JournalPhase) -> Entry {
        Entry::Phase {
            direction,
            phase,
            at: poolwright_base::time::now(),
            state: None,
            stopped: false,
            started: false,
        }
    }
}

/// Parses the lines of a journal; `None` if nothing was begun.
///
/// # Errors
/// [`Error::Journal`] for a damaged journal, or one of a later release.
pub(super) fn parse(path: &Path, text: &[u8]) -> Result<Option<JournalState>> {
    let mut state = None;
    for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let damaged = |why: String| Error::Journal { path: path.to_owned(), why };
        let entry: Entry = serde_json::from_slice(line).map_err(|why| damaged(why.to_string()))?;
        if let Entry::Begin { version, creator, .. } = &entry
            && *version > VERSION
        {
            return Err(damaged(format!("version {version} of {creator} is newer than this release")));
        }
        add(&mut state, entry);
    }
    Ok(state)
}

/// Adds an entry to the state.
pub(super) fn add(state: &mut Option<JournalState>, entry: Entry) {
    match entry {
        Entry::Begin { work, .. } => {
            *state = Some(JournalState {
                work,
                direction: Direction::Apply,
                phase: JournalPhase::Copying,
                committed: None,
                is_stopped: false,
                is_discarded: false,
            });
        }
        Entry::Phase { direction, phase, state: files, stopped, started, .. } => {
            if let Some(state) = state {
                // A database that was started by others in the meantime is stopped again in a later phase.
                let is_same = state.direction == direction;
                state.phase = if is_same { state.phase.max(phase) } else { phase };
                state.direction = direction;
                state.is_stopped = (state.is_stopped || stopped) && !started && phase != JournalPhase::Done;
                if files.is_some() {
                    state.committed = files;
                }
            }
        }
        Entry::Discarded { .. } => {
            if let Some(state) = state {
                state.is_discarded = true;
            }
        }
    }
}
