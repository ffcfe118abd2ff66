//! Errors of the terminal view.

use std::io;

use poolwright_host::{Exit, ReportedError};

/// What can fail.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program cannot draw, because this stream is not a terminal.
    #[error("{0} is not a terminal")]
    NotATerminal(&'static str),
    /// The terminal has no cursor control.
    #[error("the terminal cannot position its cursor (TERM={0:?})")]
    NoCursorControl(String),
    /// The terminal cannot be read, written or configured.
    #[error("cannot use the terminal: {0}")]
    Terminal(#[from] io::Error),
    /// The poller failed.
    #[error(transparent)]
    Monitor(#[from] crate::Error),
    /// The thread that runs the poller panicked.
    #[error("the thread that reads the sources ended unexpectedly")]
    ReaderEnded,
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::NotATerminal(_) | Error::NoCursorControl(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let needs_terminal = self.exit() == Exit::Usage;
        needs_terminal.then(|| "`poolwright monitor --once` prints the readings without a screen".to_owned())
    }
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
