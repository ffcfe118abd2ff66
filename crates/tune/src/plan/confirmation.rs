//! What the database itself measured under the plan's settings.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{GainVerdict, Gains, Measured, OBJECTIVE, Settings};

/// The outcome of running the database on pools with the plan's settings, beside what the plan predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// When it was finished, RFC 3339 in UTC.
    pub created: String,
    /// The shell commands that were run.
    pub commands: ConfirmationCommands,
    /// Seconds between the end of the start command and the beginning of the load.
    pub settle_s: f64,
    /// What a unit of work is.
    pub work: WorkUnit,
    /// What was run: today's settings first, then the recommended ones, then the runner-up.
    pub settings: Vec<ConfirmedSetting>,
    /// Trials that gave no result.
    #[serde(default)]
    pub failed_trials: u32,
    /// Wall time of all trials in seconds.
    pub seconds: f64,
    /// Whether the plan holds.
    pub verdict: ConfirmationVerdict,
    /// Change of the work rate as measured minus as predicted, in percentage points: of the recommended settings, or of
    /// the runner-up where the plan says keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_points: Option<f64>,
    /// Requirements of the plan that the recommended settings miss, as in its request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// The verdict in one or two sentences.
    pub why: String,
    /// What limits the worth of these figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Commands as `sh -c` took them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmationCommands {
    /// Starts the database; missing for one that is not a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// The load.
    pub load: String,
    /// Stops the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// What a unit of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkUnit {
    /// One run of the load command.
    Run,
    /// What the load command counted: it printed `work N`.
    Stated,
}

/// Which of the settings one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// As it is now.
    Today,
    /// What the plan advises.
    Recommended,
    /// The best raced setting besides.
    RunnerUp,
}

impl Contender {
    /// As in the plan, and in the commands' `POOLWRIGHT_SETTING`.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Today => "today",
            Contender::Recommended => "recommended",
            Contender::RunnerUp => "runner-up",
        }
    }
}

/// One of the settings, and what the database did under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmedSetting {
    /// Which one.
    pub name: Contender,
    /// The datasets of its pools.
    pub datasets: Vec<ConfirmedDataset>,
    /// Blocks in which it gave a result.
    pub blocks: u32,
    /// Metric → median, smallest and largest of the blocks.
    pub metrics: BTreeMap<String, Measured>,
    /// Metric → change against today's, paired by block; the metric `objective` too. Empty for today's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: Gains,
    /// Metric → change that the plan predicts, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub predicted: BTreeMap<String, PredictedChange>,
    /// Requirements of the plan that it misses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

impl ConfirmedSetting {
    /// Whether its objective is better than today's beyond noise.
    pub fn is_better(&self) -> bool {
        let objective = self.changes.get(OBJECTIVE);
        objective.is_some_and(|gain| gain.verdict == GainVerdict::Better)
    }

    /// Whether it is better, and misses no requirement.
    pub fn is_acceptable(&self) -> bool {
        self.is_better() && self.missed.is_empty()
    }
}

/// A dataset of a trial's pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmedDataset {
    /// Where it was mounted, below the database's directory; `.` for the directory itself.
    pub place: String,
    /// The roles whose files are in it.
    pub roles: Vec<String>,
    /// Its properties.
    pub settings: Settings,
}

/// A change that was predicted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedChange {
    /// As a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// Its 95 % interval, where the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
}

/// Whether the plan holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmationVerdict {
    /// The recommended settings are better than today's beyond noise, and the work rate changed as predicted. Where the
    /// plan says keep: the runner-up is not better beyond noise.
    Confirmed,
    /// The recommended settings are better than today's beyond noise, but the work rate changed by another amount.
    BetterThanToday,
    /// The recommended settings are not better than today's beyond noise, or miss a requirement. Where the plan says keep:
    /// the runner-up is better.
    NotConfirmed,
}
