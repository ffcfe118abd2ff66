//! The errors of verifying a plan.

use std::path::PathBuf;

use poolwright_base::{Exit, PathError, ReportedError, quoted};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a plan was not verified.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The recording failed.
    #[error(transparent)]
    Record(#[from] poolwright_record::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// The properties of a dataset cannot be read.
    #[error(transparent)]
    Datasets(#[from] poolwright_zfs::datasets::Error),
    /// A command of the kernel's OpenZFS failed.
    #[error(transparent)]
    Command(#[from] poolwright_zfs::kernel::CommandError),
    /// The kernel's counters cannot be read.
    #[error(transparent)]
    Kstat(#[from] poolwright_zfs::kernel::KstatError),
    /// A request to the owner of a pool of the user-space engine failed.
    #[error(transparent)]
    UserPool(#[from] poolwright_zfs::user::Error),
    /// The host failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The command that counts the application's work failed.
    #[error("cannot count the work: `{command}` {why}")]
    Work {
        /// The command.
        command: String,
        /// What it did.
        why: String,
    },
    /// The plan describes another database.
    #[error("{0}")]
    OtherDatabase(String),
    /// A recording is not one of the plan's database.
    #[error("{} is a recording of {subject}, but the plan was made for {expected}", quoted(path))]
    OtherRecording {
        /// The trace.
        path: PathBuf,
        /// What it recorded.
        subject: String,
        /// What it should have recorded.
        expected: String,
    },
    /// The recording was ended because its evaluation would have taken too much memory.
    #[error(
        "{events} events were recorded after {seconds:.0} s, and their evaluation would take more than half of the available memory"
    )]
    TooManyEvents {
        /// Events so far.
        events: u64,
        /// Length of the recording until then, in seconds.
        seconds: f64,
    },
    /// The plan was applied, undone or changed during the recording.
    #[error("{0} during the recording, so that it shows neither state")]
    Changed(String),
    /// No process used a file of the database during the recording.
    #[error("nothing was recorded: no process used a file in {}", quoted(.0))]
    NothingRecorded(PathBuf),
    /// The user interrupted the recording.
    #[error("interrupted")]
    Interrupted,
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::OtherDatabase(_) => Exit::Refused,
            Error::Record(cause) => cause.exit(),
            Error::Datasets(cause) => cause.exit(),
            _ => Exit::Failed,
        }
    }

    // The hint of a recording that is impossible here is another trace, which does not verify a plan.
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::NothingRecorded(_) => "verify a plan while the database has its load",
            Error::TooManyEvents { .. } => "record for a shorter time with --for",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
