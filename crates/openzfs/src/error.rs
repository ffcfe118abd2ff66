//! The crate's errors, each with the operation that failed and, where there is one, a hint.

use std::path::{Path, PathBuf};

use poolwright_base::{Exit, ReportedError, quoted};

use crate::VdevError;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed call of the engine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// libzpool returned an error.
    #[error("{what} {on}: {}", explain(*errno))]
    Engine {
        /// The operation.
        what: &'static str,
        /// The pool, dataset or file.
        on: String,
        /// The error number of Linux.
        errno: i32,
    },
    /// A file of a pool cannot be opened, created or locked.
    #[error("{what} {}: {why}", quoted(path))]
    Host {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The host's error.
        why: std::io::Error,
    },
    /// Another process has the pool open.
    #[error("{} is in use by another process: only one process at a time can open a pool file", quoted(.0))]
    Locked(PathBuf),
    /// The file for a new pool or vdev exists and is not empty. No command overwrites a file.
    #[error("{} exists and is not empty, and a new pool or vdev would overwrite it\nhint: remove it, or name another file", quoted(.0))]
    Exists(PathBuf),
    /// An invalid property, value or specification.
    #[error("{0}")]
    Invalid(String),
    /// A quota below the space that the dataset uses.
    #[error("cannot set {limit} on {on}: it already uses or has reserved more")]
    LimitBelowUse {
        /// The property and its value.
        limit: String,
        /// The dataset.
        on: String,
    },
    /// The kernel of this host has imported the pool.
    #[error(
        "opening {}: the kernel of this host has imported its pool, {pool}; two systems that write to one pool destroy it\n\
         hint: use zpool and zfs for {pool}, or export it first: zpool export {pool}",
        quoted(file)
    )]
    ImportedByKernel {
        /// The pool's name.
        pool: String,
        /// The file.
        file: PathBuf,
    },
    /// The label shows that the pool is open, but not in this engine on this host.
    #[error(
        "opening {}: its pool, {pool}, was not exported by its last user, the host {host:?}; it may be open there",
        quoted(file)
    )]
    NotExported {
        /// The pool's name.
        pool: String,
        /// The file.
        file: PathBuf,
        /// The host that had the pool open last, from the label; empty if the label does not name it.
        host: String,
    },
    /// The intent log of a dataset cannot be replayed completely. It is left unchanged.
    #[error(
        "opening the dataset {dataset}: its intent log cannot be replayed: {why}; the log is unchanged, and the \
         dataset has lost nothing\n\
         hint: open {dataset} read-only to use it without the changes in its log; a kernel may be able to replay the log"
    )]
    Log {
        /// The dataset's full name.
        dataset: String,
        /// The record or the block, and its defect.
        why: String,
        /// The error number of Linux.
        errno: i32,
    },
    /// A change of the pool's vdevs was refused.
    #[error("{what} {pool}: {why}")]
    Vdev {
        /// The operation.
        what: &'static str,
        /// The pool's name.
        pool: String,
        /// The cause.
        why: VdevError,
    },
    /// A dataset or file of the pool is still open.
    #[error("{0} is busy: a dataset or file of it is still open")]
    Busy(String),
}

/// Returns the text of an errno: the engine's meaning where it differs from the host's.
pub(crate) fn explain(errno: i32) -> String {
    match errno {
        libc::ENOTSUP => {
            "not supported: the engine does not implement a feature, layout or log record that this needs"
                .into()
        }
        52 => "checksum error: the data on disk is damaged (EBADE)".into(),
        libc::EEXIST => "already exists".into(),
        libc::ENOENT => "does not exist".into(),
        _ => std::io::Error::from_raw_os_error(errno).to_string(),
    }
}

/// Turns a C return code into a result. `on` is formatted only after a failure.
pub(crate) fn check(what: &'static str, on: impl std::fmt::Display, errno: i32) -> Result<()> {
    if errno == 0 { Ok(()) } else { Err(Error::Engine { what, on: on.to_string(), errno }) }
}

impl Error {
    /// Returns the error number of Linux, or `None` if the error has none.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Error::Engine { errno, .. } => Some(*errno),
            Error::Host { why, .. } => why.raw_os_error(),
            Error::LimitBelowUse { .. } => Some(libc::ENOSPC),
            Error::Log { errno, .. } => Some(*errno),
            Error::Vdev { why, .. } => Some(why.errno()),
            _ => None,
        }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Exists(_) | Error::ImportedByKernel { .. } | Error::NotExported { .. } => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let is_not_exported = matches!(self, Error::NotExported { .. });
        is_not_exported.then(|| {
            "make sure that no virtual machine and no other host has the pool open, then use --force"
                .to_owned()
        })
    }
}

pub(crate) fn host(what: &'static str, path: &Path, why: std::io::Error) -> Error {
    Error::Host { what, path: path.to_owned(), why }
}
