//! The JSON form of the readings: `/api/v1/readings`.

use std::collections::{BTreeMap, HashMap};
use std::iter::Peekable;
use std::sync::Arc;
use std::vec::IntoIter;

use schemars::JsonSchema;
use serde::Serialize;

use crate::exposition::PIECE;
use crate::reading::HistogramReading;
use crate::{Readings, Resource, SourceReadings};

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
    /// The kind of source, such as `user-pool`.
    pub source: &'static str,
    /// The pool; empty for a source that concerns all pools.
    pub pool: String,
    /// Whether the last read succeeded, and no read has exceeded its time limit.
    pub up: bool,
    /// Age of the readings in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
    /// The error of the last finished read, if it failed; otherwise the parts that it could not read, if there are any.
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
        let read: Vec<Arc<Readings>> = sources.iter().filter_map(|source| source.readings.clone()).collect();
        let resources = merged(&read).into_iter().map(|places| ApiResource::of(&read, &places)).collect();
        ApiReadings { sources: sources.iter().map(ApiSource::from).collect(), resources }
    }
}

/// The text of the JSON object [`ApiReadings`], in pieces, so that a host with many datasets needs no memory for the whole.
#[derive(Debug)]
pub struct JsonPieces {
    read: Vec<Arc<Readings>>,
    head: Option<String>,
    resources: Peekable<IntoIter<Places>>,
}

impl JsonPieces {
    /// The text of the readings of these sources.
    pub fn new(sources: &[SourceReadings]) -> JsonPieces {
        let read: Vec<Arc<Readings>> = sources.iter().filter_map(|source| source.readings.clone()).collect();
        let sources: Vec<ApiSource> = sources.iter().map(ApiSource::from).collect();
        let head = format!("{{\"sources\":{},\"resources\":[", json(&sources));
        let resources = merged(&read).into_iter().peekable();
        JsonPieces { read, head: Some(head), resources }
    }
}

impl Iterator for JsonPieces {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        // The last piece has the end of the object; `head` and `resources` are used up then.
        if self.head.is_none() && self.resources.peek().is_none() {
            return None;
        }
        let mut text = self.head.take().unwrap_or_default();
        while let Some(places) = self.resources.next() {
            text.push_str(&json(&ApiResource::of(&self.read, &places)));
            match self.resources.peek() {
                Some(_) => text.push(','),
                None => break,
            }
            if text.len() >= PIECE {
                return Some(text);
            }
        }
        text.push_str("]}");
        Some(text)
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps with text keys, and numbers")
}

/// The places of a resource in the readings of the sources.
type Places = Vec<(u32, u32)>;

/// The places of each resource, because several sources may read metrics of it.
fn merged(read: &[Arc<Readings>]) -> Vec<Places> {
    let mut merged: Vec<Places> = Vec::new();
    let mut known = HashMap::new();
    for (source, readings) in (0..).zip(read) {
        for (at, resource) in (0..).zip(&readings.resources) {
            let number = *known.entry((resource.of.name, &resource.labels)).or_insert(merged.len());
            match merged.get_mut(number) {
                Some(places) => places.push((source, at)),
                None => merged.push(vec![(source, at)]),
            }
        }
    }
    merged
}

impl ApiResource {
    /// The resource at these places, of which there is at least one.
    fn of(read: &[Arc<Readings>], places: &Places) -> ApiResource {
        let at = |(source, at): (u32, u32)| &read[source as usize].resources[at as usize];
        let first = at(places[0]);
        let labels = first.of.labels.iter().zip(&first.labels);
        let mut resource = ApiResource {
            kind: first.of.name,
            labels: labels.map(|(name, value)| (*name, value.to_string())).collect(),
            values: BTreeMap::new(),
            histograms: BTreeMap::new(),
        };
        places.iter().for_each(|place| resource.add(at(*place)));
        resource
    }

    fn add(&mut self, resource: &Resource) {
        self.values.extend(resource.readings.iter().map(|reading| (reading.family.name, reading.value)));
        for HistogramReading { family, bounds, counts } in &resource.histograms {
            self.histograms.insert(family.name, ApiHistogram { bounds, counts: counts.to_vec() });
        }
    }
}

/// A part that a source could not read, although it read the rest.
fn unread(source: &SourceReadings) -> Option<String> {
    let problems = &source.readings.as_ref()?.problems;
    (!problems.is_empty()).then(|| problems.join("; "))
}

impl From<&SourceReadings> for ApiSource {
    fn from(source: &SourceReadings) -> ApiSource {
        ApiSource {
            source: source.name.source,
            pool: source.name.pool.clone(),
            up: source.is_up(),
            age_seconds: source.age.map(|age| age.as_secs_f64()),
            error: source.error.clone().or_else(|| unread(source)),
            overdue_seconds: source.overdue.map(|overdue| overdue.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{DATASET, DATASET_READS, DATASET_USED, POOL, POOL_OPEN};
    use crate::terminal::fixture::source;

    #[test]
    fn pieces_are_the_object_and_sources_are_merged() {
        let (mut one, mut other) = (Readings::default(), Readings::default());
        one.add(&POOL, ["kernel", "tank"]).flag(&POOL_OPEN, true);
        for number in 0..2000 {
            let name = format!("tank/{number}");
            one.add(&DATASET, ["kernel", "tank", &name]).count(&DATASET_USED, number);
            other.add(&DATASET, ["kernel", "tank", &name]).count(&DATASET_READS, number);
        }
        let sources = [source("test", "", one), source("test", "", other)];
        let pieces: Vec<String> = JsonPieces::new(&sources).collect();
        assert!(pieces.len() > 3);
        let value: serde_json::Value = serde_json::from_str(&pieces.concat()).unwrap();
        assert_eq!(value, serde_json::to_value(ApiReadings::of(&sources)).unwrap());
        assert_eq!(value["resources"].as_array().unwrap().len(), 2001);
        assert_eq!(value["resources"][2000]["values"].as_object().unwrap().len(), 2);
        let empty: String = JsonPieces::new(&[]).collect();
        assert_eq!(empty, "{\"sources\":[],\"resources\":[]}");
    }
}
