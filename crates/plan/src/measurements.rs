//! What `confirm` and `verify` measure under a plan's settings. Each writes a file of its own beside the plan, which names the plan by
//! its identifier ([`Plan::id`]); the plan's file does not change.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::file::read_json;
use super::{Confirmation, Plan, PlanFileError, Verification};

/// The content of a file beside a plan.
pub trait Measurement: DeserializeOwned {
    /// The value of the field `format`.
    const FORMAT: &str;
    /// What replaces the plan's extension in the name of the file: `confirmation.json`.
    const EXTENSION: &str;

    /// The identifier of the plan whose settings were measured.
    fn plan(&self) -> &str;

    /// Returns the path of the file beside the plan at `plan`: `plan.confirmation.json` for `plan.json`.
    fn path_beside(plan: &Path) -> PathBuf {
        plan.with_extension(Self::EXTENSION)
    }

    /// Reads the file beside the plan at `path`. Returns `None` if there is none, or if it is about another plan, which was at this path
    /// before.
    ///
    /// # Errors
    /// As [`Plan::read_unchecked`].
    fn beside(path: &Path, plan: &Plan) -> Result<Option<Self>, PlanFileError> {
        match read_json::<Self>(&Self::path_beside(path), Self::FORMAT) {
            Ok(found) => Ok(Some(found).filter(|found| found.plan() == plan.id())),
            Err(PlanFileError::Read(failed)) if failed.cause.kind() == ErrorKind::NotFound => Ok(None),
            Err(why) => Err(why),
        }
    }
}

impl Measurement for Confirmation {
    const FORMAT: &str = "poolwright-confirmation";
    const EXTENSION: &str = "confirmation.json";

    fn plan(&self) -> &str {
        &self.plan
    }
}

impl Measurement for Verification {
    const FORMAT: &str = "poolwright-verification";
    const EXTENSION: &str = "verification.json";

    fn plan(&self) -> &str {
        &self.plan
    }
}

/// The measurements of a plan's settings that exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// The database itself under the plan's settings, measured by `confirm`.
    pub confirmation: Option<Confirmation>,
    /// The database in operation before and after the plan was applied, measured by `verify`.
    pub verification: Option<Verification>,
}

impl Measurements {
    /// Reads the files beside the plan at `path`.
    ///
    /// # Errors
    /// As [`Measurement::beside`].
    pub fn beside(path: &Path, plan: &Plan) -> Result<Measurements, PlanFileError> {
        Ok(Measurements {
            confirmation: Confirmation::beside(path, plan)?,
            verification: Verification::beside(path, plan)?,
        })
    }

    /// Returns the confirmation if it contradicts the plan's verdict.
    pub fn contradiction(&self) -> Option<&Confirmation> {
        self.confirmation.as_ref().filter(|found| found.contradicts_the_plan())
    }
}
