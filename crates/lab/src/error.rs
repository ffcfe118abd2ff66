//! What can go wrong in the lab.

use std::path::PathBuf;

/// What was tried, on what, and why it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A campaign's file says something that cannot be.
    #[error("{}:{line}: {why}", path.display())]
    Campaign {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The host refused.
    #[error("{what} {}: {why}", path.display())]
    Host {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's words.
        why: std::io::Error,
    },
    /// It was asked for what is not there.
    #[error("{0}")]
    Usage(String),
    /// Another run uses the scratch folder.
    #[error(
        "another run (process {holder}) works in {}; wait for its end, or name another folder with --scratch",
        path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// Its process.
        holder: String,
    },
    /// The scratch folder's predictable name is taken by something that another user may have placed there.
    #[error("cannot use {}: {why}\nhint: remove it, or name another folder with --scratch", path.display())]
    Unsafe {
        /// What it is: the folder, or its lock.
        path: PathBuf,
        /// Why it is not used.
        why: poolwright_host::private::Unsafe,
    },
    /// Something has to be there before a run can start.
    #[error("{0}")]
    Missing(String),
    /// A trial failed.
    #[error("{0}")]
    Trial(String),
    /// Somebody still uses what is to be changed.
    #[error("{0}")]
    Busy(String),
    /// The results cannot be read or written.
    #[error("the results in {place}: {why}")]
    Store {
        /// File or URL (without a password).
        place: String,
        /// Why.
        why: String,
    },
    /// Ctrl-C.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// For `map_err` of what the host refused.
    pub(crate) fn host(what: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |why| Error::Host { what, path, why }
    }
}

/// With the lab's error.
pub type Result<T> = std::result::Result<T, Error>;
