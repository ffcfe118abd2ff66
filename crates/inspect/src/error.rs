//! The errors of an inspection.

use std::path::PathBuf;

use poolwright_base::{Exit, PathError, ReportedError};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why nothing was inspected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name is neither a directory nor a pool or dataset.
    #[error("{0} is neither a directory nor a pool or dataset")]
    NotFound(String),
    /// A path is not a directory.
    #[error("{} is not a directory", poolwright_base::quoted(.0))]
    NotADirectory(PathBuf),
    /// The table of mounts cannot be read.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The user interrupted the inspection.
    #[error("interrupted")]
    Interrupted,
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::NotFound(_) | Error::NotADirectory(_) => Exit::Usage,
            Error::Host(_) => Exit::Failed,
            Error::Interrupted => Exit::Interrupted,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::NotFound(_) => {
                Some("`zpool list` shows the pools of this machine, `poolwright pool list` those of the user-space engine".to_owned())
            }
            _ => None,
        }
    }
}
