//! Published advice, compared with today's settings of this database.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MeasuredChange, MetricName, Role, Settings};

/// A published rule and its effect on this database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckedAdvice {
    /// Identifier of the rule.
    pub rule: String,
    /// The advice as a phrase.
    pub advice: String,
    /// The publication that contains the rule.
    pub source: AdviceSource,
    /// The role to which the rule was applied.
    pub role: Role,
    /// Property → value that the rule recommends.
    pub settings: Settings,
    /// How much is known of the rule's effect.
    pub status: AdviceStatus,
    /// Basis of the figures, or why there are none.
    pub basis: String,
    /// Metric → measured change from today's settings; only with [`AdviceStatus::Tried`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<MetricName, MeasuredChange>,
}

/// The publication that contains the advice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdviceSource {
    /// Title of the page and the section.
    pub title: String,
    /// URL of the section.
    pub url: String,
}

/// How much is known of a rule's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceStatus {
    /// Today's settings already follow the rule.
    Followed,
    /// Exactly these settings were tried; `measured` contains the changes.
    Tried,
    /// Not tried. Older releases wrote `predicted` if a model predicted the effect.
    #[serde(alias = "predicted")]
    NotTried,
}
