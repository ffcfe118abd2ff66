//! A setting that the plan offers beside its recommendation.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MeasuredChange, MetricName, Settings};

/// A tried setting for users with another preference than the goal's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AlternativeSetting {
    /// What it is, compared with the recommended settings.
    pub kind: AlternativeKind,
    /// The goal whose plan recommends settings like it.
    pub goal: String,
    /// Property → value where it differs from today.
    pub changes: Settings,
    /// Number of trials behind the figures.
    pub trials: u32,
    /// Metric → change from today's settings.
    pub change: BTreeMap<MetricName, MeasuredChange>,
}

/// What an alternative is, compared with the recommended settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AlternativeKind {
    /// It takes less space.
    Smaller,
    /// The database is faster.
    Faster,
}

impl AlternativeKind {
    /// The name in the plan.
    pub fn name(self) -> &'static str {
        match self {
            AlternativeKind::Smaller => "smaller",
            AlternativeKind::Faster => "faster",
        }
    }
}
