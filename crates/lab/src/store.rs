//! Storage of results: one trait with implementations for SQLite and PostgreSQL.

#[cfg(feature = "postgres")]
mod postgres;
mod sql;
mod sqlite;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Outcome, Result, TrialKey};

/// A run of a campaign. Trials of one run are comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the campaign.
    pub campaign: String,
    /// Text of the campaign's file at the time of the run, so that a report needs nothing else.
    pub text: String,
    /// Scale of the run.
    pub scale: String,
    /// Seed of the order and of the workloads.
    pub seed: u64,
    /// `pool` or `directory PATH`.
    pub target: String,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// The machine: the fields of [`poolwright_host::machine::MachineInfo`], `openzfs`, `poolwright`, `scratch`, and its name as `host`.
    pub machine: BTreeMap<String, String>,
}

impl Run {
    /// Returns the machine's name: trials of different machines are not compared.
    pub fn host(&self) -> &str {
        self.machine.get("host").map_or("", String::as_str)
    }
}

/// Opens a results database: a file, which is created if it does not exist, or `postgres://…`.
///
/// # Errors
/// Returns [`Error::Store`](crate::Error::Store) if the database cannot be opened or has another format, or if it is
/// a PostgreSQL database and the crate is built without the feature `postgres`.
pub fn open(location: &str) -> Result<Box<dyn Store>> {
    if is_url(location) {
        #[cfg(feature = "postgres")]
        return Ok(Box::new(postgres::open(location)?));
        #[cfg(not(feature = "postgres"))]
        return Err(crate::Error::Store {
            location: without_password(location),
            why: "this program was built without PostgreSQL (cargo feature `postgres`)".to_owned(),
        });
    }
    Ok(Box::new(sqlite::open(std::path::Path::new(location))?))
}

/// Returns the path or URL for messages, without a password.
pub fn shown(location: &str) -> String {
    if is_url(location) { without_password(location) } else { location.to_owned() }
}

/// Returns `postgres://user:secret@host/db` without the password and the options.
fn without_password(url: &str) -> String {
    let Some((head, rest)) = url.split_once("://") else { return url.to_owned() };
    // Everything before the first `@` is user and password, even a `?`, unless a `/` ends the host before it.
    let Some((user, rest)) = rest.split_once('@').filter(|(user, _)| !user.contains('/')) else {
        return format!("{head}://{}", rest.split('?').next().unwrap_or_default());
    };
    let user = user.split(':').next().unwrap_or_default();
    // A password that contains an `@` extends to the host's `@`.
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit('@').next().unwrap_or_default();
    let location = [host, path].concat();
    format!("{head}://{user}@{}", location.split('?').next().unwrap_or_default())
}

fn is_url(location: &str) -> bool {
    location.starts_with("postgres://") || location.starts_with("postgresql://")
}

/// A finished trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Identity of the trial.
    pub key: TrialKey,
    /// Position in the order of execution, from 0.
    pub position: u32,
    /// Start of the trial, RFC 3339 in UTC.
    pub started: String,
    /// The outcome, or why there is none.
    pub outcome: std::result::Result<Outcome, String>,
}

/// A database of results. A trial is saved completely or not at all, and only once.
pub trait Store {
    /// Creates a run, or finds the one with the same campaign, text, scale, seed, target and host, whether
    /// finished or not.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be read or written.
    fn begin(&mut self, run: &Run) -> Result<i64>;
    /// Saves a trial. Replaces a failed trial with the same key; keeps a successful one.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written; the trial is then not saved at all.
    fn save(&mut self, run: i64, trial: &Trial) -> Result<()>;
    /// Returns all trials of a run, in the order in which they ran.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be read, or a trial in it cannot be parsed.
    fn trials(&mut self, run: i64) -> Result<Vec<Trial>>;
    /// Returns all runs, the latest one last.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be read, or a run in it cannot be parsed.
    fn runs(&mut self) -> Result<Vec<(i64, Run)>>;
}
