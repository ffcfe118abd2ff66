//! What can go wrong, with what was tried and what to do.

use std::path::{Path, PathBuf};

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
    /// The host's kernel has the pool open.
    #[error(
        "opening {}: the kernel of this host has imported its pool, {pool}; two systems that write to one pool destroy it\n\
         hint: use zpool and zfs for {pool}, or give it up there first: zpool export {pool}", file.display()
    )]
    ImportedByKernel {
        /// The pool's name.
        pool: String,
        /// The file that was to be opened.
        file: PathBuf,
    },
    /// A label says that the pool is open, and not by this engine on this host.
    #[error(
        "opening {}: its pool, {pool}, was not exported by its last user, the host {host:?}; it may be open there", file.display()
    )]
    NotExported {
        /// The pool's name.
        pool: String,
        /// The file that was to be opened.
        file: PathBuf,
        /// The host that had it open last, as the label spells it; empty if the label does not say.
        host: String,
    },
    /// The libzpool that is loaded is not the one that the engine was compiled for.
    #[error(
        "starting the engine: the loaded libzpool (build id {loaded}) is not the one that this program was compiled for \
         (build id {built_for}, OpenZFS {version}); with another one it would damage pools\n\
         hint: rebuild it with this library: cargo build --release"
    )]
    OtherLibrary {
        /// Build id of the loaded library, in hexadecimal; empty if it has none.
        loaded: String,
        /// Build id that was there when the engine was compiled.
        built_for: String,
        /// Its OpenZFS version.
        version: String,
    },
    /// The intent log of a dataset cannot be replayed whole. It is left as it is.
    #[error(
        "opening the dataset {dataset}: its intent log cannot be replayed: {why}. The log is left as it is, and nothing in \
         the dataset was lost\n\
         hint: open {dataset} read-only to use it without the changes in its log; a kernel may be able to replay the log"
    )]
    Log {
        /// Its full name.
        dataset: String,
        /// The record or the block, and what is wrong with it.
        why: String,
        /// The errno behind it.
        errno: i32,
    },
    /// Files or datasets of the pool are still open.
    #[error("{0} is busy: a dataset or file of it is still open")]
    Busy(String),
}

/// The host's words for an errno, and the engine's meaning where that is another.
pub(crate) fn explain(errno: i32) -> String {
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
            Error::Log { errno, .. } => Some(*errno),
            _ => None,
        }
    }

    /// Whether the work was refused because it could do harm, and did not fail.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Error::ImportedByKernel { .. } | Error::NotExported { .. } | Error::OtherLibrary { .. }
        )
    }
}

pub(crate) fn host(what: &'static str, path: &Path, why: std::io::Error) -> Error {
    Error::Host { what, path: path.to_owned(), why }
}
