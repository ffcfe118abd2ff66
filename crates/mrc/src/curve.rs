//! The results of a model: counts per cache size, and the curve computed from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Kind;

/// The counts of one cache size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Accesses to records of all kinds except `Free`.
    pub requests: u64,
    /// Requests whose record was not in the cache. In the model `openzfs` only reads and partial writes can miss; `lru`
    /// and `arc` count every access alike, as the literature does.
    pub misses: u64,
    /// The misses of partial writes: reads that only the recordsize causes.
    pub update_misses: u64,
    /// The misses of whole writes, which read nothing. 0 for a model in which a write cannot miss.
    #[serde(default)]
    pub write_misses: u64,
}

impl Counts {
    /// Counts a request.
    pub(crate) fn add(&mut self, kind: Kind, missed: bool) {
        let miss = u64::from(missed);
        self.requests += 1;
        self.misses += miss;
        self.update_misses += miss * u64::from(kind == Kind::Update);
        self.write_misses += miss * u64::from(kind == Kind::Write);
    }

    /// Misses per request; 0 without requests.
    pub fn miss_ratio(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.misses as f64 / self.requests as f64 }
    }

    /// Reads of records from the device.
    pub fn device_reads(&self) -> u64 {
        self.misses - self.write_misses
    }
}

/// The 95 % confidence interval around a sampled miss ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confidence {
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// One point of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Misses per request, 0 to 1.
    pub miss_ratio: f64,
    /// Share of the requests that are partial writes of a record that is not cached, 0 to 1: each reads the record.
    pub update_miss_ratio: f64,
    /// Share of the requests that are whole writes of a record that is not cached, 0 to 1: a miss without a read.
    #[serde(default)]
    pub write_miss_ratio: f64,
    /// The confidence interval; `None` for an exact point.
    #[serde(default, alias = "band", skip_serializing_if = "Option::is_none")]
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
    /// The name of the model.
    pub model: String,
    /// Record size in bytes; `None` for a trace of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordsize: Option<u64>,
    /// Accesses to records in the whole trace, not only in the sample.
    pub requests: u64,
    /// Different records in the whole trace; estimated if sampled.
    pub records: u64,
    /// The points in ascending order of cache size.
    pub points: Vec<Point>,
    /// The sample; `None` for an exact curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<Sample>,
}

/// The sample behind a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Share of the records in the sample.
    pub rate: f64,
    /// Number of records in the sample.
    pub records: u64,
    /// Sizes without a point, because the sample has too few records for them.
    #[serde(alias = "unsaid")]
    pub unsupported_sizes: Vec<UnsupportedSize>,
}

/// A cache size for which a sample is too small.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnsupportedSize {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// The sampling rate that suffices, at most 1.
    pub needs_rate: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_of_earlier_plans_can_be_read() {
        let text = r#"{"model": "lru", "requests": 9, "records": 3,
            "points": [{"cache_bytes": 4096, "miss_ratio": 0.5, "update_miss_ratio": 0, "write_miss_ratio": 0,
                        "band": {"low": 0.4, "high": 0.6}}],
            "sample": {"rate": 0.1, "records": 1, "unsaid": [{"cache_bytes": 512, "needs_rate": 0.5}]}}"#;
        let curve: Curve = serde_json::from_str(text).unwrap();
        assert_eq!(curve.points[0].confidence, Some(Confidence { low: 0.4, high: 0.6 }));
        assert_eq!(curve.sample.unwrap().unsupported_sizes.len(), 1);
    }
}
