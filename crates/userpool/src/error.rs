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

    /// The answer of an owner that is closing its pool to every request: ask again when that process has ended.
    pub fn ending(pool: &str, pid: u32) -> Fault {
        Fault::new(
            libc::ESHUTDOWN,
            format!(
                "process {pid} is closing {pool} and takes no more requests; try again when it has ended"
            ),
        )
    }

    /// Whether it was refused because somebody uses the thing.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// Whether it was refused for safety: the thing is in use, or a mount point must not be covered.
    pub fn is_refusal(&self) -> bool {
        matches!(self.errno, libc::EBUSY | libc::EPERM | libc::ENOTEMPTY | libc::EROFS)
    }

    /// Whether the owner is closing the pool: see [`Fault::ending`].
    pub fn is_ending(&self) -> bool {
        self.errno == libc::ESHUTDOWN
    }
}

impl From<poolwright_openzfs::Error> for Fault {
    fn from(error: poolwright_openzfs::Error) -> Fault {
        use poolwright_openzfs::Error as E;
        let errno = match &error {
            E::Locked(_) | E::Busy(_) => libc::EBUSY,
            refusal if refusal.is_refusal() => libc::EPERM,
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
    /// The owner closed the connection before it had the whole request, so it did nothing of it.
    #[error("process {pid}, which had {pool} open, has closed its socket")]
    Closed {
        /// The pool.
        pool: String,
        /// Its owner.
        pid: i32,
    },
    /// The owner ended after it got the request and before it answered.
    #[error(
        "process {pid}, which had {pool} open, ended before it answered\n\
         hint: the log of a mount with --background is below {}", crate::state_dir().join("log").display()
    )]
    Ended {
        /// The pool.
        pool: String,
        /// Its owner.
        pid: i32,
    },
    /// The request was not fulfilled.
    #[error(transparent)]
    Refused(#[from] Fault),
}

impl Error {
    /// Whether this is a refusal for safety: the pool or a part of it is in use, or [`Fault::is_refusal`].
    pub fn is_refusal(&self) -> bool {
        match self {
            Error::InUse { .. } => true,
            Error::Refused(fault) => fault.is_refusal(),
            _ => false,
        }
    }

    /// Whether the request itself was wrong: an unknown property, a value that is not one, a name that cannot be one.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Error::Refused(fault) if fault.errno == libc::EINVAL)
    }

    /// Whether the owner is ending and did nothing of the request: it can be asked again after that.
    pub fn is_ending(&self) -> bool {
        match self {
            Error::Closed { .. } => true,
            Error::Refused(fault) => fault.is_ending(),
            _ => false,
        }
    }
}

/// For `map_err`.
pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |why| Error::Io { what, path, why }
}
