//! What a model found: counts per cache size, and the curve made of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What happened in a cache of one size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Accesses to records, all kinds but `Free`.
    pub requests: u64,
    /// Requests that did not find their record in the cache. Where only reads and partial writes can miss (`openzfs`), the
    /// model says so; `lru` and `arc` count every access alike, as the literature does.
    pub misses: u64,
    /// Of the misses, those of partial writes: reads that only the recordsize causes.
    pub update_misses: u64,
    /// Of the misses, those of whole writes: no read comes of them. 0 for a model where a write cannot miss.
    #[serde(default)]
    pub write_misses: u64,
}

impl Counts {
    /// Misses per request; 0 of nothing.
    pub fn miss_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }

    /// Records that had to be read from the device.
    pub fn device_reads(&self) -> u64 {
        self.misses - self.write_misses
    }
}

/// The 95 % confidence interval around a sampled miss ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Lowest miss ratio of the confidence.
    pub low: f64,
    /// Highest miss ratio of the confidence.
    pub high: f64,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Misses per request, 0 to 1.
    pub miss_ratio: f64,
    /// Of the requests, those that were a partial write's read, 0 to 1.
    pub update_miss_ratio: f64,
    /// Of the requests, those that were a whole write of a record not cached, 0 to 1: a miss without a read.
    #[serde(default)]
    pub write_miss_ratio: f64,
    /// Where 95 % of samples would put it; `None` where every request was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidence: Option<Confidence>,
}

impl Point {
    /// Reads from the device per request.
    pub fn read_ratio(&self) -> f64 {
        (self.miss_ratio - self.write_miss_ratio).max(0.0)
    }
}

/// A miss-ratio curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The model's name, as `--model` takes it.
    pub model: String,
    /// Record size in bytes; `None` where the trace names objects and not offsets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordsize: Option<u64>,
    /// Accesses to records in the trace (not only the sampled ones).
    pub requests: u64,
    /// Different records in the trace (estimated, if sampled).
    pub records: u64,
    /// By size of the cache, ascending.
    pub points: Vec<Point>,
    /// What it rests on; `None` where every request was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

/// What a sampled curve rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Share of the records that was looked at.
    pub rate: f64,
    /// Records that were looked at.
    pub records: u64,
    /// Sizes that are no points, because too few records are in the sample to speak of them.
    pub unsupported_sizes: Vec<UnsupportedSize>,
}

/// A size that a sample is too small for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnsupportedSize {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// The rate that it would take, at most 1.
    pub needs_rate: f64,
}
