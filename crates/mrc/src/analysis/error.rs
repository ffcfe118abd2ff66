//! Errors of an analysis.

use std::path::PathBuf;

use poolwright_host::quoted;
use poolwright_trace::format_size;

/// An error of an analysis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or modelling the trace failed.
    #[error(transparent)]
    Model(#[from] crate::Error),
    /// A recordsize was requested for a trace of objects.
    #[error("a trace of objects has no recordsize: each object is one record of its own size")]
    ObjectsHaveNoRecordsize,
    /// An estimate was given for a trace of objects.
    #[error("an estimate applies to records of a dataset, and this is a trace of objects")]
    ObjectsHaveNoEstimate,
    /// An ARC smaller than OpenZFS allows.
    #[error("OpenZFS allows no ARC below {} (zfs_arc_max)", format_size(*least))]
    SmallArc {
        /// The requested size in bytes.
        size: u64,
        /// The smallest ARC in bytes.
        least: u64,
    },
    /// A cache that cannot hold one record.
    #[error("this cache is smaller than one record of {}", format_size(*record))]
    SmallCache {
        /// The requested size in bytes.
        size: u64,
        /// Bytes of the largest record.
        record: u64,
    },
    /// A division was requested for a trace that was recorded below the database's own cache.
    #[error(
        "dividing memory needs the requests to the database's own cache, and this trace was recorded below that cache: it \
         lacks the requests that the cache answered, so it says nothing about another size of that cache"
    )]
    RecordedBelowCache,
    /// The division does not fit the pages of the trace.
    #[error(transparent)]
    Division(crate::Error),
    /// The estimate cannot be read.
    #[error("cannot read {}", quoted(path))]
    ReadEstimate {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        source: std::io::Error,
    },
    /// The file is not an estimate.
    #[error("{} is not a space estimate{}", quoted(path), if source.is_data() { "" } else { ": it is not JSON" })]
    ParseEstimate {
        /// The file.
        path: PathBuf,
        /// Where it differs from an estimate.
        source: serde_json::Error,
    },
    /// The estimate has several compressions and none was chosen.
    #[error("{} has several compressions: {names}", quoted(path))]
    SeveralCompressions {
        /// The file.
        path: PathBuf,
        /// The compressions in it, separated by commas.
        names: String,
    },
    /// The estimate lacks a combination.
    #[error(
        "{} has no recordsize={recordsize}, compression={compression}, ashift={ashift}: estimate this combination too",
        quoted(path)
    )]
    NotEstimated {
        /// The file.
        path: PathBuf,
        /// Bytes of a record.
        recordsize: u64,
        /// The value of the property `compression`.
        compression: String,
        /// Sector size as a power of two.
        ashift: u32,
    },
    /// The caller stopped the run before the trace was measured.
    #[error("interrupted while measuring the trace")]
    Interrupted,
}

impl Error {
    /// Whether the request itself is invalid, rather than a file or the host at fault.
    pub fn is_invalid_request(&self) -> bool {
        match self {
            Error::ObjectsHaveNoRecordsize
            | Error::ObjectsHaveNoEstimate
            | Error::SmallArc { .. }
            | Error::SmallCache { .. }
            | Error::RecordedBelowCache
            | Error::Division(_)
            | Error::SeveralCompressions { .. }
            | Error::NotEstimated { .. } => true,
            Error::Model(_)
            | Error::ReadEstimate { .. }
            | Error::ParseEstimate { .. }
            | Error::Interrupted => false,
        }
    }
}

/// Result of an analysis.
pub type Result<T> = std::result::Result<T, Error>;
