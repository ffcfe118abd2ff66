//! What can go wrong between a verb and a pool.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A request that its owner did not fulfil, as it goes through the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// As Linux numbers it. `EBUSY`: refused because somebody uses it; `ENOENT`: there is no such thing.
    pub errno: i32,
    /// What was tried, on what, why it failed, and what to do.
    pub message: String,
}

impl Fault {
    /// A fault with this errno.
    pub fn new(errno: i32, message: impl Into<String>) -> Fault {
        Fault { errno, message: message.into() }
    }

    /// A request that makes no sense.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }

    /// Whether it was refused because somebody uses the thing.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }
}

impl From<poolwright_openzfs::Error> for Fault {
    fn from(error: poolwright_openzfs::Error) -> Fault {
        use poolwright_openzfs::Error as E;
        let errno = match &error {
            E::Locked(_) | E::Busy(_) => libc::EBUSY,
            E::Exists(_) => libc::EEXIST,
            other => other.errno().unwrap_or(libc::EINVAL),
        };
        Fault::new(errno, error.to_string())
    }
}

/// A verb that did not reach its pool, or that the pool's owner did not fulfil.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or socket of ours cannot be used.
    #[error("{what} {}: {why}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The host's reason.
        why: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Another process owns the pool.
    #[error("{pool} is in use by process {pid}{}; {todo}", if what.is_empty() { String::new() } else { format!(" ({what})") })]
    InUse {
        /// The pool.
        pool: String,
        /// Its owner.
        pid: i32,
        /// What the owner is, as far as it is known.
        what: String,
        /// What to do.
        todo: String,
    },
    /// Nobody knows where the pool is.
    #[error(
        "no pool {0:?} is known here: name its files with --pool-file, or `poolwright pool import {0} FILE…` once"
    )]
    Unknown(String),
    /// What came through the socket is not this protocol.
    #[error("the owner of {pool} (process {pid}) does not speak this protocol: {why}")]
    Protocol {
        /// The pool.
        pool: String,
        /// Its owner.
        pid: i32,
        /// What came.
        why: String,
    },
    /// The request was not fulfilled.
    #[error(transparent)]
    Refused(#[from] Fault),
}

impl Error {
    /// Whether this is a refusal for safety, because somebody uses the pool or a part of it.
    pub fn is_busy(&self) -> bool {
        match self {
            Error::InUse { .. } => true,
            Error::Refused(fault) => fault.is_busy(),
            _ => false,
        }
    }
}

/// For `map_err`.
pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |why| Error::Io { what, path, why }
}
