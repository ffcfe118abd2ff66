//! Errors of mounting datasets and serving a pool.

use std::path::PathBuf;

use poolwright_host::{Exit, PathError, ReportedError, quoted};

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
    /// Another process has mounted the dataset, but this one cannot use the mount.
    #[error(
        "process {pid} has mounted it, but {} does not answer here: it has been unmounted since, or that process is in \
         another mount namespace: {why}",
        quoted(dir)
    )]
    NotVisible {
        /// The process that mounted the dataset.
        pid: u32,
        /// The mount point.
        dir: PathBuf,
        /// The result of accessing the mount.
        why: crate::Error,
    },
    /// A device is to be emulated for a file that the pool does not have.
    #[error("cannot emulate a device for {name}: the pool has no file of that name, only {}", files.join(", "))]
    NoFile {
        /// The name.
        name: String,
        /// The names of the pool's files.
        files: Vec<String>,
    },
    /// The pool has lost a file that it needs. It was not exported, because the export would wait for data that cannot be
    /// read, or write to a file that no path leads to.
    #[error("{pool} was not exported: {} {what}", quoted(file))]
    LostFile {
        /// The pool's name.
        pool: String,
        /// The file's path when the pool was opened.
        file: PathBuf,
        /// What happened to the file.
        what: &'static str,
    },
    /// A request still uses the pool.
    #[error("cannot export {0}: a request is still being answered")]
    RequestPending(String),
    /// The host refused.
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
