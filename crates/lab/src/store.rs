//! Where results are kept: one trait, SQLite and PostgreSQL behind it.

mod postgres;
mod sql;
mod sqlite;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Outcome, Result, TrialKey};

/// A run of a campaign: what makes its trials comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Campaign.
    pub campaign: String,
    /// The campaign's file as it was, so that a report needs nothing else.
    pub text: String,
    /// Scale.
    pub scale: String,
    /// Seed of order and workloads.
    pub seed: u64,
    /// `pool` or `directory PATH`.
    pub target: String,
    /// When it was begun, RFC 3339.
    pub started: String,
    /// What it ran on: the fields of [`poolwright_host::machine::MachineInfo`], `openzfs`, `poolwright`, `scratch`, and `host`, its name.
    pub machine: BTreeMap<String, String>,
}

impl Run {
    /// The machine's name: trials of two machines are not compared.
    pub fn host(&self) -> &str {
        self.machine.get("host").map_or("", String::as_str)
    }
}

/// Opens results: a file (made if it is not there), or `postgres://…`.
pub fn open(place: &str) -> Result<Box<dyn Store>> {
    if is_url(place) {
        return Ok(Box::new(postgres::open(place)?));
    }
    Ok(Box::new(sqlite::open(std::path::Path::new(place))?))
}

/// The place as messages may show it: without a password.
pub fn shown(place: &str) -> String {
    if is_url(place) { postgres::without_password(place) } else { place.to_owned() }
}

fn is_url(place: &str) -> bool {
    place.starts_with("postgres://") || place.starts_with("postgresql://")
}

/// A finished trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Which.
    pub key: TrialKey,
    /// Position in the order it was run in, from 0.
    pub position: u32,
    /// When it was begun, RFC 3339.
    pub started: String,
    /// What came out, or why nothing did.
    pub outcome: std::result::Result<Outcome, String>,
}

/// Results of campaigns. A trial is saved whole or not at all, and once.
pub trait Store {
    /// Begins a run, or finds the one with the same campaign, text, scale, seed, target and host, finished or not.
    fn begin(&mut self, run: &Run) -> Result<i64>;
    /// Saves a trial; one with the same key that failed is replaced, one that did not is left as it is.
    fn save(&mut self, run: i64, trial: &Trial) -> Result<()>;
    /// All trials of a run, in the order they were run in.
    fn trials(&mut self, run: i64) -> Result<Vec<Trial>>;
    /// All runs, the latest last.
    fn runs(&mut self) -> Result<Vec<(i64, Run)>>;
}
