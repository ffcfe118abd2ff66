//! How much each property contributes to what the trials differ in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GainVerdict;

/// What each property that a race varied contributes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contributions {
    /// The role that was raced; those that share its dataset had the same settings.
    pub role: String,
    /// Trials behind the shares, those of the confirmation counted.
    pub trials: u32,
    /// Metric of the goal → who explains its variance; a metric that does not vary is left out.
    pub metrics: BTreeMap<String, VarianceShares>,
    /// Property that is recommended to change → what it does alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub effects: BTreeMap<String, PropertyEffect>,
}

/// VarianceShares of the variance of a metric's logarithm over the trials, as fractions that add up to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VarianceShares {
    /// Property → what it alone explains, beside all the other properties.
    pub properties: BTreeMap<String, f64>,
    /// What several properties explain and the tried settings cannot assign to one of them. Negative where properties
    /// hide each other's effect.
    pub shared: f64,
    /// Residual between settings: what properties do only in combination.
    pub interactions: f64,
    /// Residual within settings: repeats of one setting differ by it.
    pub noise: f64,
}

/// What one property does, from pairs of tried settings that differ only in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PropertyEffect {
    /// Today's value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The recommended value.
    pub to: String,
    /// Such pairs of settings; 0: the trials do not separate the property from the others.
    pub pairs: u32,
    /// Metric → change from today's value to the recommended one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MeasuredChange>,
}

/// A relative change with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredChange {
    /// As a fraction: -0.25 is a quarter less.
    pub change: f64,
    /// 95 % interval of `change`.
    pub ci95: (f64, f64),
    /// Whether the interval leaves out 0, and on which side.
    pub verdict: GainVerdict,
}
