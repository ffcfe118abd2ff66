//! Errors of a trial.

use std::path::PathBuf;

use poolwright_base::{PathError, ReportedError, cannot, quoted};
use poolwright_trace::layout::{Role, UnknownRole};

use crate::missing_files::MissingFiles;

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a trial or its preparation.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine returned an error.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// A command of the kernel's OpenZFS failed.
    #[error(transparent)]
    Command(#[from] poolwright_zfs::kernel::CommandError),
    /// The counters of the kernel's OpenZFS cannot be read.
    #[error(transparent)]
    Kstat(#[from] poolwright_zfs::kernel::KstatError),
    /// The pool is not imported any more, or its release of OpenZFS does not count the I/O of vdevs.
    #[error("cannot count the I/O of the pool {pool}: OpenZFS 2.2 or later is required")]
    NoVdevCounters {
        /// The pool.
        pool: String,
    },
    /// A trial was stopped because the pool became slow while others used it.
    #[error(
        "the trial was stopped: half of the I/O of the pool {pool} took longer than {} (limit: {}) while others used it",
        time(*median_ns), time(*limit_ns)
    )]
    SlowsOthers {
        /// The pool.
        pool: String,
        /// The median of the devices' I/O in nanoseconds.
        median_ns: u64,
        /// The limit in nanoseconds.
        limit_ns: u64,
    },
    /// No further trial was started, because the trials have written as much to a pool of the kernel as they may.
    #[error(
        "no more trials: the next one would write about {}, and all trials together may write {} to the pool",
        poolwright_base::units::format_size(*next), poolwright_base::units::format_size(*limit)
    )]
    WroteEnough {
        /// What the next trial would write, in bytes.
        next: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The dataset of a trial could not be destroyed.
    #[error("cannot destroy the dataset {0} of a trial\nhint: zfs destroy -r {0}")]
    DatasetLeft(String),
    /// An operation on a file or directory of the host failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The scratch directory has too little free space for the trial.
    #[error(
        "{} has only {} MiB free, but the trial needs about {} MiB",
        quoted(path), free >> 20, needed >> 20
    )]
    NoRoom {
        /// The scratch directory.
        path: PathBuf,
        /// Free space in bytes.
        free: u64,
        /// Required space in bytes.
        needed: u64,
    },
    /// A trial has nearly filled the file system that it writes to.
    #[error(
        "the trial was stopped: {} has only {} MiB free (in memory, limited by available memory)",
        quoted(path), free >> 20
    )]
    UsedUp {
        /// The scratch directory.
        path: PathBuf,
        /// Free space in bytes.
        free: u64,
    },
    /// The trace touches more log data than a trial's pool can store; logs are never sampled.
    #[error(
        "the trace touches {} of logs and temporary files, but at most {} can be replayed\nhint: record for a shorter time",
        poolwright_base::units::format_size(*bytes), poolwright_base::units::format_size(*most)
    )]
    TooMuchLog {
        /// Touched bytes.
        bytes: u64,
        /// The limit in bytes.
        most: u64,
    },
    /// Nothing of the trace can be replayed.
    #[error("{0}")]
    Nothing(String),
    /// The sample is so small that it contains no operation of the trace.
    #[error(
        "a sample of {} of the {} that the trace touches contains no reads or writes",
        size(*max), size(*touched)
    )]
    SampleTooSmall {
        /// The limit on the sample in bytes.
        max: u64,
        /// Bytes that the trace touches.
        touched: u64,
    },
    /// No role has this name.
    #[error(transparent)]
    UnknownRole(#[from] UnknownRole),
    /// A role to replay has no file in the trace.
    #[error("{} has no file of the role {role}; it has {}", quoted(trace), Role::list(known))]
    NoFileOfRole {
        /// The trace.
        trace: PathBuf,
        /// The role.
        role: Role,
        /// The roles of the trace.
        known: Vec<Role>,
    },
    /// A setting is for a role without files in the trace.
    #[error(
        "{role}:… sets nothing: {} has no file of that role; it has {}",
        quoted(trace),
        Role::list(known)
    )]
    UnusedSetting {
        /// The trace.
        trace: PathBuf,
        /// The role.
        role: Role,
        /// The roles of the trace.
        known: Vec<Role>,
    },
    /// A setting is for a role that is not replayed.
    #[error("{role}:… sets nothing: only {} is replayed", Role::list(selected))]
    UnselectedSetting {
        /// The role.
        role: Role,
        /// The roles to replay.
        selected: Vec<Role>,
    },
    /// The directory that should hold the files of the trace does not exist.
    #[error("no such directory")]
    NoSourceDir,
    /// No file of the trace exists.
    #[error("{0}")]
    NoSourceFiles(MissingFiles),
    /// A specification or a capture's index is invalid.
    #[error("invalid {what} {}: {why}", quoted(path))]
    Malformed {
        /// The expected contents of the file.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is invalid.
        why: String,
    },
    /// The child process of a trial failed.
    #[error("the trial failed: {0}")]
    Child(String),
    /// The trial was stopped because it reached its time limit.
    #[error("the trial reached its time limit of {0:?} and was stopped")]
    TooLong(std::time::Duration),
    /// The user interrupted the trial.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Whether no further trial may run: the user interrupted, or a pool of the kernel must be left alone.
    pub fn ends_the_run(&self) -> bool {
        matches!(self, Error::Interrupted | Error::SlowsOthers { .. } | Error::DatasetLeft(_))
    }
}

impl ReportedError for Error {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::NoRoom { .. } => {
                "free space, name another directory with --scratch, or lower --sample-bytes"
            }
            Error::UsedUp { .. } => "name another directory with --scratch",
            Error::WroteEnough { .. } => "raise --max-bytes",
            Error::SlowsOthers { .. } => {
                "run the trials when the pool is less busy, raise --max-io-time, or omit --on to run the trials on the engine"
            }
            Error::SampleTooSmall { .. } => "raise --sample-bytes",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

fn time(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

fn size(bytes: u64) -> String {
    poolwright_base::units::format_size(bytes) + if bytes < 1024 { "B" } else { "" }
}

/// Returns a function that adds the operation and its file to an I/O error.
pub(crate) fn host(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
    let failed = cannot(what, path);
    move |cause| failed(cause).into()
}
