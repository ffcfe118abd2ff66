//! Pareto-optimal settings: no other tried setting is at least as good in work rate, space and bytes written, and better in one of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MetricName, Outcome, Role, Settings};

/// The Pareto set of one race.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pareto {
    /// The role that was raced; roles that share its dataset had the same settings.
    pub role: Role,
    /// Metric → standard deviation of one trial as a fraction; missing if no setting was tried twice.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub noise: BTreeMap<MetricName, f64>,
    /// The settings that no other one beats, highest work rate first.
    pub settings: Vec<ParetoSetting>,
    /// Number of tried settings that another one beats.
    pub beaten: u32,
}

/// A setting of the Pareto set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParetoSetting {
    /// Property → value where it differs from today; empty for today's settings.
    pub changes: Settings,
    /// Number of trials behind the medians.
    pub trials: u32,
    /// Metric → median, in the metric's unit.
    pub metrics: BTreeMap<MetricName, f64>,
    /// Metric → change against today's median as a fraction: -0.25 is a quarter less.
    pub change: BTreeMap<MetricName, f64>,
    /// Whether the setting is today's, the recommended one or another one.
    pub outcome: Outcome,
}
