//! Reading a plan from its file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use poolwright_base::{Exit, PathError, ReportedError, cannot, quoted};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problems::tuned_properties;
use super::{FORMAT, Plan, PlanRisk, VERSION};

/// A file that contains no plan that can be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(#[from] PathError),
    /// The file is not a plan of this format.
    #[error("{} is not a plan: {why}", quoted(path))]
    NotAPlan {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// The plan was written by a newer release.
    #[error(
        "{} has format version {version}, and this release reads {VERSION}\nhint: use the release that wrote it ({creator})",
        quoted(path)
    )]
    Version {
        /// The plan's file.
        path: PathBuf,
        /// Its format version.
        version: String,
        /// The release that wrote it.
        creator: String,
    },
    /// The file beside a plan is not what its name says.
    #[error("{} is not a {format}: {why}\nhint: remove it, or measure again", quoted(path))]
    NotAMeasurement {
        /// The file.
        path: PathBuf,
        /// The format that it must have.
        format: String,
        /// The cause.
        why: String,
    },
    /// The plan is not one that `tune` could have made.
    #[error(
        "{} must not be followed: {}\nhint: use the plan as `poolwright tune` wrote it; a plan sets {} only, and `zfs set` others",
        quoted(path),
        problems.join("; "),
        tuned_properties()
    )]
    Unsafe {
        /// The plan's file.
        path: PathBuf,
        /// Its problems.
        problems: Vec<String>,
    },
    /// The plan sets values that can lose data, and the user has not named their properties.
    #[error("{} can lose data: {}", quoted(path), risks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Risky {
        /// The plan's file.
        path: PathBuf,
        /// The values that were not allowed.
        risks: Vec<PlanRisk>,
    },
}

impl ReportedError for PlanFileError {
    fn exit(&self) -> Exit {
        match self {
            PlanFileError::Unsafe { .. } | PlanFileError::Risky { .. } => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let PlanFileError::Risky { risks, .. } = self else { return None };
        let properties: BTreeSet<&str> = risks.iter().map(|risk| risk.property.as_str()).collect();
        let options: Vec<String> = properties.iter().map(|name| format!("--allow-unsafe {name}")).collect();
        Some(format!("`tune` never recommends this; if it is what you want: {}", options.join(" ")))
    }
}

/// What a reader does with values of a plan that can lose data ([`Plan::risks`]).
#[derive(Clone, Copy, Debug)]
pub enum RiskyValues<'a> {
    /// Reads them: nothing is set outside of a trial's pool.
    Read,
    /// Sets those of the properties that the user has named, and refuses the others.
    Set(&'a [String]),
}

impl Plan {
    /// Reads a plan, and refuses one that `tune` could not have made.
    ///
    /// # Errors
    /// As [`Plan::read_unchecked`]; [`PlanFileError::Unsafe`] if a check of the plan fails ([`Plan::problems`]), and
    /// [`PlanFileError::Risky`] for values that are neither only read nor allowed.
    pub fn read(path: &Path, values: RiskyValues<'_>) -> Result<Plan, PlanFileError> {
        let plan = Plan::read_unchecked(path)?;
        let defects = plan.defects();
        if !defects.is_empty() {
            return Err(PlanFileError::Unsafe { path: path.to_owned(), problems: defects });
        }
        let mut risks = plan.risks();
        match values {
            RiskyValues::Read => risks.clear(),
            RiskyValues::Set(allowed) => risks.retain(|risk| !allowed.contains(&risk.property)),
        }
        match risks.is_empty() {
            true => Ok(plan),
            false => Err(PlanFileError::Risky { path: path.to_owned(), risks }),
        }
    }

    /// Reads a plan that is not followed: `undo` goes by the journal of the plan, also of one that an older release has applied.
    ///
    /// # Errors
    /// [`PlanFileError::Read`] if the file cannot be read, [`PlanFileError::NotAPlan`] for another format, and
    /// [`PlanFileError::Version`] for a newer version.
    pub fn read_unchecked(path: &Path) -> Result<Plan, PlanFileError> {
        parse_json(path, FORMAT, &std::fs::read(path).map_err(cannot("read", path))?)
    }
}

/// Parses the text of a plan, or of a file beside one, after checking its format and version.
pub(super) fn parse_json<T: DeserializeOwned>(
    path: &Path,
    format: &str,
    text: &[u8],
) -> Result<T, PlanFileError> {
    let path = || path.to_owned();
    let invalid = |why: String| match format {
        FORMAT => PlanFileError::NotAPlan { path: path(), why },
        _ => PlanFileError::NotAMeasurement { path: path(), format: format.to_owned(), why },
    };
    let value: Value =
        serde_json::from_slice(text).map_err(|why| invalid(format!("it is not JSON: {why}")))?;
    if value["format"] != format {
        return Err(invalid(format!("its format is {}, not {format:?}", value["format"])));
    }
    if value["version"].as_u64().is_none_or(|version| version > VERSION.into()) {
        let (version, creator) = (value["version"].to_string(), value["creator"].to_string());
        return Err(PlanFileError::Version { path: path(), version, creator });
    }
    serde_json::from_value(value).map_err(|why| invalid(why.to_string()))
}
