//! Errors of inputs and models.

use std::path::PathBuf;

use poolwright_base::recordsize::invalid_recordsize;
use poolwright_base::units::format_size;
use poolwright_base::{PathError, quoted};

/// An error of an input or a model. The message says what failed, on which object, and why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system returned an error.
    #[error(transparent)]
    Io(#[from] PathError),
    /// The file is damaged or has another format.
    #[error("{}, {location}: {why}", quoted(path))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `line 12`, `record 7 (byte 168)`.
        location: String,
        /// What is wrong, and what was expected.
        why: String,
    },
    /// The file has no content.
    #[error("{} is empty", quoted(.0))]
    Empty(PathBuf),
    /// The file has none of the known formats.
    #[error("{}: unknown format: neither a Poolwright trace, nor .lis, nor oracleGeneral", quoted(path))]
    UnknownFormat {
        /// The file.
        path: PathBuf,
    },
    /// The file is another program's trace, which can be imported.
    #[error(
        "{} is another program's {format}\nhint: convert it: poolwright trace import {} -o T.parquet",
        quoted(path),
        quoted(path)
    )]
    NotImported {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// Reading a Poolwright trace failed.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// The selection matches no file of the trace.
    #[error("{}: {why}", quoted(path))]
    NothingSelected {
        /// The trace.
        path: PathBuf,
        /// Why nothing matches, and what the trace has.
        why: String,
    },
    /// Files were selected from a trace whose format has no files.
    #[error("{}: a trace of the format {format} has no files to select", quoted(path))]
    NoFiles {
        /// The trace.
        path: PathBuf,
        /// Its format.
        format: &'static str,
    },
    /// Not a recordsize of OpenZFS, in bytes.
    #[error("{}", invalid_recordsize(.0))]
    Recordsize(u64),
    /// Not a share of the records.
    #[error("the sampling rate is {0}, but must be above 0 and at most 1")]
    SamplingRate(f64),
    /// Too little memory for the smallest sample.
    #[error("a sample needs at least {} of memory, not {given} bytes", format_size(*least))]
    SamplingMemory {
        /// The given memory in bytes.
        given: u64,
        /// The minimum in bytes.
        least: u64,
    },
    /// More different records than record numbers.
    #[error("the trace has more than {} different records", u32::MAX)]
    TooManyRecords,
    /// A page of the database does not lie in one record.
    #[error("pages of {} do not fit into records of {}", format_size(*page), format_size(*recordsize))]
    SmallRecords {
        /// Bytes of a page.
        page: u64,
        /// Bytes of a record.
        recordsize: u64,
    },
}

/// Result of an input or a model.
pub type Result<T> = std::result::Result<T, Error>;
