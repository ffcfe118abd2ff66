//! Where results are kept: one trait, SQLite and PostgreSQL behind it.

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
    /// What it ran on.
    pub machine: BTreeMap<String, String>,
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
    /// Begins a run, or finds the unfinished or finished one with the same campaign, text, scale, seed and target.
    fn begin(&mut self, run: &Run) -> Result<i64>;
    /// Saves a trial; one with the same key that failed is replaced.
    fn save(&mut self, run: i64, trial: &Trial) -> Result<()>;
    /// All trials of a run, in the order they were run in.
    fn trials(&mut self, run: i64) -> Result<Vec<Trial>>;
    /// All runs, the latest last.
    fn runs(&mut self) -> Result<Vec<(i64, Run)>>;
}
