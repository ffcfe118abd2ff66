use std::path::PathBuf;

use poolwright_base::units::format_size;
use poolwright_base::{Exit, PathError, ReportedError, quoted};
use poolwright_lab::Error as LabError;
use poolwright_plan::PlanFileError;

/// An error of a confirmation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan cannot be read or followed.
    #[error(transparent)]
    PlanFile(#[from] PlanFileError),
    /// The plan contains no setting that could be compared with today's.
    #[error(
        "the plan contains no setting to compare with today's: nothing is recommended, and none was replayed"
    )]
    NothingToCompare,
    /// The machine has less memory than the ARC of the plan's trials.
    #[error(
        "the plan's trials had an ARC of {}, and this machine has only {} of memory",
        format_size(*arc),
        format_size(*memory)
    )]
    Memory {
        /// The ARC in bytes.
        arc: u64,
        /// The memory in bytes.
        memory: u64,
    },
    /// A process has one of the database's files open for writing.
    #[error("{} is open for writing in {name} (process {pid})", quoted(path))]
    InUse {
        /// The process.
        pid: i32,
        /// Its name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// A link of the database leads to what belongs to another user.
    #[error(
        "{} leads to {}, which belongs to user {owner}, not to the owner of the database's directory",
        quoted(link),
        quoted(target)
    )]
    OtherOwner {
        /// The link.
        link: PathBuf,
        /// Where it leads.
        target: PathBuf,
        /// The user.
        owner: u32,
    },
    /// The dataset for the trials has too little space.
    #[error(
        "the trials need {} below {dataset}, and may use {}, half of what is available there",
        format_size(*needed),
        format_size(*available)
    )]
    DatasetSpace {
        /// The dataset.
        dataset: String,
        /// The bytes that a trial needs.
        needed: u64,
        /// The bytes that it may use.
        available: u64,
    },
    /// A system call failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// A trial failed.
    #[error("{0}")]
    Trial(String),
    /// The caller asked for an early end.
    #[error("interrupted")]
    Interrupted,
    /// The lab could not run a trial.
    #[error(transparent)]
    Lab(LabError),
}

impl From<LabError> for Error {
    fn from(error: LabError) -> Error {
        match error {
            LabError::Interrupted => Error::Interrupted,
            other => Error::Lab(other),
        }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::PlanFile(PlanFileError::NotAPlan { .. }) | Error::NothingToCompare => Exit::Usage,
            Error::PlanFile(cause) => cause.exit(),
            Error::InUse { .. } | Error::OtherOwner { .. } | Error::Lab(LabError::Unsafe { .. }) => {
                Exit::Refused
            }
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::InUse { .. } => "stop the database, or name a copy of a stopped one with --dir",
            Error::OtherOwner { .. } => "replace the link, or name a copy of the database with --dir",
            Error::DatasetSpace { .. } => "free space on the pool, or raise the quota of the dataset",
            Error::Memory { .. } => "make a plan for this machine with --arc",
            // Other hints of the lab are about its campaigns and targets.
            Error::Lab(
                cause @ (LabError::Locked { .. } | LabError::Unsafe { .. } | LabError::NoSpace { .. }),
            ) => return cause.hint(),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
