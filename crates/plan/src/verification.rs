//! Measurements of the database in operation, and whether the plan keeps its promises.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::beside::BesidePlan;
use super::{MetricName, PredictedChange};

/// The database in operation before and after the plan was applied, compared with what the plan promises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Always `poolwright-verification`.
    #[schemars(extend("const" = Verification::FORMAT))]
    pub format: String,
    /// Version of the format, at present 1.
    pub version: u32,
    /// Identifier of the plan ([`Plan::id`](super::Plan::id)).
    pub plan: String,
    /// The state before the plan was applied. Missing if it was never measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<LiveMeasurement>,
    /// The state since then. Missing as long as the plan is not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<LiveMeasurement>,
    /// One row for each figure that the plan promises and that can be measured in operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<CheckedPromise>,
    /// Whether the plan keeps its promises.
    pub verdict: VerificationVerdict,
    /// The reason for the verdict in one or two sentences.
    pub why: String,
    /// Limits of these figures' validity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl BesidePlan for Verification {
    const FORMAT: &str = "poolwright-verification";
    const EXTENSION: &str = "verification.json";

    fn plan(&self) -> &str {
        &self.plan
    }
}

/// The database in operation during one recording, which is divided into blocks of equal length.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LiveMeasurement {
    /// End of the recording, RFC 3339 in UTC. Missing for a trace that was recorded before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Length of the recording in seconds.
    pub seconds: f64,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of recorded events.
    pub events: u64,
    /// Events that did not fit into the ring buffer.
    pub lost_events: u64,
    /// The unit of the metric `work_rate`.
    pub rate: RateUnit,
    /// Metric → one figure for each block in which it could be measured. `work_rate` is in units per second; `allocated_bytes` is per
    /// byte of the files and has one figure; `vdev_write_bytes` is per unit of work, and the metrics of
    /// devices are of groups of blocks. The other units are those of the plan.
    pub metrics: BTreeMap<MetricName, Vec<f64>>,
    /// What the database asked for.
    pub mix: RequestMix,
    /// Share of the bytes written to the pool's datasets that the database wrote, 0 to 1. Missing without counters of the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_pool: Option<f64>,
    /// Sum of the lengths of the files in bytes.
    pub bytes: u64,
}

/// The unit of a measured work rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RateUnit {
    /// Reads, writes and syncs of the foreground threads.
    #[default]
    FileOperations,
    /// The count that this shell command prints.
    Command(String),
}

/// What the foreground threads asked for during a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestMix {
    /// Reads per second.
    pub reads_s: f64,
    /// Writes per second.
    pub writes_s: f64,
    /// Calls of `fsync` and `fdatasync` per second.
    pub syncs_s: f64,
    /// Mean size of a read in bytes; 0 without reads.
    pub read_bytes: f64,
    /// Mean size of a write in bytes; 0 without writes.
    pub write_bytes: f64,
}

/// A change that the plan promises, and the measured one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedPromise {
    /// The metric.
    pub metric: MetricName,
    /// The promised change. If the plan is confirmed, it is the change of the database itself.
    pub promised: PredictedChange,
    /// The measured change. Missing if one side could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredPromise>,
    /// Whether the goal of the plan has a weight for the metric. Only such promises decide the verdict.
    pub is_goal: bool,
    /// Whether the promise is kept.
    pub verdict: PromiseVerdict,
    /// Why the promise could not be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A change measured in operation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredPromise {
    /// Median of the blocks before, in the unit of [`LiveMeasurement::metrics`].
    pub from: f64,
    /// Median of the blocks afterwards.
    pub to: f64,
    /// Relative change as a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// 95 % interval of `change`.
    pub ci95: (f64, f64),
}

/// Whether a promise is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PromiseVerdict {
    /// The measured change is as good as the promised one, or better.
    Kept,
    /// The figure is better beyond noise, but by less than promised.
    Less,
    /// The figure is not better beyond noise although the plan promises it, or worse than promised.
    Broken,
    /// The plan promises no change beyond noise, and the figure is not worse than expected.
    NothingPromised,
    /// The measurements are too few or too uncertain to decide.
    Unclear,
}

/// Whether the plan keeps its promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VerificationVerdict {
    /// The plan is not applied. The measurement is that of the state before.
    NotApplied,
    /// All promises of the goal are kept.
    Kept,
    /// The figures of the goal are better, but some by less than promised.
    Less,
    /// A promise of the goal is broken.
    Broken,
    /// No promise of the goal is broken, and at least one could not be decided.
    Unclear,
}
