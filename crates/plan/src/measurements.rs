//! The measurements of a plan's settings.

use std::path::Path;

use super::beside::BesidePlan as _;
use super::{Confirmation, Plan, PlanFileError, Verification};

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
    /// As [`BesidePlan::beside`](super::BesidePlan::beside).
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
