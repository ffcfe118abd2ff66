//! The options that an error of the analysis is about.

use poolwright_mrc::Error as ModelError;
use poolwright_mrc::analysis::Error;
use poolwright_trace::format_size;

use crate::commands::options::Usage;
use crate::failure::hint;

/// Adds the option at fault, a hint and the marker of the exit code to an error of the analysis.
pub fn with_options(error: Error) -> anyhow::Error {
    let option = match &error {
        Error::SmallArc { size, .. } | Error::SmallCache { size, .. } => {
            Some(format!("--sizes {}", format_size(*size)))
        }
        Error::RecordedBelowCache => Some("--split".to_owned()),
        _ => None,
    };
    let todo = todo(&error);
    let is_invalid = error.is_invalid_request();
    let mut error = anyhow::Error::new(error);
    if let Some(option) = option {
        error = error.context(option);
    }
    if let Some(todo) = todo {
        error = error.context(hint(todo));
    }
    if is_invalid { error.context(Usage) } else { error }
}

fn todo(error: &Error) -> Option<&'static str> {
    match error {
        Error::SmallArc { .. } => Some("use --model lru or arc for smaller caches"),
        Error::RecordedBelowCache => Some(
            "use a .lis or oracleGeneral trace of page requests, or change the database's cache and record again",
        ),
        Error::ParseEstimate { .. } => Some("make one with `poolwright estimate --json`"),
        Error::SeveralCompressions { .. } => Some("choose one with --compression"),
        Error::Interrupted => Some("use --sizes, so that the trace need not be measured"),
        Error::Division(ModelError::SmallRecords { .. }) => {
            Some("use a --recordsize that is at least the page size of the trace")
        }
        Error::Model(ModelError::UnknownFormat { .. }) => {
            Some("if it has one of these formats and begins with invalid requests, use --format")
        }
        Error::Model(ModelError::TooManyRecords) => Some("use --sample, or a larger --recordsize"),
        Error::Model(ModelError::NothingSelected { .. }) => {
            Some("`poolwright trace show` lists the files with their roles")
        }
        _ => None,
    }
}
