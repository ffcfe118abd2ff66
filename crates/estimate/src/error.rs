//! Errors that prevent an estimate. Individual files that cannot be read are counted instead.

use poolwright_base::{Exit, PathError, ReportedError};

/// The reason why there is no estimate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A given path does not exist or cannot be inspected.
    #[error(transparent)]
    Path(#[from] PathError),
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

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Invalid(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        matches!(self, Error::Path(_)).then(|| "name an existing file or directory".to_owned())
    }
}
