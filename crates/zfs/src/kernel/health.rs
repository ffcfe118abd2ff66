//! The state of a pool or vdev.

use std::fmt;

/// The state of a pool or vdev, as `zpool` spells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HealthState {
    /// Works without restriction.
    Online,
    /// Works with reduced redundancy.
    Degraded,
    /// Out of use because of errors, or by request.
    Faulted,
    /// Taken offline by the administrator.
    Offline,
    /// Cannot be opened.
    Unavailable,
    /// The device was removed while the system ran.
    Removed,
    /// Of a pool: all I/O waits, because too many devices failed.
    Suspended,
    /// Of a spare: ready for use.
    Available,
    /// Of a spare: replaces another device.
    InUse,
    /// An unknown state.
    Other(String),
}

impl HealthState {
    /// The known states, each with its spelling.
    const WORDS: [(&'static str, HealthState); 9] = [
        ("ONLINE", HealthState::Online),
        ("DEGRADED", HealthState::Degraded),
        ("FAULTED", HealthState::Faulted),
        ("OFFLINE", HealthState::Offline),
        ("UNAVAIL", HealthState::Unavailable),
        ("REMOVED", HealthState::Removed),
        ("SUSPENDED", HealthState::Suspended),
        ("AVAIL", HealthState::Available),
        ("INUSE", HealthState::InUse),
    ];

    /// Parses the spelling of `zpool` and of the kstat `state`.
    pub fn parse(word: &str) -> HealthState {
        let known = Self::WORDS.iter().find(|(spelling, _)| *spelling == word);
        known.map_or_else(|| HealthState::Other(word.to_owned()), |(_, state)| state.clone())
    }

    /// The spelling of `zpool`: `ONLINE`, `UNAVAIL`, …
    pub fn as_str(&self) -> &str {
        if let HealthState::Other(word) = self {
            return word;
        }
        Self::WORDS.iter().find(|(_, state)| state == self).map_or("UNKNOWN", |(word, _)| word)
    }
}

impl fmt::Display for HealthState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_keeps_its_spelling() {
        for (word, state) in HealthState::WORDS {
            assert_eq!(HealthState::parse(word), state);
            assert_eq!(state.to_string(), word);
        }
        assert_eq!(HealthState::parse("SPLIT"), HealthState::Other("SPLIT".to_owned()));
        assert_eq!(HealthState::parse("SPLIT").as_str(), "SPLIT");
    }
}
