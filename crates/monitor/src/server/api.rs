//! The JSON form of the readings: `/api/v1/readings`.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use crate::reading::HistogramReading;
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
    /// Name of the metric → numbers of observations by value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub histograms: BTreeMap<&'static str, ApiHistogram>,
}

/// Numbers of observations by their value.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ApiHistogram {
    /// The largest value of each bucket but the last, in the metric's unit.
    pub bounds: &'static [f64],
    /// The number of observations in each bucket: one more than bounds.
    pub counts: Vec<u64>,
}

impl ApiReadings {
    /// The readings of these sources.
    pub fn of(sources: &[SourceReadings]) -> ApiReadings {
        let read = sources.iter().filter_map(|source| source.readings.as_deref());
        ApiReadings {
            sources: sources.iter().map(ApiSource::from).collect(),
            resources: merged(read.flat_map(|readings| &readings.resources)),
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

/// One object for each resource, also if several sources read metrics of it.
fn merged<'a>(resources: impl Iterator<Item = &'a Resource>) -> Vec<ApiResource> {
    let mut merged: Vec<ApiResource> = Vec::new();
    let mut places = HashMap::new();
    for resource in resources {
        let at = *places.entry((resource.of.name, &resource.labels)).or_insert(merged.len());
        if at == merged.len() {
            merged.push(ApiResource::new(resource));
        }
        merged[at].add(resource);
    }
    merged
}

impl ApiResource {
    /// The resource without its metrics.
    fn new(resource: &Resource) -> ApiResource {
        let labels = resource.of.labels.iter().zip(&resource.labels);
        ApiResource {
            kind: resource.of.name,
            labels: labels.map(|(name, value)| (*name, value.to_string())).collect(),
            values: BTreeMap::new(),
            histograms: BTreeMap::new(),
        }
    }

    fn add(&mut self, resource: &Resource) {
        self.values.extend(resource.readings.iter().map(|reading| (reading.family.name, reading.value)));
        for HistogramReading { family, bounds, counts } in &resource.histograms {
            self.histograms.insert(family.name, ApiHistogram { bounds, counts: counts.to_vec() });
        }
    }
}
