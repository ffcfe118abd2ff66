//! Errors of commands on pools.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The failure of a request, as sent through the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// A Linux errno. `EBUSY`: refused because a program uses the object; `ENOENT`: the object does not exist.
    pub errno: i32,
    /// The message: operation, object, cause, and what to do.
    pub message: String,
}

impl Fault {
    /// A fault with this errno.
    pub fn new(errno: i32, message: impl Into<String>) -> Fault {
        Fault { errno, message: message.into() }
    }

    /// An invalid request.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }

    /// The answer to every request while the owner is closing its pool: the client should retry when that process has ended.
    pub fn ending(pool: &str, pid: u32) -> Fault {
        Fault::new(
            libc::ESHUTDOWN,
            format!(
                "process {pid} is closing {pool} and accepts no more requests; try again when it has ended"
            ),
        )
    }

    /// Whether the request was refused because a program uses the object.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// Whether the request was refused for safety: the object is in use, or a mount point must not be covered.
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

/// A command that did not reach its pool, or failed there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, directory or socket of Poolwright cannot be used.
    #[error("{what} {}: {why}", path.display())]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file, directory or socket.
        path: PathBuf,
        /// The host's error.
        why: std::io::Error,
    },
    /// A file, directory or socket has the wrong type, owner or content.
    #[error("{}: {why}", path.display())]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// The defect, and what to do.
        why: String,
    },
    /// Another process owns the pool.
    #[error("{pool} is in use by process {pid}{}; {todo}", if what.is_empty() { String::new() } else { format!(" ({what})") })]
    InUse {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
        /// The owner's description, such as its command line; empty if unknown.
        what: String,
        /// What to do.
        todo: String,
    },
    /// The registry has no entry for the pool.
    #[error(
        "no pool {0:?} is known\n\
         hint: name its files with --pool-file, or run `poolwright pool import {0} FILE…` once"
    )]
    Unknown(String),
    /// The owner's answer is invalid.
    #[error("invalid answer from the owner of {pool} (process {pid}): {why}")]
    Protocol {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
        /// The cause.
        why: String,
    },
    /// The owner closed the connection before it had received the whole request, which it therefore has not executed.
    #[error("process {pid}, which had {pool} open, has closed its socket")]
    Closed {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
    },
    /// The owner ended after it had received the request and before it answered.
    #[error(
        "process {pid}, which had {pool} open, ended before it answered\n\
         hint: the log of a mount with --background is below {}", crate::state_dir().join("log").display()
    )]
    Ended {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
    },
    /// The request failed.
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

    /// Whether the request itself was wrong: an unknown property, an invalid value or an invalid name.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Error::Refused(fault) if fault.errno == libc::EINVAL)
    }

    /// Whether the owner is ending and has not executed the request, which the client can repeat after that.
    pub fn is_ending(&self) -> bool {
        match self {
            Error::Closed { .. } => true,
            Error::Refused(fault) => fault.is_ending(),
            _ => false,
        }
    }
}

/// Makes an [`Error::Io`], for `map_err`.
pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |why| Error::Io { what, path, why }
}
