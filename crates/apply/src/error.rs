//! The errors of applying and undoing a plan.

use std::path::PathBuf;

use poolwright_base::{Exit, PathError, ReportedError, quoted};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a plan was not applied or not undone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The plan cannot be read or must not be followed.
    #[error(transparent)]
    Plan(#[from] poolwright_plan::PlanFileError),
    /// A pool could not be read or changed.
    #[error(transparent)]
    Datasets(#[from] poolwright_zfs::datasets::Error),
    /// Going on could lose data, or change what the plan does not describe. The text can end with a line `hint: …`.
    #[error("{0}")]
    Refused(String),
    /// The host failed.
    #[error(transparent)]
    Host(#[from] PathError),
    /// The journal cannot be understood.
    #[error("the journal {} is damaged: {why}", quoted(path))]
    Journal {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// A file with a state cannot be understood.
    #[error("{} is damaged: {why}", quoted(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The defect.
        why: String,
    },
    /// A copy differs from its original after it was written.
    #[error("the copy of {} differs {what}", quoted(path))]
    Different {
        /// The original: a file or directory.
        path: PathBuf,
        /// Where or in what they differ: `at byte 7`, `in its mode`.
        what: String,
    },
    /// The database could not be stopped, started or asked.
    #[error(transparent)]
    Database(poolwright_dbms::Error),
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
    /// Errors of steps that do not need each other.
    #[error("{}", several(.0))]
    Several(Vec<Error>),
    /// An error, and what was done about it.
    #[error("{cause}\n{outcome}")]
    WithOutcome {
        /// The error.
        cause: Box<Error>,
        /// The state in which the database and the datasets are, for the user.
        outcome: String,
    },
}

impl Error {
    /// Whether this is a refusal for safety.
    pub fn is_refusal(&self) -> bool {
        self.exit() == Exit::Refused
    }

    /// Adds the state in which the run left the database.
    pub(crate) fn with_outcome(self, outcome: impl Into<String>) -> Error {
        Error::WithOutcome { cause: Box::new(self), outcome: outcome.into() }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Refused(_) => Exit::Refused,
            Error::Plan(cause) => cause.exit(),
            Error::Datasets(cause) => cause.exit(),
            Error::Database(cause) => cause.exit(),
            Error::WithOutcome { cause, .. } => cause.exit(),
            Error::Several(causes) if causes.iter().all(Error::is_refusal) => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Error::Plan(cause) => cause.hint(),
            Error::WithOutcome { cause, .. } => cause.hint(),
            _ => None,
        }
    }
}

impl From<poolwright_dbms::Error> for Error {
    fn from(cause: poolwright_dbms::Error) -> Error {
        match cause {
            poolwright_dbms::Error::Interrupted => Error::Interrupted,
            cause => Error::Database(cause),
        }
    }
}

/// Collects the errors of steps that do not need each other.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<Error>);

impl Errors {
    /// The value of a step, unless it failed.
    pub fn keep<T>(&mut self, step: Result<T>) -> Option<T> {
        step.map_err(|error| self.0.push(error)).ok()
    }

    /// All errors as one.
    pub fn into_result(mut self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(Error::Several(self.0)),
        }
    }
}

/// The messages of several errors, and then their hints.
fn several(causes: &[Error]) -> String {
    let texts: Vec<String> = causes.iter().map(Error::to_string).collect();
    let (hints, messages): (Vec<&str>, Vec<&str>) =
        texts.iter().flat_map(|text| text.lines()).partition(|line| line.starts_with("hint: "));
    [vec![messages.join("; ").as_str()], hints].concat().join("\n")
}

/// A refusal.
pub(crate) fn refused<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Refused(why.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_errors_have_their_hints_at_the_end() {
        let mut errors = Errors::default();
        assert_eq!(errors.keep(Ok(7)), Some(7));
        errors.keep(refused::<()>("a is in use\nhint: stop it"));
        errors.keep(refused::<()>("b is held\nhint: release it"));
        let error = errors.into_result().unwrap_err();
        assert!(error.is_refusal());
        assert_eq!(error.to_string(), "a is in use; b is held\nhint: stop it\nhint: release it");
        let mut mixed = Errors::default();
        mixed.keep::<()>(Err(error));
        mixed.keep::<()>(Err(Error::Interrupted));
        assert!(!mixed.into_result().unwrap_err().is_refusal());
        assert!(Errors::default().into_result().is_ok());
    }
}
