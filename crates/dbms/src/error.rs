//! The errors of finding, stopping, starting, quiescing and querying a database.

use poolwright_base::{Exit, PathError, ReportedError};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a database was not found, stopped, started, quiesced or queried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pool could not be read.
    #[error(transparent)]
    Datasets(#[from] poolwright_zfs::datasets::Error),
    /// Continuing could lose data or use the wrong database. The text can end with a line `hint: …`.
    #[error("{0}")]
    Refused(String),
    /// An operation on a file or directory of the host failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The database could not be quiesced or released.
    #[error("cannot {what} the database: {why}")]
    Quiesce {
        /// `quiesce` or `release`.
        what: &'static str,
        /// The message of the database's client or of the hook.
        why: String,
    },
    /// A program failed to run.
    #[error("cannot run {program}: {why}")]
    Program {
        /// The program.
        program: String,
        /// The cause.
        why: String,
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
}

impl Error {
    /// Whether this is a refusal for safety.
    pub fn is_refusal(&self) -> bool {
        self.exit() == Exit::Refused
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Refused(_) => Exit::Refused,
            Error::Datasets(cause) => cause.exit(),
            _ => Exit::Failed,
        }
    }
}

/// A refusal.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}
