//! The errors of a tuning run.

use std::path::PathBuf;

use poolwright_base::{Exit, ReportedError, quoted};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a tuning run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A capture or a trial failed.
    #[error(transparent)]
    Replay(#[from] poolwright_replay::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// The space estimate failed.
    #[error(transparent)]
    Estimate(#[from] poolwright_estimate::Error),
    /// A property or its value is invalid, or the engine failed.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
    /// The cache model failed.
    #[error(transparent)]
    Cache(#[from] poolwright_mrc::Error),
    /// The trace or the directory contains nothing to tune.
    #[error("{0}")]
    Nothing(String),
    /// The recording of the directory contains no reads or writes of files.
    #[error("the recording of {} contains no reads or writes of files", quoted(.0))]
    NoIo(PathBuf),
    /// The trace describes other files than those in the directory.
    #[error("{0}")]
    OtherFiles(String),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Whether no further trial may run.
    pub(crate) fn ends_the_run(&self) -> bool {
        self.is_interruption() || matches!(self, Error::Replay(cause) if cause.ends_the_run())
    }

    /// Whether the user interrupted the run.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Error::Interrupted | Error::Replay(poolwright_replay::Error::Interrupted))
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::OtherFiles(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Replay(cause) => cause.hint(),
            Error::Estimate(cause) => cause.hint(),
            Error::NoIo(_) => Some(
                "put load on the database while it is recorded, or record for longer (--for 5m)".to_owned(),
            ),
            _ => None,
        }
    }
}
