//! The effect of each recommended property alone.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GainVerdict, MetricName, Role};

/// The effect of each recommended property of a role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contributions {
    /// The role that was raced; roles that share its dataset had the same settings.
    pub role: Role,
    /// Number of trials, including those of the confirmation.
    pub trials: u32,
    /// Property with a recommended change → effect of that property alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, PropertyEffect>,
}

/// The effect of one property, from pairs of tried settings that differ only in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PropertyEffect {
    /// Today's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recommended value.
    pub to: String,
    /// Number of these pairs; 0 means that the trials do not separate the property from the others.
    pub pairs: u32,
    /// Metric → change from today's value to the recommended one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<MetricName, MeasuredChange>,
}

/// A relative change with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredChange {
    /// Change as a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// 95 % interval of `change`.
    pub ci95: (f64, f64),
    /// Whether the interval excludes 0, and on which side.
    pub verdict: GainVerdict,
}
