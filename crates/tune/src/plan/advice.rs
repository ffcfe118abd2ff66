//! Published advice, held against today's settings on this database.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MeasuredChange, Settings};

/// A published rule and what it does on this database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckedAdvice {
    /// The rule's name in the table.
    pub rule: String,
    /// What it says, in a sentence.
    pub advice: String,
    /// Where it is published.
    pub source: AdviceSource,
    /// The role it was held against.
    pub role: String,
    /// Property → value that the rule means.
    pub settings: Settings,
    /// What is known of it.
    pub status: AdviceStatus,
    /// What the figures rest on, or why there are none.
    pub basis: String,
    /// Metric → measured change against today's settings; only with [`AdviceStatus::Tried`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, MeasuredChange>,
    /// Metric → change that the model predicts, as a fraction; only with [`AdviceStatus::Predicted`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub predicted: BTreeMap<String, f64>,
}

/// Where advice is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdviceSource {
    /// Title, with its section.
    pub title: String,
    /// Address.
    pub url: String,
}

/// What is known of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceStatus {
    /// Today's settings follow it.
    Followed,
    /// Exactly its settings were tried: `measured` has the changes.
    Tried,
    /// Not tried: `predicted` holds the model's prediction, not a measurement.
    Predicted,
    /// Not tried, and no model knows it.
    NotTried,
}
