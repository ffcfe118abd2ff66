//! Errors of mounting datasets and serving a pool.

use poolwright_base::{Exit, PathError, ReportedError};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a mount, or of the process that owns a pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool cannot be reached or opened, or a request to it failed.
    #[error(transparent)]
    Pool(#[from] poolwright_zfs::user::Error),
    /// The engine failed or refused.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
    /// The mount point cannot be used.
    #[error(transparent)]
    MountPoint(#[from] crate::Error),
    /// The pool's owner has not mounted the dataset.
    #[error("cannot mount through process {pid}, which has the pool open: {why}")]
    Adding {
        /// The owner's process ID.
        pid: i32,
        /// The cause.
        why: poolwright_zfs::user::Error,
    },
    /// A device is to be emulated for a file that the pool does not have.
    #[error("cannot emulate a device for {name}: the pool has no file of this name, only {}", files.join(", "))]
    NoFile {
        /// The name.
        name: String,
        /// The names of the pool's files.
        files: Vec<String>,
    },
    /// The mount cannot be used, or the pool was not exported.
    #[error("{0}")]
    Unusable(String),
    /// A system call failed.
    #[error("cannot {doing}: {why}")]
    Host {
        /// The attempted operation.
        doing: &'static str,
        /// The host's error.
        why: std::io::Error,
    },
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] PathError),
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Pool(cause) | Error::Adding { why: cause, .. } => cause.exit(),
            Error::Engine(cause) => cause.exit(),
            Error::MountPoint(cause) => cause.exit(),
            Error::NoFile { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Pool(cause) | Error::Adding { why: cause, .. } => cause.hint(),
            Error::Engine(cause) => cause.hint(),
            Error::MountPoint(cause) => cause.hint(),
            _ => None,
        }
    }
}

/// Makes an [`Error::Host`], for `map_err`.
pub(crate) fn host<E: Into<std::io::Error>>(doing: &'static str) -> impl FnOnce(E) -> Error {
    move |why| Error::Host { doing, why: why.into() }
}
