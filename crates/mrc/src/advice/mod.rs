//! What a curve means: where it bends, what is enough, and what more memory buys.
//!
//! All of it is about *reads from the device*: misses without those of whole writes, which read nothing
//! ([`Point::read_ratio`]). Between two sizes the curve is taken as straight; where it was sampled, its bands are carried
//! along, and a saving whose confidence interval includes zero is called no difference.

mod host;
mod interpolate;
mod knee;
mod step;

use serde::{Deserialize, Serialize};

pub use host::Host;
pub use knee::{Enough, Knee};
pub use step::{Saved, Step, StepVerdict};

use crate::Curve;
use interpolate::Interpolation;

/// A gigabyte, as memory is sold.
pub const GIB: u64 = 1 << 30;

/// What is known beside the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// Length of the trace in seconds; `None` where it has no time, and then nothing is said per second.
    pub seconds: Option<f64>,
    /// What a read from the device takes in nanoseconds, as measured or as given; `None` leaves out the waiting.
    pub miss_latency_ns: Option<u64>,
    /// Bytes in the cache of all records that the trace touches, where known: beyond it nothing can be saved.
    pub footprint_bytes: Option<u64>,
    /// Today's ARC and memory.
    pub host: Host,
}

/// What a curve means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// Where the curve bends; `None` if it does not, and `notes` say why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
    /// The smallest size that is nearly as good as the best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enough: Option<Enough>,
    /// What the next gigabyte buys from today's ARC on, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub today: Option<Step>,
    /// What `step_bytes` more buy at each size of the curve.
    pub steps: Vec<Step>,
    /// The step of `steps`: a gigabyte, or less for a curve of a few.
    pub step_bytes: u64,
    /// What has to be known of the rest, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A curve with what it means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The curve.
    #[serde(flatten)]
    pub curve: Curve,
    /// What it means.
    pub advice: Advice,
}

impl Explained {
    /// Explains a curve.
    pub fn new(curve: Curve, given: &Given) -> Explained {
        let advice = advise(&curve, given);
        Explained { curve, advice }
    }
}

/// Reads a curve. Its points are by ascending size.
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
        // Nothing is beyond the last size.
        steps: curve.points.iter().rev().skip(1).rev().map(|p| step(p.cache_bytes, step_bytes)).collect(),
        step_bytes,
        notes,
    }
}

/// Six significant digits: more would be noise, and a difference of two ratios has a long tail of it.
fn short(v: f64) -> f64 {
    format!("{v:.5e}").parse().unwrap_or(v)
}

#[cfg(test)]
mod tests;
