//! The result of an analysis and its interpretation.

use std::fmt;

use poolwright_base::units::format_size;
use schemars::JsonSchema;
use serde::Serialize;

use super::config::ModelConfig;
use super::division::Divided;
use super::model_name::ModelName;
use super::sizes::{CacheSizes, MIN_ARC};
use crate::advice::{Explained, Given, Host};
use crate::input::Unit;
use crate::sweep::Progress;
use crate::{Curve, Skipped, Sweep};

/// Recordsizes below this in bytes are smaller than a page of any database; the ARC's metadata would dominate the curve.
const SMALLEST_USEFUL_RECORD: u64 = 4096;

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// All of the trace was read.
    Done,
    /// The user interrupted the run; the figures cover the part that was read.
    Interrupted,
    /// The trace has no request, so there is no curve.
    Empty,
}

/// A limitation of the chosen caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// The whole trace fits into the smallest ARC of OpenZFS, so the curve has one point.
    FitsSmallestArc {
        /// Bytes in the cache of all records that the trace touches.
        footprint_bytes: u64,
    },
    /// The recordsize is smaller than that of any real dataset.
    SmallRecords {
        /// The smallest recordsize in bytes.
        recordsize: u64,
    },
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remark::FitsSmallestArc { footprint_bytes } => write!(
                f,
                "all records of the trace ({}) fit into the smallest ARC that OpenZFS allows, {}",
                format_size(*footprint_bytes),
                format_size(MIN_ARC)
            ),
            Remark::SmallRecords { recordsize } => write!(
                f,
                "for records of {}, OpenZFS's ARC needs more memory for headers than for data, and databases do not use \
                 such datasets",
                format_size(*recordsize)
            ),
        }
    }
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct MrcResult {
    /// The file, or the recorded directory or process.
    pub source: String,
    /// The format of the file, or `live` for a recording.
    pub format: &'static str,
    /// The curves, by recordsize and then by model.
    pub curves: Vec<Curve>,
    /// Events that the models do not use.
    pub skipped: Skipped,
    /// Recorded time in nanoseconds; 0 if unknown.
    pub duration_ns: u64,
    /// Bytes in the cache of all records that the trace touches, if it was measured.
    pub footprint_bytes: Option<u64>,
    /// Bytes of memory used by the records and the models.
    pub memory_bytes: usize,
    /// Events that the recorder lost because its buffer was full.
    pub lost_events: u64,
    /// Kinds of operations that the recorder cannot see, and how often they occurred; 0 if unknown.
    pub unseen: Vec<(String, u64)>,
    /// Limitations of the chosen caches.
    pub remarks: Vec<Remark>,
    /// Why the run ended.
    pub ended: Ended,
    /// Share of the trace that was read, 0 to 1; `None` if its end is unknown.
    pub share: Option<f64>,
    /// Duration of the run.
    pub seconds: f64,
}

impl MrcResult {
    /// The result of a sweep that has read `read` of the trace.
    pub fn new(
        source: String,
        format: &'static str,
        config: &ModelConfig,
        sweep: &Sweep,
        read: &Progress,
    ) -> MrcResult {
        let ended = match read.requests {
            _ if !read.ended => Ended::Interrupted,
            0 => Ended::Empty,
            _ => Ended::Done,
        };
        MrcResult {
            source,
            format,
            curves: sweep.curves(),
            skipped: sweep.skipped(),
            duration_ns: read.duration_ns,
            footprint_bytes: config.sizes.footprint_bytes(),
            memory_bytes: sweep.memory(),
            lost_events: 0,
            unseen: Vec::new(),
            remarks: remarks(config),
            ended,
            share: read.share,
            seconds: 0.0,
        }
    }

    /// Interprets the curves. `miss_latency_ns` is the latency of a read from the device, if known.
    pub fn explain(&self, miss_latency_ns: Option<u64>, split: Option<Divided>) -> Explanation {
        if self.ended == Ended::Empty {
            // A curve without requests would suggest that a cache of any size has no misses.
            return Explanation::default();
        }
        let given = Given {
            seconds: Some(self.duration_ns as f64 / 1e9).filter(|s| *s > 0.0),
            miss_latency_ns,
            footprint_bytes: self.footprint_bytes,
            host: Host::here(),
        };
        let curves = self.curves.iter().map(|curve| Explained::new(curve.clone(), &given)).collect();
        Explanation { curves, given, split }
    }
}

/// The curves of a run with their interpretation.
#[derive(Clone, Debug, Default)]
pub struct Explanation {
    /// Each curve with its advice.
    pub curves: Vec<Explained>,
    /// The facts on which the advice depends.
    pub given: Given,
    /// The division of memory, if requested.
    pub split: Option<Divided>,
}

fn remarks(config: &ModelConfig) -> Vec<Remark> {
    if !config.models.contains(&ModelName::Openzfs) {
        return Vec::new();
    }
    let fits = match config.sizes {
        CacheSizes::Footprint { bytes, .. } if config.sizes.of(ModelName::Openzfs) == [MIN_ARC] => {
            Some(Remark::FitsSmallestArc { footprint_bytes: bytes })
        }
        _ => None,
    };
    let recordsize = match config.unit {
        Unit::Bytes { recordsize } => Some(config.recordsizes.first().copied().unwrap_or(recordsize)),
        Unit::Objects => None,
    };
    let small = recordsize.filter(|recordsize| *recordsize < SMALLEST_USEFUL_RECORD);
    fits.into_iter().chain(small.map(|recordsize| Remark::SmallRecords { recordsize })).collect()
}

#[cfg(test)]
mod tests {
    use super::super::ratios::{RatioSource, Ratios};
    use super::super::request::MrcRequest;
    use super::*;
    use crate::openzfs::PrimaryCache;

    fn config(bytes: u64, models: &[ModelName], recordsize: u64) -> ModelConfig {
        ModelConfig {
            unit: Unit::Bytes { recordsize },
            fine_times: true,
            read_bytes: None,
            request: MrcRequest {
                models: models.to_vec(),
                sizes: Vec::new(),
                recordsizes: Vec::new(),
                ratios: RatioSource::Uniform(1.0),
                ashift: 12,
                primarycache: PrimaryCache::All,
                l2arc_bytes: 0,
                prefetch: true,
                requests_per_s: None,
                sample: None,
                seed: 1,
                split_bytes: None,
            },
            models: models.to_vec(),
            recordsizes: vec![recordsize],
            sizes: CacheSizes::Footprint { bytes, records: bytes / recordsize, least: recordsize },
            ratios: Ratios::new(&RatioSource::Uniform(1.0), 12, &[recordsize]).unwrap(),
        }
    }

    #[test]
    fn remarks_are_about_small_traces_and_small_records() {
        let fits = Remark::FitsSmallestArc { footprint_bytes: 2 << 20 };
        assert_eq!(remarks(&config(2 << 20, &[ModelName::Openzfs], 8192)), [fits]);
        assert!(fits.to_string().contains("(2M) fit into the smallest"));
        assert_eq!(remarks(&config(2 << 20, &[ModelName::Lru, ModelName::Arc], 512)), []);
        assert_eq!(remarks(&config(1 << 30, &[ModelName::Openzfs], 8192)), []);
        let small = Remark::SmallRecords { recordsize: 512 };
        assert_eq!(remarks(&config(1 << 30, &[ModelName::Openzfs], 512)), [small]);
    }
}
