//! The objects that `poolwright lab` prints as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::campaign::Case;
use crate::report::{Comparison, Report};
use crate::run::Summary;

/// A shipped campaign, in the array that `lab list --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CampaignEntry {
    /// Name of the campaign.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// Number of trials at the small scale, without blocks that a stop rule may add.
    pub trials: usize,
    /// Required Debian packages.
    pub needs: Vec<String>,
}

/// The result of a run, as `lab run --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Name of the campaign.
    pub campaign: String,
    /// The results: a file, or a URL without a password.
    pub results: String,
    /// Number of the run in the results.
    pub run: i64,
    /// Number of trials considered, including those finished in earlier runs.
    pub trials: usize,
    /// Number of trials finished in earlier runs.
    pub skipped: usize,
    /// Number of trials that succeeded in this run.
    pub done: usize,
    /// Trials that failed in this run.
    pub failed: Vec<FailedTrial>,
    /// Wall time of this run in seconds.
    pub seconds: f64,
    /// Whether the user interrupted the run.
    pub interrupted: bool,
}

/// A trial that failed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailedTrial {
    /// Name of the study.
    pub study: String,
    /// Factor → level, by name.
    pub case: Case,
    /// Block number, from 0.
    pub block: u32,
    /// The reason of the failure.
    pub why: String,
}

impl RunSummary {
    /// The result of a run of `campaign` with the results in `location`.
    pub fn new(campaign: &str, location: &str, summary: &Summary) -> RunSummary {
        let failed = summary.failed.iter().map(|(key, why)| FailedTrial {
            study: key.study.clone(),
            case: key.case.clone(),
            block: key.block,
            why: why.clone(),
        });
        RunSummary {
            campaign: campaign.to_owned(),
            results: location.to_owned(),
            run: summary.run,
            trials: summary.trials,
            skipped: summary.skipped,
            done: summary.done,
            failed: failed.collect(),
            seconds: summary.seconds,
            interrupted: summary.interrupted,
        }
    }
}

/// The report of a run, as `lab report --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparedReport {
    /// The report.
    #[serde(flatten)]
    pub report: Report,
    /// The comparison with another run, if one was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<Comparison>,
}
