//! What can go wrong, with what was tried and what to do.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// An engine call that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// libzpool refused; `errno` as the host numbers it.
    #[error("{what} {on}: {}", explain(*errno))]
    Engine {
        /// What was tried.
        what: &'static str,
        /// The pool, dataset or file it was tried on.
        on: String,
        /// Why.
        errno: i32,
    },
    /// A file of a pool cannot be opened, made or locked.
    #[error("{what} {}: {why}", path.display())]
    Host {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// The host's reason.
        why: std::io::Error,
    },
    /// Another process has the pool.
    #[error("{} is in use by another process; a pool file is opened by one at a time", .0.display())]
    Locked(PathBuf),
    /// A file that exists is never overwritten by a new pool.
    #[error("{} exists and is not empty; a new pool would overwrite it: remove it or name another file", .0.display())]
    Exists(PathBuf),
    /// A property, value or specification that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A quota that the dataset exceeds already.
    #[error("setting {limit} of {on}: it is less than what {on} uses or has reserved")]
    LimitBelowUse {
        /// The property and its value.
        limit: String,
        /// The dataset.
        on: String,
    },
    /// Files or datasets of the pool are still open.
    #[error("{0} is busy: a dataset or file of it is still open")]
    Busy(String),
}

/// The host's words for an errno, and the engine's meaning where that is another.
fn explain(errno: i32) -> String {
    match errno {
        libc::ENOTSUP => {
            "not supported: it needs a feature, layout or log record this engine does not write".into()
        }
        52 => "checksum error: the data on disk is damaged (EBADE)".into(),
        libc::EEXIST => "it exists already".into(),
        libc::ENOENT => "there is no such thing".into(),
        _ => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// Turns a C return code into a result; `on` is only made into text on failure.
pub(crate) fn check(what: &'static str, on: impl std::fmt::Display, errno: i32) -> Result<()> {
    if errno == 0 { Ok(()) } else { Err(Error::Engine { what, on: on.to_string(), errno }) }
}

impl Error {
    /// The errno behind an engine error.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Engine { errno, .. } => Some(*errno),
            Error::Host { why, .. } => why.raw_os_error(),
            Error::LimitBelowUse { .. } => Some(libc::ENOSPC),
            _ => None,
        }
    }
}
