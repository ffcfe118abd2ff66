//! Errors of an analysis.

use std::path::PathBuf;

use poolwright_base::units::format_size;
use poolwright_base::{Exit, PathError, ReportedError, quoted};

use crate::Error as ModelError;

/// An error of an analysis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or modelling the trace failed.
    #[error(transparent)]
    Model(#[from] ModelError),
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
    #[error("the cache is smaller than one record of {}", format_size(*record))]
    SmallCache {
        /// The requested size in bytes.
        size: u64,
        /// Bytes of the largest record.
        record: u64,
    },
    /// A division was requested for a trace that was recorded below the database's own cache.
    #[error(
        "dividing memory needs the requests to the database's own cache, and this trace was recorded below that cache: it \
         lacks the requests that the cache answered, so it cannot predict another size of that cache"
    )]
    RecordedBelowCache,
    /// The division does not fit the pages of the trace.
    #[error(transparent)]
    Division(ModelError),
    /// The estimate cannot be read.
    #[error(transparent)]
    ReadEstimate(#[from] PathError),
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

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::ObjectsHaveNoRecordsize
            | Error::ObjectsHaveNoEstimate
            | Error::SmallArc { .. }
            | Error::SmallCache { .. }
            | Error::RecordedBelowCache
            | Error::Division(_)
            | Error::SeveralCompressions { .. }
            | Error::NotEstimated { .. } => Exit::Usage,
            Error::Model(_) | Error::ReadEstimate(_) | Error::ParseEstimate { .. } | Error::Interrupted => {
                Exit::Failed
            }
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::SmallArc { .. } => "use --model lru or arc for smaller caches",
            Error::RecordedBelowCache => {
                "use a .lis or oracleGeneral trace of page requests, or change the database's cache and record again"
            }
            Error::ParseEstimate { .. } => "create one with `poolwright estimate --json`",
            Error::SeveralCompressions { .. } => "choose one with --compression",
            Error::Interrupted => "use --sizes, which makes measuring the trace unnecessary",
            Error::Division(ModelError::SmallRecords { .. }) => {
                "use a --recordsize that is at least the page size of the trace"
            }
            Error::Model(ModelError::UnknownFormat { .. }) => {
                "if it has one of these formats and begins with invalid requests, use --format"
            }
            Error::Model(ModelError::TooManyRecords) => "use --sample, or a larger --recordsize",
            Error::Model(ModelError::NothingSelected { .. }) => {
                "`poolwright trace show` lists the files with their roles"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Result of an analysis.
pub type Result<T> = std::result::Result<T, Error>;
