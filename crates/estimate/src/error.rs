//! Errors that prevent an estimate. Individual files that cannot be read are counted instead.

use std::path::PathBuf;

use poolwright_host::quoted;

/// The reason why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A given path does not exist or cannot be inspected.
    #[error("cannot open {path}: {why}\nhint: give an existing file or directory", path = quoted(.path))]
    Path {
        /// The path as given.
        path: PathBuf,
        /// The host's error.
        why: std::io::Error,
    },
    /// The input has no regular file with content.
    #[error("nothing to estimate in {paths}: {found}")]
    Empty {
        /// The given paths, separated by commas.
        paths: String,
        /// What the paths contain instead.
        found: String,
    },
    /// An option is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The estimate was cancelled before the first table was complete.
    #[error("interrupted before the first figures were available")]
    Interrupted,
    /// The engine returned an error.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
