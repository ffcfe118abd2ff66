//! The errors of a migration.

use std::io;
use std::path::Path;

use poolwright_host::{Exit, PathError, ReportedError, cannot};

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
    #[error(transparent)]
    Host(#[from] PathError),
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
        self.exit() == Exit::Refused
    }

    /// Adds the operation, a verb, and the path to an error of the host, for `map_err`.
    pub(crate) fn host<C: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(C) -> Error {
        let failed = cannot(what, path);
        move |cause| failed(cause).into()
    }

    /// Adds the state in which the run left the database.
    pub(crate) fn with_outcome(self, outcome: impl Into<String>) -> Error {
        Error::WithOutcome { cause: Box::new(self), outcome: outcome.into() }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Refused(_) => Exit::Refused,
            Error::Apply(cause) => cause.exit(),
            Error::Backup(cause) => cause.exit(),
            Error::Datasets(cause) => cause.exit(),
            Error::WithOutcome { cause, .. } => cause.exit(),
            Error::Host(_) => Exit::Failed,
        }
    }
}

/// A refusal.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}
