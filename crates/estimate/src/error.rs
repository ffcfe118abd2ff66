//! What can go wrong before anything is estimated; single files that cannot be read are counted, not errors.

use std::path::PathBuf;

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path that was named does not exist or cannot be looked at.
    #[error("cannot look at {path}: {why}; name a file or a directory that exists", path = .path.display())]
    Path {
        /// As given.
        path: PathBuf,
        /// What the system said.
        why: std::io::Error,
    },
    /// No regular file with any content.
    #[error("nothing to estimate in {paths}: {found}")]
    Empty {
        /// The paths as given, with commas.
        paths: String,
        /// What was there instead.
        found: String,
    },
    /// An option that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Cancelled before there was a first table.
    #[error("interrupted before the first figures were there")]
    Interrupted,
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
}

/// What this crate's functions give.
pub type Result<T> = std::result::Result<T, Error>;
