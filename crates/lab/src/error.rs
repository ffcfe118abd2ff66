//! The errors of the lab.

use std::path::PathBuf;

use poolwright_base::units::format_size;
use poolwright_base::{Exit, PathError, ReportedError, quoted};

/// The reason why an operation of the lab failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A campaign's file is invalid.
    #[error("{}:{line}:{column}: {why}", quoted(path))]
    Campaign {
        /// Path of the file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What is wrong, and what is allowed.
        why: String,
    },
    /// The host failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The user asked for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// Another run uses the scratch directory.
    #[error("{} is in use by another run (process {holder})", quoted(path))]
    Locked {
        /// The scratch directory.
        path: PathBuf,
        /// Process ID of the other run.
        holder: String,
    },
    /// The scratch directory's predictable name is used by something that another user may have created.
    #[error("cannot use {}: {why}", quoted(path))]
    Unsafe {
        /// The scratch directory or its lock file.
        path: PathBuf,
        /// Why it is not used.
        why: poolwright_base::private::Unsafe,
    },
    /// Something that a run requires is missing.
    #[error("{0}")]
    Missing(String),
    /// Some of the chosen studies cannot run on the target.
    #[error("study {study:?} {why}")]
    UnfitTarget {
        /// Name of the first of these studies.
        study: String,
        /// What the target lacks, after the name of the study.
        why: &'static str,
        /// Names of the studies that can run on the target.
        others: Vec<String>,
    },
    /// The datasets of a trial cannot be used.
    #[error(transparent)]
    Datasets(#[from] poolwright_replay::Error),
    /// An ordinary user can mount only with a program that is not there.
    #[error(
        "fusermount3 is not in the PATH, and without it only root can mount a dataset\n\
         hint: install the package fuse3, or run as root"
    )]
    NoHelper,
    /// The kernel's FUSE device cannot be used.
    #[error("cannot open /dev/fuse: {0}\nhint: install fuse3 and load the module fuse")]
    NoFuse(std::io::Error),
    /// The directory has too little free space for a trial.
    #[error("{} has {} free, but a trial may need {}", quoted(path), format_size(*free), format_size(*needed))]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// Free space in bytes.
        free: u64,
        /// Required space in bytes.
        needed: u64,
    },
    /// A trial failed.
    #[error("{0}")]
    Trial(String),
    /// The object to change is in use.
    #[error("{0}")]
    Busy(String),
    /// The results cannot be read or written.
    #[error("cannot use the results in {location}: {why}")]
    Store {
        /// Path of the file.
        location: String,
        /// SQLite's error.
        why: String,
    },
    /// There is no file with results.
    #[error("no results of {campaign}: {location} does not exist")]
    NoResults {
        /// Path of the file.
        location: String,
        /// Name of the campaign.
        campaign: String,
    },
    /// The results have no such run.
    #[error("{}", no_run(location, campaign, *wanted, known))]
    NoRun {
        /// Path of the file.
        location: String,
        /// Name of the campaign.
        campaign: String,
        /// The number of the run; `None` for the latest.
        wanted: Option<i64>,
        /// The numbers of the campaign's runs.
        known: Vec<i64>,
    },
    /// The campaign that is stored with a run is invalid.
    #[error("the campaign file stored with run {run} is invalid: {why}")]
    StoredCampaign {
        /// Number of the run.
        run: i64,
        /// What is invalid.
        why: Box<Error>,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

fn no_run(location: &str, campaign: &str, wanted: Option<i64>, known: &[i64]) -> String {
    match wanted {
        Some(wanted) if !known.is_empty() => {
            let known: Vec<String> = known.iter().map(i64::to_string).collect();
            format!("{location} has no run {wanted} of {campaign}; it has {}", known.join(", "))
        }
        _ => format!("{location} has no run of {campaign}"),
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Usage(_) | Error::UnfitTarget { .. } => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::UnfitTarget { others, .. } if others.is_empty() => {
                "none of the campaign's studies can run there"
            }
            Error::UnfitTarget { others, .. } => {
                return Some(format!("these studies can: --only {}", others.join(",")));
            }
            Error::Datasets(cause) => return cause.hint(),
            Error::NoResults { campaign, .. } => {
                return Some(format!("`poolwright lab run {campaign}` creates them"));
            }
            Error::NoRun { campaign, known, .. } if known.is_empty() => {
                return Some(format!("`poolwright lab run {campaign}` creates one"));
            }
            Error::NoHelper | Error::NoFuse(_) => {
                "or measure the host's file system with --target directory:PATH"
            }
            Error::Locked { .. } => "wait until that run ends, or choose another directory with --scratch",
            Error::Unsafe { .. } => "remove it, or choose another directory with --scratch",
            Error::NoSpace { .. } => "choose another directory with --scratch",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
