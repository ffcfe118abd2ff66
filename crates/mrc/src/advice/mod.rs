//! The interpretation of a curve: its knee, the sufficient size, and the reads that more memory saves.
//!
//! It counts *reads from the device*: misses without those of whole writes, which read nothing ([`Point::read_ratio`]).
//! Between two points the curve is assumed to be straight. Confidence intervals of a sampled curve are propagated, and
//! a saving whose interval includes zero is reported as no difference.

mod host;
mod interpolate;
mod knee;
mod step;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use host::Host;
pub use knee::{Enough, Knee};
pub use step::{Saved, Step, StepVerdict};

use crate::Curve;
use interpolate::Interpolation;

/// A gibibyte in bytes.
pub const GIB: u64 = 1 << 30;

/// The facts on which the advice depends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// Length of the trace in seconds; `None` if it has no times, so that there are no figures per second.
    pub seconds: Option<f64>,
    /// Latency of a read from the device in nanoseconds; `None` to leave out the waiting time.
    pub miss_latency_ns: Option<u64>,
    /// Bytes in the cache of all records that the trace touches, if known. A larger cache saves nothing.
    pub footprint_bytes: Option<u64>,
    /// Today's ARC and the host's memory.
    pub host: Host,
}

/// The interpretation of a curve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The knee; `None` if there is none, which `notes` explain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
    /// The smallest size that is nearly as good as the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<Enough>,
    /// The effect of a gigabyte more than today's ARC, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<Step>,
    /// The effect of `step_bytes` more at each size of the curve.
    pub steps: Vec<Step>,
    /// Bytes of each step: a gigabyte, or less if the curve covers only a few.
    pub step_bytes: u64,
    /// Remarks, as sentences without a capital letter and a period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A curve with its interpretation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// The curve.
    #[serde(flatten)]
    pub curve: Curve,
    /// Its interpretation.
    pub advice: Advice,
}

impl Explained {
    /// Interprets a curve.
    pub fn new(curve: Curve, given: &Given) -> Explained {
        let advice = advise(&curve, given);
        Explained { curve, advice }
    }
}

/// Interprets a curve. Its points must be in ascending order of size.
pub fn advise(curve: &Curve, given: &Given) -> Advice {
    let interpolation = Interpolation::new(curve, given.footprint_bytes);
    let step_bytes = step::step_bytes(&curve.points);
    let rate = step::Rate::new(curve.requests, given);
    let step = |from, by| step::step(&interpolation, from, by, rate);
    let mut notes = Vec::new();
    let knee = match knee::knee(&interpolation) {
        Ok(knee) => Some(knee),
        Err(why) => {
            notes.push(why.to_owned());
            None
        }
    };
    if given.seconds.is_none() {
        notes.push("the trace has no times, so there are no figures per second".into());
    } else if given.miss_latency_ns.is_none() {
        notes.push("the latency of the device is unknown, so the saved waiting time is not computed".into());
    }
    if !interpolation.settled() {
        notes.push(
            "the largest size does not hold all reused records: larger sizes may save more reads".into(),
        );
    }
    Advice {
        knee,
        enough: knee::enough(&interpolation)
            .filter(|enough| interpolation.settled() || Some(enough.cache_bytes) < interpolation.largest()),
        today: given.host.arc_max_bytes.map(|today| step(today, GIB)),
        // There is no step from the last size.
        steps: curve.points.iter().rev().skip(1).rev().map(|p| step(p.cache_bytes, step_bytes)).collect(),
        step_bytes,
        notes,
    }
}

/// Rounds to six significant digits, because the others are noise.
fn short(v: f64) -> f64 {
    format!("{v:.5e}").parse().unwrap_or(v)
}

#[cfg(test)]
mod tests;
