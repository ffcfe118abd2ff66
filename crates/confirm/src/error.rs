use std::path::{Path, PathBuf};

use poolwright_host::quoted;
use poolwright_trace::format_size;

/// An error of a confirmation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan cannot be read or followed.
    #[error(transparent)]
    PlanFile(#[from] poolwright_plan::PlanFileError),
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
    #[error("cannot {action} {}: {source}", quoted(path))]
    Host {
        /// The action: `open`, `copy`.
        action: &'static str,
        /// Its object.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A trial failed.
    #[error("{0}")]
    Trial(String),
    /// The caller asked for an early end.
    #[error("interrupted")]
    Interrupted,
    /// The lab could not run a trial.
    #[error(transparent)]
    Lab(poolwright_lab::Error),
}

impl From<poolwright_lab::Error> for Error {
    fn from(error: poolwright_lab::Error) -> Error {
        match error {
            poolwright_lab::Error::Interrupted => Error::Interrupted,
            other => Error::Lab(other),
        }
    }
}

impl Error {
    /// For `map_err` after a system call.
    pub(crate) fn host(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Host { action, path, source }
    }
}

/// A result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;
