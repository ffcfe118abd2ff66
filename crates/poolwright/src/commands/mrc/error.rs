//! Adds the command-line option at fault to an error of the analysis.

use poolwright_base::units::format_size;
use poolwright_mrc::analysis::Error;

/// Adds the option at fault to an error of the analysis.
pub fn with_option(error: Error) -> anyhow::Error {
    let option = match &error {
        Error::SmallArc { size, .. } | Error::SmallCache { size, .. } => {
            format!("--sizes {}", format_size(*size))
        }
        Error::RecordedBelowCache => "--split".to_owned(),
        _ => return error.into(),
    };
    anyhow::Error::new(error).context(option)
}
