//! Storage of results: one trait with implementations for SQLite and PostgreSQL.

#[cfg(feature = "postgres")]
mod postgres;
mod queue;
mod queue_sql;
mod sql;
mod sqlite;
mod statements;
#[cfg(test)]
mod tests;
mod trial_sql;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Outcome, Result, TrialKey};
pub use queue::{Claim, Claimant, MOST_ATTEMPTS, Process, Task, TaskState};

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
    let Some((user, rest)) = credentials(rest) else {
        return format!("{head}://{}", rest.split('?').next().unwrap_or_default());
    };
    let user = user.split(':').next().unwrap_or_default();
    // A password that contains an `@` extends to the host's `@`.
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let host = host.rsplit('@').next().unwrap_or_default();
    let location = [host, path].concat();
    format!("{head}://{user}@{}", location.split('?').next().unwrap_or_default())
}

/// Splits what follows `://` at the first `@`: before it are user and password, even with a `/` or `?`, which are not permitted there.
/// `None` if the `@` is in the options, or there is none.
fn credentials(rest: &str) -> Option<(&str, &str)> {
    let (user, after) = rest.split_once('@')?;
    let is_option = user.split_once('/').is_some_and(|(host, path)| {
        let port = host.split_once(':').map_or("", |(_, port)| port);
        path.contains('?') && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    (!is_option).then_some((user, after))
}

/// Whether the location has a password: it must not be in a place that others can read.
pub fn has_password(location: &str) -> bool {
    let Some((_, rest)) = location.split_once("://") else { return false };
    let user = credentials(rest).map_or("", |(user, _)| user);
    user.contains(':') || rest.split(['?', '&']).skip(1).any(|part| part.starts_with("password="))
}

/// Whether the location is a PostgreSQL database, and not a file.
pub fn is_url(location: &str) -> bool {
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
    /// The machine on which it ran: trials of one block on different machines are not compared. Empty in results of older releases.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
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
    /// Puts trials into the queue, in this order; those that are in it stay as they are. The first one has this rank.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written.
    fn enqueue(&mut self, run: i64, first: i64, trials: &[TrialKey]) -> Result<()>;
    /// Empties the queue, but for trials that workers have claimed.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written.
    fn clear_queue(&mut self, run: i64) -> Result<()>;
    /// The queue of a run, by rank.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be read.
    fn queue(&mut self, run: i64) -> Result<Vec<Task>>;
    /// Claims a trial of the queue for a worker; `None` if there is none for it at present.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written.
    fn claim(&mut self, run: i64, worker: &Claimant) -> Result<Option<Claim>>;
    /// Renews the lease of a claim. Returns whether it still holds: another worker may have claimed the trial since.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written.
    fn renew(&mut self, run: i64, worker: &Claimant, claim: &Claim) -> Result<bool>;
    /// Gives a claimed trial back to the queue.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written.
    fn release(&mut self, run: i64, claim: &Claim) -> Result<()>;
    /// Saves a trial that a worker has claimed. Replaces a failed trial with the same key; keeps a successful one. Returns whether the
    /// claim still holds: if not, nothing is saved.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written; the trial is then not saved at all.
    fn save(&mut self, run: i64, claim: &Claim, trial: &Trial) -> Result<bool>;
    /// Saves what is known of a machine, for the report.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be written.
    fn save_node(&mut self, run: i64, node: &str, machine: &BTreeMap<String, String>) -> Result<()>;
    /// The machines of a run by name.
    ///
    /// # Errors
    /// [`Error::Store`](crate::Error::Store) if the database cannot be read.
    fn nodes(&mut self, run: i64) -> Result<BTreeMap<String, BTreeMap<String, String>>>;
    /// Returns a trial; `None` if it is not saved.
    ///
    /// # Errors
    /// As for [`Store::trials`].
    fn trial(&mut self, run: i64, key: &TrialKey) -> Result<Option<Trial>>;
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
