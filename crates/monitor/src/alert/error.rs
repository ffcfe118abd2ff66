//! Errors of this crate.

use std::path::PathBuf;

use poolwright_host::{Exit, ReportedError, quoted};

/// The result of a fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No rule has this name.
    #[error("no such alert rule: {0}")]
    NoSuchRule(String),
    /// No threshold has this name.
    #[error("no such threshold: {0}")]
    NoSuchThreshold(String),
    /// A threshold is not a number.
    #[error("invalid threshold {0}: expected NAME=NUMBER")]
    InvalidThreshold(String),
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

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::NoSuchRule(_) | Error::NoSuchThreshold(_) | Error::InvalidThreshold(_) => Exit::Usage,
            Error::StateFile { .. } | Error::Monitor(_) => Exit::Failed,
        }
    }
}
