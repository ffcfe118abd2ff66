//! Snapshots that a trial takes while its database runs.

use std::time::Duration;

use super::value::{Checked, time_ns};

/// How often all datasets of a trial get a snapshot in a measured phase, and how many of them are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRule {
    /// The interval.
    pub every: Duration,
    /// The number of the newest snapshots that are kept; `None` keeps all.
    pub keep: Option<usize>,
}

impl SnapshotRule {
    /// Parses `none`, an interval (`2s`), or an interval and a number (`2s,keep=5`).
    ///
    /// # Errors
    /// Returns why the text is none of these.
    pub fn parse(text: &str) -> Checked<Option<SnapshotRule>> {
        if text == "none" {
            return Ok(None);
        }
        let wanted = || format!("expected none, an interval such as 2s, or 2s,keep=5, not {text:?}");
        let (every, keep) = text.split_once(",keep=").map_or((text, None), |(every, keep)| (every, Some(keep)));
        let every = Duration::from_nanos(time_ns(every.to_owned()).map_err(|_| wanted())?);
        let keep = keep.map(|keep| keep.parse().ok().filter(|keep| *keep > 0).ok_or_else(wanted)).transpose()?;
        Ok(Some(SnapshotRule { every, keep }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_with_and_without_a_number() {
        let rule = |every, keep| Some(SnapshotRule { every: Duration::from_millis(every), keep });
        assert_eq!(SnapshotRule::parse("none").unwrap(), None);
        assert_eq!(SnapshotRule::parse("2s").unwrap(), rule(2000, None));
        assert_eq!(SnapshotRule::parse("500ms,keep=3").unwrap(), rule(500, Some(3)));
        for wrong in ["", "2", "2s,keep=0", "2s,keep=", "2s, keep=3", "0s", "never"] {
            assert!(SnapshotRule::parse(wrong).unwrap_err().contains("expected none"), "{wrong}");
        }
    }
}
