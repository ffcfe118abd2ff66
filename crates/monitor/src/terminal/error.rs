//! Errors of the terminal view.

use std::io;

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

impl Error {
    /// Whether the terminal is missing or cannot show the screen.
    pub fn needs_terminal(&self) -> bool {
        matches!(self, Error::NotATerminal(_) | Error::NoCursorControl(_))
    }
}

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
