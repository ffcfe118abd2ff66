//! The errors of applying and undoing a plan.

use std::io;
use std::path::{Path, PathBuf};

use poolwright_host::quoted;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a plan was not applied or not undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan cannot be read or must not be followed.
    #[error(transparent)]
    Plan(#[from] poolwright_tune::plan::PlanFileError),
    /// A pool could not be read or changed.
    #[error(transparent)]
    Datasets(#[from] poolwright_datasets::Error),
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
    /// The journal cannot be understood.
    #[error("the journal {} is damaged: {why}", quoted(path))]
    Journal {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// A copy differs from its original after it was written.
    #[error("the copy of {} differs {what}", quoted(path))]
    Different {
        /// The original: a file or directory.
        path: PathBuf,
        /// Where or in what they differ: `at byte 7`, `in its mode`.
        what: String,
    },
    /// A command that stops or starts the database failed.
    #[error("{command} failed: {why}")]
    Service {
        /// The command line.
        command: String,
        /// Its status and the end of its output.
        why: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// An error, and what was done about it.
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
            Error::Plan(cause) => cause.is_refusal(),
            Error::Datasets(cause) => cause.is_refusal(),
            Error::WithOutcome { cause, .. } => cause.is_refusal(),
            _ => false,
        }
    }

    /// Makes an error of the host from its cause.
    pub(crate) fn host(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |cause| Error::Host { what, path, cause }
    }

    /// As [`Error::host`], for errors of `rustix`.
    pub(crate) fn errno(what: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Error {
        let path = path.to_owned();
        move |cause| Error::Host { what, path, cause: cause.into() }
    }

    /// Adds the state in which the run left the database.
    pub(crate) fn with_outcome(self, outcome: impl Into<String>) -> Error {
        Error::WithOutcome { cause: Box::new(self), outcome: outcome.into() }
    }
}

/// A refusal.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}
