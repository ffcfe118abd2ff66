//! What can go wrong with a trace.

use std::path::{Path, PathBuf};

/// An error of this crate. Every message says what was tried, on what, and what to do where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `open`, `read`, `write`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The file is something else.
    #[error("{} is not a Poolwright trace: {why}", path.display())]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What it looks like instead.
        why: String,
    },
    /// The file starts as a trace does but is cut before its first checkpoint.
    #[error(
        "{} is truncated: it starts as a trace does but holds no complete footer; copy it again or record anew",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
    },
    /// The trace was written in a later format.
    #[error("{} has trace format {version}, this program reads up to {}; use the newer poolwright that wrote it",
        path.display(), crate::FORMAT_VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: String,
    },
    /// A trace, but with bytes that cannot be right.
    #[error("{} is damaged: {why}; copy it again or record anew", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        why: String,
    },
    /// More events than this machine can hold.
    #[error("{} holds {}, which take {} in memory, and {} are available; record for a shorter time", path.display(),
        crate::counted(*events, "event"), crate::format_size(*needed), crate::format_size(*available))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How many it says.
        events: u64,
        /// Bytes that they take.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// A trace is never written over a file that is something else.
    #[error("will not overwrite {}: it is not a Poolwright trace; choose another name or remove it", path.display())]
    NotOverwritten {
        /// The file.
        path: PathBuf,
    },
    /// The caller pushed an event of a file that it did not register.
    #[error("event of file {file}, but the trace has only {known} files")]
    UnknownFile {
        /// The id in the event.
        file: u32,
        /// How many files are registered.
        known: usize,
    },
    /// An earlier write failed; the trace on disk ends at the last checkpoint before it.
    #[error("cannot write {}: an earlier write failed, the trace ends at its last checkpoint", path.display())]
    Poisoned {
        /// The trace.
        path: PathBuf,
    },
    /// The Parquet encoder failed.
    #[error("cannot encode events for {}: {source}", path.display())]
    Encode {
        /// The trace.
        path: PathBuf,
        /// Why.
        source: parquet::errors::ParquetError,
    },
    /// A line of a foreign trace cannot be understood.
    #[error("{}:{line}: {why}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: u64,
        /// What was expected and what was found.
        why: String,
    },
    /// The trace holds something that the wanted format cannot.
    #[error("cannot export to {}: {why}", path.display())]
    Export {
        /// Where to.
        path: PathBuf,
        /// What does not fit, and what to do.
        why: String,
    },
    /// A file given to an importer holds nothing to import.
    #[error("{}: {why}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// Why it cannot be imported.
        why: String,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Names the action and the file of an I/O error.
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { action, path, source }
}
