//! What can go wrong on the way to a curve.

use std::path::PathBuf;

/// An error of this crate. Every message says what was tried, on what, and what to do where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: `open`, `read`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// Bytes that cannot be right.
    #[error("{}, {place}: {why}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `line 12`, `record 7 (byte 168)`.
        place: String,
        /// What does not fit, and what was expected.
        why: String,
    },
    /// The trace itself.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// No file of the trace is wanted.
    #[error("{}: {why}", path.display())]
    NothingSelected {
        /// The trace.
        path: PathBuf,
        /// What was asked for, and what there is.
        why: String,
    },
    /// No recordsize of OpenZFS.
    #[error("a recordsize is a power of two from 512 to 16M, not {0}")]
    Recordsize(u64),
    /// No share of the records.
    #[error("a sampling rate is above 0 and at most 1, not {0}")]
    SamplingRate(f64),
    /// Too little for the smallest sample.
    #[error("a sample takes at least {}M of memory, not {given} bytes", least >> 20)]
    SamplingMemory {
        /// Bytes.
        given: u64,
        /// Bytes.
        least: u64,
    },
    /// More different records than a run can number.
    #[error(
        "the trace has more than {} different records; sample it (--sample), or take a larger recordsize",
        u32::MAX
    )]
    TooManyRecords,
    /// A page of the database that does not lie in one record.
    #[error(
        "pages of {} do not lie in records of {}: give a recordsize of a page or more, a power of two",
        poolwright_trace::format_size(*page), poolwright_trace::format_size(*recordsize)
    )]
    SmallRecords {
        /// Bytes of a page.
        page: u64,
        /// Bytes of a record.
        recordsize: u64,
    },
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
