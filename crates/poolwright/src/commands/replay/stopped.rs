//! Settings whose trial was stopped.

use poolwright_replay::{Error, StoppedTrial};

use crate::commands::options::PerRole;

/// A setting whose trial was stopped. It is not tried again, and the figures of that trial are discarded.
#[derive(Debug)]
pub struct Stopped {
    /// The properties of the setting.
    pub settings: PerRole,
    /// The number of the stopped trial, from 1.
    pub trial: u32,
    /// [`Error::TooLong`] or [`Error::UsedUp`].
    pub why: Error,
}

impl Stopped {
    /// Returns the message to the user; `label` names the setting.
    pub fn sentence(&self, repeat: u32, label: &str) -> String {
        let trial = if repeat == 1 { String::new() } else { format!(" in trial {} of {repeat}", self.trial) };
        let why = match &self.why {
            Error::TooLong(limit) => format!("after {} s", limit.as_secs_f64()),
            Error::UsedUp { path, .. } => format!("because {} was nearly full", path.display()),
            other => format!("by an error ({other})"),
        };
        format!("Stopped {why}{trial}, so there is no result for {label}.")
    }

    /// Returns the entry of `--json`.
    pub fn to_entry(&self) -> StoppedTrial {
        let (settings, trial) = (self.settings.clone(), self.trial);
        let (limit_s, free_bytes) = match &self.why {
            Error::TooLong(limit) => (Some(limit.as_secs_f64()), None),
            Error::UsedUp { free, .. } => (None, Some(*free)),
            _ => (None, None),
        };
        StoppedTrial { settings, trial, limit_s, free_bytes }
    }
}
