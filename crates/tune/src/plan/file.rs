//! Reading a plan from its file.

use std::path::{Path, PathBuf};

use poolwright_host::quoted;

use super::{FORMAT, Plan, VERSION};

/// A file that contains no plan that can be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", quoted(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// The host's error.
        cause: std::io::Error,
    },
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
    /// Following the plan could lose data.
    #[error("{} must not be followed: {}", quoted(path), problems.join("; "))]
    Unsafe {
        /// The plan's file.
        path: PathBuf,
        /// Its problems.
        problems: Vec<String>,
    },
}

impl Plan {
    /// Reads a plan, and checks that it can be followed.
    ///
    /// # Errors
    /// [`PlanFileError::Read`] if the file cannot be read, [`PlanFileError::NotAPlan`] for another format,
    /// [`PlanFileError::Version`] for a newer version, and [`PlanFileError::Unsafe`] if a check of the plan fails
    /// ([`Plan::problems`]).
    pub fn read(path: &Path) -> Result<Plan, PlanFileError> {
        let path = || path.to_owned();
        let text = std::fs::read(path()).map_err(|cause| PlanFileError::Read { path: path(), cause })?;
        let not_a_plan = |why: String| PlanFileError::NotAPlan { path: path(), why };
        let value: serde_json::Value =
            serde_json::from_slice(&text).map_err(|why| not_a_plan(format!("it is not JSON: {why}")))?;
        if value["format"] != FORMAT {
            return Err(not_a_plan(format!("its format is {}, not {FORMAT:?}", value["format"])));
        }
        if value["version"].as_u64().is_none_or(|version| version > VERSION.into()) {
            let (version, creator) = (value["version"].to_string(), value["creator"].to_string());
            return Err(PlanFileError::Version { path: path(), version, creator });
        }
        let plan: Plan = serde_json::from_value(value).map_err(|why| not_a_plan(why.to_string()))?;
        match plan.problems() {
            problems if problems.is_empty() => Ok(plan),
            problems => Err(PlanFileError::Unsafe { path: path(), problems }),
        }
    }
}
