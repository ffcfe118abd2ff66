//! Errors of this crate.

use std::path::PathBuf;

use poolwright_host::quoted;

/// The result of a fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No rule has this name.
    #[error("no such alert rule: {name}")]
    NoSuchRule {
        /// The name.
        name: String,
    },
    /// No threshold has this name.
    #[error("no such threshold: {name}")]
    NoSuchThreshold {
        /// The name.
        name: String,
    },
    /// A threshold is not a number.
    #[error("invalid threshold {text}: expected NAME=NUMBER")]
    InvalidThreshold {
        /// The text.
        text: String,
    },
    /// The state of the last check cannot be read or written.
    #[error("cannot use the state of the last check, {}: {cause}", quoted(path))]
    StateFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// The sources cannot be read.
    #[error(transparent)]
    Monitor(#[from] crate::Error),
}

impl Error {
    /// Whether the arguments are wrong.
    pub fn is_invalid(&self) -> bool {
        matches!(
            self,
            Error::NoSuchRule { .. } | Error::NoSuchThreshold { .. } | Error::InvalidThreshold { .. }
        )
    }
}
