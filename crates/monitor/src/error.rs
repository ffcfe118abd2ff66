//! Errors of this crate.

use std::net::SocketAddr;
use std::path::PathBuf;

use poolwright_base::{Exit, PathError, ReportedError, quoted};

/// The result of a fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a source, the server, the terminal view or a check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A source of user-space pools failed.
    #[error(transparent)]
    Userpool(#[from] poolwright_zfs::user::Error),
    /// A kstat cannot be read.
    #[error(transparent)]
    Kstat(#[from] poolwright_zfs::kernel::KstatError),
    /// `zpool` or `zfs` gave no usable answer.
    #[error(transparent)]
    Command(#[from] poolwright_zfs::kernel::CommandError),
    /// A plan cannot be read.
    #[error(transparent)]
    PlanFile(#[from] poolwright_plan::PlanFileError),
    /// The summary of a dataset of backups cannot be read.
    #[error(transparent)]
    Backups(#[from] poolwright_backup::Error),
    /// The table of mounts cannot be read.
    #[error(transparent)]
    Mounts(#[from] PathError),
    /// The pool was exported or destroyed.
    #[error("no such pool: {pool}")]
    NoSuchPool {
        /// The pool.
        pool: String,
    },
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The address can be reached from other hosts, and the connection would not be encrypted or authenticated.
    #[error("refusing to listen on {address}: other hosts can reach it, and {missing}")]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// What is missing: TLS, or authentication.
        missing: &'static str,
    },
    /// A certificate, a key or a token cannot be read or used.
    #[error("cannot use {}: {cause}", quoted(path))]
    Credential {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// A thread or the asynchronous runtime cannot be started.
    #[error("cannot start {what}: {cause}")]
    Start {
        /// The thread or the runtime.
        what: &'static str,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The screen cannot be drawn, because this stream is not a terminal.
    #[error("{0} is not a terminal")]
    NotATerminal(&'static str),
    /// The terminal has no cursor control.
    #[error("the terminal cannot position its cursor (TERM={0:?})")]
    NoCursorControl(String),
    /// The terminal cannot be read, written or configured.
    #[error("cannot use the terminal: {0}")]
    Terminal(std::io::Error),
    /// The thread that runs the poller panicked.
    #[error("the thread that reads the sources ended unexpectedly")]
    ReaderEnded,
    /// No rule has this name.
    #[error("no such alert rule: {0}")]
    NoSuchRule(String),
    /// No threshold has this name.
    #[error("no such threshold: {0}")]
    NoSuchThreshold(String),
    /// A threshold is not a number.
    #[error("invalid threshold {0}: expected NAME=NUMBER")]
    InvalidThreshold(String),
    /// The state of the last check cannot be read or written.
    #[error("cannot use the state of the last check, {}: {cause}", quoted(path))]
    StateFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Exposed { .. } => Exit::Refused,
            Error::NotATerminal(_)
            | Error::NoCursorControl(_)
            | Error::NoSuchRule(_)
            | Error::NoSuchThreshold(_)
            | Error::InvalidThreshold(_) => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Exposed { .. } => {
                "use --tls-cert and --tls-key with --token-file or --client-ca, or listen on 127.0.0.1"
            }
            Error::Listen { .. } => "name another address or port with --listen",
            Error::NotATerminal(_) | Error::NoCursorControl(_) => {
                "`poolwright monitor --once` prints the readings without a screen"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
