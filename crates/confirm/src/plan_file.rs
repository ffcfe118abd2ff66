//! Reading a plan that is to be confirmed.

use std::path::Path;

use poolwright_tune::plan::{FORMAT, Plan, VERSION};

use crate::{Error, Result};

/// Reads a plan, and checks that it can be followed.
///
/// # Errors
/// [`Error::Host`] if the file cannot be read, [`Error::NotAPlan`] for another format, [`Error::PlanVersion`] for a newer
/// version, and [`Error::UnsafePlan`] if a check of the plan fails ([`Plan::problems`]).
pub fn read_plan(path: &Path) -> Result<Plan> {
    let text = std::fs::read(path).map_err(Error::host("read", path))?;
    let not_a_plan = |why: String| Error::NotAPlan { path: path.to_owned(), why };
    let value: serde_json::Value =
        serde_json::from_slice(&text).map_err(|why| not_a_plan(format!("it is not JSON: {why}")))?;
    if value["format"] != FORMAT {
        return Err(not_a_plan(format!("its format is {}, not {FORMAT:?}", value["format"])));
    }
    if value["version"].as_u64().is_none_or(|version| version > VERSION.into()) {
        return Err(Error::PlanVersion {
            path: path.to_owned(),
            version: value["version"].to_string(),
            creator: value["creator"].to_string(),
        });
    }
    let plan: Plan = serde_json::from_value(value).map_err(|why| not_a_plan(why.to_string()))?;
    match plan.problems() {
        problems if problems.is_empty() => Ok(plan),
        problems => Err(Error::UnsafePlan { path: path.to_owned(), problems }),
    }
}
