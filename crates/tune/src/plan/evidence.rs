//! What was found out about a setting, and what it would gain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Settings;

/// One setting that was tried, estimated or computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// How the figures were obtained.
    pub kind: EvidenceKind,
    /// Complete for what was varied.
    pub settings: Settings,
    /// Of the trial's pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ashift: Option<u8>,
    /// Role → settings of the other roles in the same trial, where not today's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, Settings>,
    /// Measurements behind the figures; 1 for an estimate.
    pub repeats: u32,
    /// What `low` and `high` of the metrics are.
    pub spread: Spread,
    /// Metric → figure.
    pub metrics: BTreeMap<String, Measured>,
    /// As [`Goal`](super::Goal) defines it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why it was screened out or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a figure was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Replayed on the engine.
    Trial,
    /// A space estimate, sampled or full.
    Estimate,
    /// Computed.
    Model,
}

/// What the two ends of a [`Measured`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Smallest and largest of the repeats.
    MinMax,
    /// 95 % interval of a sampled estimate.
    Ci95,
}

/// What became of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Today's.
    Current,
    /// The one advised.
    Recommended,
    /// Replayed, and not the best.
    Raced,
    /// Dropped before it was replayed.
    ScreenedOut,
    /// Its trials gave no result.
    Failed,
}

/// A figure with its spread, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Median of the repeats, or the estimate.
    pub median: f64,
    /// Lower end, see [`Evidence::spread`].
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a metric was and would be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Median today, in the metric's unit.
    pub from: f64,
    /// Median as recommended.
    pub to: f64,
    /// Relative change as a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// 95 % interval of `change`.
    pub ci95: (f64, f64),
    /// Interleaved pairs behind it; 0 where both sides are estimates.
    pub pairs: u32,
    /// Whether the interval leaves out 0, and on which side.
    pub verdict: GainVerdict,
}

/// A metric that the recommended settings make worse by more than a tenth, with all of its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The role whose own comparison shows it; missing where that of the whole plan does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The metric.
    pub metric: String,
    /// Its figures.
    #[serde(flatten)]
    pub gain: Gain,
}

/// Whether a change is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GainVerdict {
    /// Better beyond noise.
    Better,
    /// Worse beyond noise.
    Worse,
    /// The interval holds 0.
    Noise,
}
