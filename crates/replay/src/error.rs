//! What can go wrong in a trial.

use std::path::PathBuf;

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// A trial, or a step towards one, that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine refused.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// A file or directory of the host.
    #[error("{what} {}: {why}", path.display())]
    Host {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The host's reason.
        why: std::io::Error,
    },
    /// Not enough room for what the trial writes.
    #[error(
        "{} has {} MiB free and about {} MiB are needed; free some, or name another directory with --scratch",
        path.display(), free >> 20, needed >> 20
    )]
    NoRoom {
        /// The scratch directory.
        path: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// A trial has nearly filled the file system that it writes to.
    #[error(
        "the trial was stopped: {} has room for {} MiB more (in memory, as much as memory has)\n\
         hint: name another directory with --scratch",
        path.display(), free >> 20
    )]
    UsedUp {
        /// The scratch directory.
        path: PathBuf,
        /// Bytes free.
        free: u64,
    },
    /// The capture does not fit into memory.
    #[error(
        "the bytes to replay take {} of memory, and {} are available; take fewer with --sample-bytes",
        poolwright_trace::format_size(*needed), poolwright_trace::format_size(*available)
    )]
    NoMemory {
        /// Bytes that they take.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// Logs are replayed whole, and no pool of a trial holds so much.
    #[error(
        "the trace touches {} of logs and temporary files, and at most {} are replayed; record for a shorter time",
        poolwright_trace::format_size(*bytes), poolwright_trace::format_size(*most)
    )]
    TooMuchLog {
        /// Bytes that are touched.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// Nothing of the trace can be replayed.
    #[error("{0}")]
    Nothing(String),
    /// The sample is so small that it holds nothing of the trace.
    #[error(
        "a sample of {} of the {} that the trace touches holds no read and no write\nhint: give more with --sample-bytes",
        size(*max), size(*touched)
    )]
    SampleTooSmall {
        /// The most bytes to take.
        max: u64,
        /// What the trace touches.
        touched: u64,
    },
    /// A specification or capture that does not parse.
    #[error("{} is not a {what}: {why}", path.display())]
    Malformed {
        /// What it should be.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The child process of a trial failed.
    #[error("the trial failed: {0}")]
    Child(String),
    /// The trial was stopped because it took as long as one may.
    #[error("the trial was stopped after {0:?}, the most that it may take")]
    TooLong(std::time::Duration),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

fn size(bytes: u64) -> String {
    poolwright_trace::format_size(bytes) + if bytes < 1024 { "B" } else { "" }
}

/// Attaches what was tried and on what to a host error.
pub(crate) fn host(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.into();
    move |why| Error::Host { what, path, why }
}
