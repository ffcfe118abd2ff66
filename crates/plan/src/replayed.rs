//! The part of the recording that the trials replayed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Plan;

/// The part of the recording that the trials of a role replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayedSlice {
    /// Its begin in seconds since the start of the recording.
    pub begin_s: f64,
    /// Its end in seconds since the start of the recording.
    pub end_s: f64,
    /// Share of its operations that would have to differ to match the mixture of the whole recording, 0 to 1.
    pub distance: f64,
}

impl Plan {
    /// Returns the longest slice that trials replayed. Returns `None` if there were no trials, or if an older release
    /// made the plan. All trials begin at the same time of the recording.
    pub fn longest_slice(&self) -> Option<ReplayedSlice> {
        let all = self.roles.iter().filter_map(|role| role.replayed);
        all.max_by(|a, b| a.end_s.total_cmp(&b.end_s))
    }
}
