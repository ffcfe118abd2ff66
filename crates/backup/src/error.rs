//! The errors of backups.

use std::path::PathBuf;

use poolwright_base::{Exit, PathError, ReportedError, quoted};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a backup was not made, checked or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A pool could not be read or changed.
    #[error(transparent)]
    Datasets(#[from] poolwright_zfs::datasets::Error),
    /// A file could not be copied or compared.
    #[error(transparent)]
    Copy(poolwright_apply::Error),
    /// The plan cannot be read.
    #[error(transparent)]
    Plan(#[from] poolwright_plan::PlanFileError),
    /// Going on could lose data, or make a backup that is none. The text can end with a line `hint: …`.
    #[error("{0}")]
    Refused(String),
    /// A backup lies in the future of the host's clock.
    #[error("{0}")]
    Future(String),
    /// The database's directories are not what they were in the last backup. The text can end with a line `hint: …`.
    #[error("{0}")]
    SourceChanged(String),
    /// The host failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// A file that describes backups cannot be understood.
    #[error("{} is damaged: {why}", quoted(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// The database could not be found, quiesced, released, started or asked.
    #[error(transparent)]
    Database(poolwright_dbms::Error),
    /// A backup could not be restored.
    #[error("{0}")]
    Restore(String),
    /// A snapshot was sent, and the target does not have it.
    #[error("{target} does not have @{name} after it was sent")]
    NotReceived {
        /// The target.
        target: String,
        /// The name of the snapshot: that of the backup, if it is one.
        name: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// An error, and what was done about it.
    #[error("{cause}\n{outcome}")]
    WithOutcome {
        /// The error.
        cause: Box<Error>,
        /// The state that is left, for the user.
        outcome: String,
    },
}

impl Error {
    /// Whether this is a refusal for safety.
    pub fn is_refusal(&self) -> bool {
        self.exit() == Exit::Refused
    }

    /// The error without the hint that may follow it.
    pub(crate) fn first_line(&self) -> String {
        self.to_string().lines().next().unwrap_or_default().to_owned()
    }

    /// Adds the state that the run left.
    pub(crate) fn with_outcome(self, outcome: impl Into<String>) -> Error {
        Error::WithOutcome { cause: Box::new(self), outcome: outcome.into() }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Refused(_) | Error::Future(_) | Error::SourceChanged(_) => Exit::Refused,
            Error::Datasets(cause) => cause.exit(),
            Error::Plan(cause) => cause.exit(),
            Error::Copy(cause) => cause.exit(),
            Error::Database(cause) => cause.exit(),
            Error::WithOutcome { cause, .. } => cause.exit(),
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Future(_) => {
                "set the clock if it is wrong now; if it was wrong when the backup was made, use --accept-future: backups are in the \
                 order of their snapshots, whatever their times"
            }
            Error::SourceChanged(_) => "if the change is intended, --accept-change accepts it once",
            Error::Plan(cause) => return cause.hint(),
            Error::WithOutcome { cause, .. } => return cause.hint(),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

impl From<poolwright_zfs::kernel::CommandError> for Error {
    fn from(cause: poolwright_zfs::kernel::CommandError) -> Error {
        Error::Datasets(cause.into())
    }
}

impl From<poolwright_apply::Error> for Error {
    fn from(cause: poolwright_apply::Error) -> Error {
        match cause {
            poolwright_apply::Error::Interrupted => Error::Interrupted,
            cause => Error::Copy(cause),
        }
    }
}

impl From<poolwright_dbms::Error> for Error {
    fn from(cause: poolwright_dbms::Error) -> Error {
        match cause {
            poolwright_dbms::Error::Interrupted => Error::Interrupted,
            cause => Error::Database(cause),
        }
    }
}

/// A refusal.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}
