//! Errors of commands on pools.

use std::path::{Path, PathBuf};

use poolwright_base::{Exit, ReportedError, quoted};

use crate::user::fault::Fault;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A command that did not reach its pool, or failed there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, directory or socket of Poolwright cannot be used.
    #[error("{what} {}: {why}", quoted(path))]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The file, directory or socket.
        path: PathBuf,
        /// The host's error.
        why: std::io::Error,
    },
    /// A file, directory or socket has the wrong type, owner or content.
    #[error("{}: {why}", quoted(path))]
    Damaged {
        /// Its path.
        path: PathBuf,
        /// The defect, and a hint.
        why: String,
    },
    /// Another process owns the pool.
    #[error("{pool} is in use by process {pid}{}{todo}", if what.is_empty() { String::new() } else { format!(" ({what})") })]
    InUse {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
        /// The owner's description, such as its command line; empty if unknown.
        what: String,
        /// Further lines, such as a hint.
        todo: String,
    },
    /// The registry has no entry for the pool.
    #[error("no such pool: {0:?}")]
    Unknown(String),
    /// Files of the pool do not exist.
    #[error("opening {pool}: {}: no such file", list(missing))]
    MissingFiles {
        /// The pool's name.
        pool: String,
        /// The files.
        missing: Vec<PathBuf>,
        /// Whether the pool has files that exist.
        some_remain: bool,
    },
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
    /// The owner closed the connection before it had received the whole request, or without an answer to one that can be repeated
    /// ([`Request::is_repeatable`](crate::user::Request::is_repeatable)).
    #[error("process {pid}, which had {pool} open, has closed its socket")]
    Closed {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
    },
    /// The owner ended after it had received the request and before it answered.
    #[error(
        "process {pid}, which had {pool} open, exited before it answered\n\
         hint: the log of a background mount is in {}",
        quoted(log)
    )]
    Ended {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: i32,
        /// The directory of the logs of background mounts.
        log: PathBuf,
    },
    /// The registry has a pool of the name of a new one.
    #[error(
        "a pool named {pool} already exists, in {}{}",
        list(files), if files.iter().all(|file| file.exists()) { "" } else { " (some of its files are missing)" }
    )]
    NameTaken {
        /// The pool's name.
        pool: String,
        /// The files of the registered pool.
        files: Vec<PathBuf>,
    },
    /// The registry has a pool of the name of the one to import, in other files.
    #[error("another pool named {pool} is registered, in {}", list(files))]
    OtherRegistered {
        /// The pool's name.
        pool: String,
        /// The files of the registered pool.
        files: Vec<PathBuf>,
    },
    /// A pool to destroy is open in another process.
    #[error("destroying {pool}: it is {} in process {pid}", if mountpoints.is_empty() { "open".to_owned() } else {
        format!("mounted on {}", list(mountpoints)) })]
    Mounted {
        /// The pool's name.
        pool: String,
        /// The owner's process ID.
        pid: u32,
        /// Its mount points.
        mountpoints: Vec<PathBuf>,
    },
    /// A file of a new pool is a directory, a device or similar.
    #[error("{} is not a regular file", quoted(.0))]
    NotAFile(PathBuf),
    /// The directory of a new pool's file does not exist.
    #[error("cannot create {}: no such directory", quoted(.0))]
    NoDirectory(PathBuf),
    /// A new pool has the same file twice.
    #[error("{} is named twice", quoted(.0))]
    NamedTwice(PathBuf),
    /// The files are not those of one whole pool.
    #[error("{0}")]
    Find(String),
    /// The pool to import was destroyed.
    #[error("importing {pool}: the pool was destroyed")]
    Destroyed {
        /// The pool's name.
        pool: String,
        /// One of its files.
        file: PathBuf,
    },
    /// The engine failed or refused.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
    /// The request failed.
    #[error(transparent)]
    Refused(#[from] Fault),
}

impl Error {
    /// Whether the owner is ending, and the client can repeat the request after that.
    pub fn is_ending(&self) -> bool {
        match self {
            Error::Closed { .. } => true,
            Error::Refused(fault) => fault.is_ending(),
            _ => false,
        }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::InUse { .. }
            | Error::NameTaken { .. }
            | Error::OtherRegistered { .. }
            | Error::Mounted { .. } => Exit::Refused,
            Error::NamedTwice(_) => Exit::Usage,
            Error::Engine(cause) => cause.exit(),
            Error::Refused(fault) => fault.exit(),
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Error::Unknown(pool) => {
                format!("name its files with --pool-file, or run `poolwright pool import {pool} FILE…` first")
            }
            Error::MissingFiles { pool, some_remain: true, .. } => format!(
                "`poolwright pool import {pool} FILE…` with the present paths of all files; a pool with redundancy can be \
                 imported without lost files"
            ),
            Error::MissingFiles { pool, some_remain: false, .. } => format!(
                "if the files were moved, `poolwright pool import {pool} -d DIR` finds them in their new directory; if they are lost, \
                 `poolwright pool export {pool}` removes the pool from the registry"
            ),
            Error::NameTaken { pool, .. } => format!(
                "give the new pool another name, or remove the old one from the registry with `poolwright pool export {pool}`"
            ),
            Error::OtherRegistered { pool, .. } => {
                format!("remove it from the registry first, with `poolwright pool export {pool}`")
            }
            Error::Mounted { pool, .. } => format!("`poolwright pool destroy -f {pool}` unmounts it first"),
            Error::Destroyed { file, .. } => {
                format!("`poolwright pool import -D {}` recovers it", quoted(file))
            }
            Error::Engine(cause) => return cause.hint(),
            Error::Refused(fault) => return fault.hint(),
            _ => return None,
        })
    }
}

/// Paths separated by commas.
pub(crate) fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| quoted(file).to_string()).collect::<Vec<_>>().join(", ")
}

/// Makes an [`Error::Io`], for `map_err`.
pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |why| Error::Io { what, path, why }
}
