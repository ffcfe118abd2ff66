//! Errors of traces.

use std::path::{Path, PathBuf};

use poolwright_base::{Exit, PathError, ReportedError, cannot, quoted};

use crate::Encoding;

/// An error of this crate. Each message names the operation and its object, and the remedy if it is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operating-system call failed.
    #[error(transparent)]
    Io(#[from] PathError),
    /// The trace could not be continued, on a full disk for example.
    #[error("cannot write {}: {source}\nhint: {}", quoted(path), kept(*events))]
    CutShort {
        /// The trace.
        path: PathBuf,
        /// The number of events in the trace, which is valid; 0 if there is no trace.
        events: u64,
        /// The cause.
        source: std::io::Error,
    },
    /// The file is not a trace.
    #[error("{} is not a Poolwright trace: {why}", quoted(path))]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// The observation, for example "it is not a Parquet file".
        why: String,
    },
    /// The file starts like a trace but ends before its first checkpoint.
    #[error(
        "{} is truncated: it starts like a trace but contains no complete footer\nhint: copy the file again, or make a new recording",
        quoted(.0)
    )]
    Truncated(PathBuf),
    /// The end of the trace is torn, and no event is left.
    #[error(
        "{} is torn: no event precedes the torn part, which is {lost} of its {len} bytes\n\
         hint: copy the file again, or make a new recording",
        quoted(path)
    )]
    NothingLeft {
        /// The file.
        path: PathBuf,
        /// The number of bytes in the torn part.
        lost: u64,
        /// The length of the file in bytes.
        len: u64,
    },
    /// The trace has a later format version.
    #[error(
        "{} has trace format {version}, but this program reads formats up to {}\nhint: use the newer poolwright that wrote the file",
        quoted(path),
        crate::FORMAT_VERSION
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: String,
    },
    /// The file is a trace with invalid contents.
    #[error("{} is damaged: {why}\nhint: copy the file again, or make a new recording", quoted(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The inconsistency.
        why: String,
    },
    /// The trace has more events than fit into the available memory.
    #[error("{} contains {}, which take {} of memory, but only {} is available\nhint: record for a shorter time", quoted(path),
        poolwright_base::units::counted(*events, "event"), poolwright_base::units::format_size(*needed), poolwright_base::units::format_size(*available))]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The number of events.
        events: u64,
        /// Required memory in bytes.
        needed: u64,
        /// Available memory in bytes.
        available: u64,
    },
    /// The target exists and is not a trace.
    #[error(
        "will not overwrite {}: it is not a Poolwright trace\nhint: choose another name, or remove the file",
        quoted(.0)
    )]
    NotOverwritten(PathBuf),
    /// The target is an earlier recording, which cannot be made again.
    #[error("will not overwrite {}: it is an earlier recording", quoted(.0))]
    Recorded(PathBuf),
    /// The caller pushed an event of a file that it had not registered.
    #[error("event of file {file}, but the trace has only {known} files")]
    UnknownFile {
        /// The file id in the event.
        file: u32,
        /// The number of registered files.
        known: usize,
    },
    /// An earlier write failed. The trace on disk ends at the last checkpoint before it.
    #[error("cannot write {}: an earlier write failed; the trace ends at its last checkpoint", quoted(.0))]
    Poisoned(PathBuf),
    /// The Parquet encoder failed.
    #[error("cannot encode events for {}: {source}", quoted(path))]
    Encode {
        /// The trace.
        path: PathBuf,
        /// The cause.
        source: parquet::errors::ParquetError,
    },
    /// A line of a foreign trace is invalid.
    #[error("{}:{line}: {why}", quoted(path))]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line number, counted from 1.
        line: u64,
        /// The expected and the actual contents.
        why: String,
    },
    /// The trace contains something that the export format cannot represent.
    #[error("cannot export to {}: {why}", quoted(path))]
    Export {
        /// The target.
        path: PathBuf,
        /// The cause and the remedy.
        why: String,
    },
    /// The file to import has no known format.
    #[error("{}: unrecognised format (known: {known})", quoted(path))]
    UnrecognisedFormat {
        /// The file.
        path: PathBuf,
        /// Names of the known formats, separated by commas.
        known: String,
    },
    /// The file has an encoding that no reader of foreign files decodes.
    #[error(
        "{} is {}, which poolwright does not decode\nhint: decode it: {} < {} > PLAIN",
        quoted(path),
        encoding.name(),
        encoding.command(),
        quoted(path)
    )]
    Encoded {
        /// The file.
        path: PathBuf,
        /// Its encoding.
        encoding: Encoding,
    },
    /// An importer cannot import the file.
    #[error("{}: {why}", quoted(path))]
    Import {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::NotOverwritten(_) | Error::Recorded(_) => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let is_unrecognised = matches!(self, Error::UnrecognisedFormat { .. });
        is_unrecognised.then(|| {
            "a fio log (fio --write_iolog) begins with the line \"fio version 3 iolog\" or 2".to_owned()
        })
    }
}

/// What is left of a trace that could not be continued.
fn kept(events: u64) -> String {
    match events {
        0 => "no trace was written, and an existing one of that name is unchanged; free space, or write to another file system".to_owned(),
        events => format!(
            "the trace is valid up to this point, with {}; to record more, free space or write to another file system",
            poolwright_base::units::counted(events, "event")
        ),
    }
}

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns a function that adds the operation and the file to an I/O error.
pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let failed = cannot(action, path);
    move |cause| failed(cause).into()
}
