//! The errors of a migration.

use std::io;
use std::path::{Path, PathBuf};

use poolwright_host::quoted;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a database was not moved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A step that `apply` has too: copying, comparing, stopping and starting the database.
    #[error(transparent)]
    Apply(#[from] poolwright_apply::Error),
    /// The datasets of the database were not found, or the state file cannot be used.
    #[error(transparent)]
    Backup(#[from] poolwright_backup::Error),
    /// A pool could not be read or changed.
    #[error(transparent)]
    Datasets(#[from] poolwright_zfs::datasets::Error),
    /// Going on could lose data, or change what the plan does not describe. The text can end with a line `hint: …`.
    #[error("{0}")]
    Refused(String),
    /// The host failed.
    #[error("cannot {what} {}: {cause}", quoted(path))]
    Host {
        /// The operation, a verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The host's error.
        #[source]
        cause: io::Error,
    },
    /// An error, and the state in which it left the database.
    #[error("{cause}\n{outcome}")]
    WithOutcome {
        /// The error.
        cause: Box<Error>,
        /// The state in which the database and the datasets are, for the user.
        outcome: String,
    },
}

impl Error {
    /// Whether this is a refusal for safety.
    pub fn is_refusal(&self) -> bool {
        match self {
            Error::Refused(_) => true,
            Error::Apply(cause) => cause.is_refusal(),
            Error::Backup(cause) => cause.is_refusal(),
            Error::Datasets(cause) => cause.is_refusal(),
            Error::WithOutcome { cause, .. } => cause.is_refusal(),
            Error::Host { .. } => false,
        }
    }

    /// Makes an error of the host from its cause.
    pub(crate) fn host(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |cause| Error::Host { what, path, cause }
    }

    /// Adds the state in which the run left the database.
    pub(crate) fn with_outcome(self, outcome: impl Into<String>) -> Error {
        Error::WithOutcome { cause: Box::new(self), outcome: outcome.into() }
    }
}

impl From<poolwright_dbms::Error> for Error {
    fn from(cause: poolwright_dbms::Error) -> Error {
        Error::Apply(cause.into())
    }
}

/// A refusal.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}
