//! Evidence for a setting, and the gain that it would bring.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MetricName, Role, Settings};

/// One setting that was tried or whose space was estimated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// How the figures were obtained.
    pub kind: EvidenceKind,
    /// Property → value, for all varied properties.
    pub settings: Settings,
    /// Sector size of the trial's pool as a power of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ashift: Option<u8>,
    /// Role → settings of the other roles in the same trial, where they differ from today's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<Role, Settings>,
    /// Number of measurements behind the figures; 1 for an estimate.
    pub repeats: u32,
    /// Meaning of `low` and `high` in the metrics.
    pub spread: Spread,
    /// Metric → figure.
    pub metrics: BTreeMap<MetricName, Measured>,
    /// Objective (a ratio, today is 1) as defined by [`Goal`](super::Goal).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<f64>,
    /// What happened to the setting.
    pub outcome: Outcome,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// How a figure was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Replayed on the engine.
    Trial,
    /// A space estimate, sampled or full. Older releases wrote `model` for the prediction of a model.
    #[serde(alias = "model")]
    Estimate,
}

/// Meaning of the two ends of a [`Measured`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Smallest and largest value of the repeats.
    MinMax,
    /// 95 % interval of a sampled estimate.
    Ci95,
}

/// What happened to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is today's setting.
    Current,
    /// It is recommended.
    Recommended,
    /// It was replayed, but is not the best one.
    Raced,
    /// It was not replayed.
    ScreenedOut,
    /// Its trials gave no result.
    Failed,
}

/// A figure with its spread, in the metric's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Median of the repeats, or the estimate, in the metric's unit.
    pub median: f64,
    /// Lower end in the metric's unit, see [`Evidence::spread`].
    pub low: f64,
    /// Upper end in the metric's unit.
    pub high: f64,
}

/// The change of a metric from today's to the recommended settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// Median today, in the metric's unit.
    pub from: f64,
    /// Median under the recommended settings, in the metric's unit.
    pub to: f64,
    /// Relative change as a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// 95 % interval of `change`.
    pub ci95: (f64, f64),
    /// Number of trials of each side; 0 if both sides are estimates.
    pub pairs: u32,
    /// Whether the interval excludes 0, and on which side.
    pub verdict: GainVerdict,
}

/// A metric that the recommended settings make worse by more than 10 % over its whole 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// The role whose own comparison shows the cost; missing if that of the whole plan shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// The metric.
    pub metric: MetricName,
    /// The figures of the metric.
    #[serde(flatten)]
    pub gain: Gain,
}

/// Whether a change is beyond noise, and in which direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GainVerdict {
    /// Better beyond noise.
    Better,
    /// Worse beyond noise.
    Worse,
    /// The interval contains 0.
    Noise,
}
