//! The JSON form of the readings: `/api/v1/readings`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Resource, SourceReadings};

/// The last readings of all sources.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiReadings {
    /// The sources, by name.
    pub sources: Vec<ApiSource>,
    /// The resources with their metrics.
    pub resources: Vec<ApiResource>,
}

/// A source, and how its last read went.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiSource {
    /// What is read, such as `user-pool`.
    pub source: &'static str,
    /// The pool; empty for a source that concerns all pools.
    pub pool: String,
    /// Whether the last read succeeded, and no read has exceeded its time limit.
    pub up: bool,
    /// Age of the readings in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The error of the last finished read, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// How long the present read has been running, in seconds, if it exceeded its time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_seconds: Option<f64>,
}

/// A pool, vdev, dataset, … with its metrics.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiResource {
    /// The type, such as `pool` or `dataset`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Label → value.
    pub labels: BTreeMap<&'static str, String>,
    /// Name of the metric → value.
    pub values: BTreeMap<&'static str, f64>,
}

impl ApiReadings {
    /// The readings of these sources.
    pub fn of(sources: &[SourceReadings]) -> ApiReadings {
        let read = sources.iter().filter_map(|source| source.readings.as_deref());
        ApiReadings {
            sources: sources.iter().map(ApiSource::from).collect(),
            resources: read.flat_map(|readings| &readings.resources).map(ApiResource::from).collect(),
        }
    }

    /// The text of the JSON object.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("maps with text keys, and numbers")
    }
}

impl From<&SourceReadings> for ApiSource {
    fn from(source: &SourceReadings) -> ApiSource {
        ApiSource {
            source: source.name.source,
            pool: source.name.pool.clone(),
            up: source.is_up(),
            age_seconds: source.age.map(|age| age.as_secs_f64()),
            error: source.error.clone(),
            overdue_seconds: source.overdue.map(|overdue| overdue.as_secs_f64()),
        }
    }
}

impl From<&Resource> for ApiResource {
    fn from(resource: &Resource) -> ApiResource {
        let labels = resource.of.labels.iter().zip(&resource.labels);
        ApiResource {
            kind: resource.of.name,
            labels: labels.map(|(name, value)| (*name, value.to_string())).collect(),
            values: resource.readings.iter().map(|reading| (reading.family.name, reading.value)).collect(),
        }
    }
}
