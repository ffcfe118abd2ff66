//! The objects that `poolwright lab` prints as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use crate::TrialKey;
use crate::campaign::Case;
use crate::report::{Comparison, Report};
use crate::run::{Shared, Summary};

/// A shipped campaign, in the array that `lab list --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CampaignEntry {
    /// Name of the campaign.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// Number of trials at the small scale, without blocks that undecided claims may add.
    pub trials: usize,
    /// Required Debian packages.
    pub needs: Vec<String>,
}

/// The result of a run, as `lab run --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RunSummary {
    /// Name of the campaign.
    pub campaign: String,
    /// The file of the results.
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
    /// Number of trials that the run's time limit left over.
    pub left: usize,
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

impl FailedTrial {
    fn new(key: &TrialKey, why: &str) -> FailedTrial {
        let TrialKey { study, case, block } = key.clone();
        FailedTrial { study, case, block, why: why.to_owned() }
    }
}

/// The state of a shared directory, as `lab share --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SharedSummary {
    /// Name of the campaign.
    pub campaign: String,
    /// The file of the results.
    pub results: String,
    /// Number of the run in the results.
    pub run: i64,
    /// Number of results in the directory, which are in the file now.
    pub collected: usize,
    /// Number of trials of the run that have succeeded.
    pub succeeded: usize,
    /// Collected trials that failed.
    pub failed: Vec<FailedTrial>,
    /// Number of trials that the results lack, including the failed ones.
    pub missing: usize,
    /// Number of tasks that no node runs, or whose node is lost. Their numbers are from 0 if no node runs a task.
    pub queued: usize,
    /// Number of tasks that nodes run.
    pub claimed: usize,
    /// Number of tasks that have ended.
    pub done: usize,
    /// Nodes that could not run a task.
    pub problems: Vec<NodeProblem>,
}

/// A node that could not run a task.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeProblem {
    /// Name of the node.
    pub node: String,
    /// Missing requirements.
    pub why: String,
}

impl SharedSummary {
    /// The state of the shared directory of a run of `campaign` with the results in `location`.
    pub fn new(campaign: &str, location: &str, shared: &Shared) -> SharedSummary {
        let problem = |(node, why): &(String, String)| NodeProblem { node: node.clone(), why: why.clone() };
        SharedSummary {
            campaign: campaign.to_owned(),
            results: location.to_owned(),
            run: shared.run,
            collected: shared.collected,
            succeeded: shared.succeeded,
            failed: shared.failed.iter().map(|(key, why)| FailedTrial::new(key, why)).collect(),
            missing: shared.missing,
            queued: shared.tasks.queued,
            claimed: shared.tasks.claimed,
            done: shared.tasks.done,
            problems: shared.problems.iter().map(problem).collect(),
        }
    }
}

impl RunSummary {
    /// The result of a run of `campaign` with the results in `location`.
    pub fn new(campaign: &str, location: &str, summary: &Summary) -> RunSummary {
        RunSummary {
            campaign: campaign.to_owned(),
            results: location.to_owned(),
            run: summary.run,
            trials: summary.trials,
            skipped: summary.skipped,
            done: summary.done,
            failed: summary.failed.iter().map(|(key, why)| FailedTrial::new(key, why)).collect(),
            left: summary.left,
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
