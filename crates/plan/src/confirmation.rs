//! Measurements of the database itself under the plan's settings.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::beside::BesidePlan;
use super::{GainVerdict, Gains, Measured, MetricName, Role, Settings};

/// The result of running the database on pools with the plan's settings, compared with the predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmation {
    /// Always `poolwright-confirmation`.
    #[schemars(extend("const" = Confirmation::FORMAT))]
    pub format: String,
    /// Version of the format, at present 1.
    pub version: u32,
    /// Identifier of the plan ([`Plan::id`](super::Plan::id)).
    pub plan: String,
    /// End of the confirmation, RFC 3339 in UTC.
    pub created: String,
    /// The shell commands that were run.
    pub commands: ConfirmationCommands,
    /// Seconds between the end of the start command and the beginning of the load.
    pub settle_s: f64,
    /// The unit of work.
    pub work: WorkUnit,
    /// The settings that were run: today's, then the recommended ones, then the runner-up.
    pub settings: Vec<ConfirmedSetting>,
    /// Number of trials that gave no result.
    #[serde(default)]
    pub failed_trials: u32,
    /// Wall time of all trials in seconds.
    pub seconds: f64,
    /// Whether the measurements confirm the plan.
    pub verdict: ConfirmationVerdict,
    /// Measured minus predicted change of the work rate in percentage points: of the recommended settings, or
    /// of the runner-up if the plan recommends no change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_points: Option<f64>,
    /// Requirements of the plan that the recommended settings miss, as in its request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
    /// The reason for the verdict in one or two sentences.
    pub why: String,
    /// Limits of these figures' validity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl BesidePlan for Confirmation {
    const FORMAT: &str = "poolwright-confirmation";
    const EXTENSION: &str = "confirmation.json";

    fn plan(&self) -> &str {
        &self.plan
    }
}

impl Confirmation {
    /// Whether the measurements contradict the plan's verdict.
    pub fn contradicts_the_plan(&self) -> bool {
        self.verdict == ConfirmationVerdict::NotConfirmed
    }
}

/// The commands, as passed to `sh -c`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmationCommands {
    /// Starts the database; missing if the database is not a server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Runs the load.
    pub load: String,
    /// Stops the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
}

/// The unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WorkUnit {
    /// One run of the load command.
    Run,
    /// The number N that the load command printed as `work N`.
    Stated,
}

/// The role of a setting in the confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// Today's settings.
    Today,
    /// The settings that the plan recommends.
    Recommended,
    /// The best other raced setting.
    RunnerUp,
}

impl Contender {
    /// Returns the name in the plan and in the commands' `POOLWRIGHT_SETTING`.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Today => "today",
            Contender::Recommended => "recommended",
            Contender::RunnerUp => "runner-up",
        }
    }
}

/// One of the settings, and the measurements of the database under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmedSetting {
    /// Which of the settings.
    pub name: Contender,
    /// The datasets of its pool.
    pub datasets: Vec<ConfirmedDataset>,
    /// Number of blocks in which it gave a result.
    pub blocks: u32,
    /// Metric → median, smallest and largest of the blocks.
    pub metrics: BTreeMap<MetricName, Measured>,
    /// Metric (including `objective`) → change from today's settings, paired by block. Empty for today's
    /// settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changes: Gains,
    /// Metric (including `objective`) → change that the plan predicts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub predicted: BTreeMap<MetricName, PredictedChange>,
    /// Requirements of the plan that it misses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missed: Vec<String>,
}

impl ConfirmedSetting {
    /// Whether the objective is better than today's beyond noise.
    pub fn is_better(&self) -> bool {
        let objective = self.changes.get(&MetricName::Objective);
        objective.is_some_and(|gain| gain.verdict == GainVerdict::Better)
    }

    /// Whether the objective is better than today's beyond noise and no requirement is missed.
    pub fn is_acceptable(&self) -> bool {
        self.is_better() && self.missed.is_empty()
    }
}

/// A dataset of a trial's pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfirmedDataset {
    /// Mount point below the database's directory; `.` for the directory itself.
    #[serde(rename = "place")]
    pub location: String,
    /// The roles whose files it contains.
    pub roles: Vec<Role>,
    /// Property → value.
    pub settings: Settings,
}

/// A predicted change.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictedChange {
    /// Change as a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// 95 % interval of `change`, if the plan has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<(f64, f64)>,
}

/// Whether the measurements confirm the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConfirmationVerdict {
    /// The recommended settings are better than today's beyond noise, and the work rate changed as predicted.
    /// For a plan that recommends no change: the runner-up is not better beyond noise.
    Confirmed,
    /// The recommended settings are better than today's beyond noise, but the work rate changed by a different
    /// amount.
    BetterThanToday,
    /// The recommended settings are not better than today's beyond noise, or miss a requirement. For a plan
    /// that recommends no change: the runner-up is better.
    NotConfirmed,
}
