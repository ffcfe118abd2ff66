//! Files beside a plan: `confirm` and `verify` write what they measured to a file of their own, which names the plan by its identifier
//! ([`Plan::id`]); the plan's file does not change.

use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use poolwright_base::{cannot, regular};
use serde::de::DeserializeOwned;

use super::file::parse_json;
use super::{Plan, PlanFileError, VERSION};

/// The content of a file beside a plan.
pub trait BesidePlan: DeserializeOwned {
    /// The value of the field `format`.
    const FORMAT: &str;
    /// What replaces the plan's extension in the name of the file: `confirmation.json`.
    const EXTENSION: &str;

    /// The identifier of the plan whose settings were measured.
    fn plan(&self) -> &str;

    /// Returns the values of the fields `format`, `version` and `plan`, with which the file begins.
    fn head(plan: &Plan) -> (String, u32, String) {
        (Self::FORMAT.to_owned(), VERSION, plan.id())
    }

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
        let path = Self::path_beside(path);
        let mut text = Vec::new();
        // The user has not named this file, so it may be a pipe of another user.
        match regular::open(&path).and_then(|mut file| file.read_to_end(&mut text)) {
            Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.map_err(cannot("read", &path))?,
        };
        let found: Self = parse_json(&path, Self::FORMAT, &text)?;
        Ok(Some(found).filter(|found| found.plan() == plan.id()))
    }
}
