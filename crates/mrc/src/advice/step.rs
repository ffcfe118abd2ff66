//! What more memory buys.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interpolate::{Interpolation, Reads};
use super::{GIB, Given, short};
use crate::Point;

/// What a larger cache saves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// From this size.
    pub from_bytes: u64,
    /// To this one; less than asked for where the curve ends before.
    pub to_bytes: u64,
    /// Reads from the device per request at `from_bytes`; `None` where the curve does not reach there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ratio: Option<f64>,
    /// Whether it saves anything.
    pub verdict: StepVerdict,
    /// Reads per request that are saved.
    pub reads: Saved,
    /// Reads a second that are saved, over the length of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_s: Option<Saved>,
    /// Milliseconds in each second that somebody no longer waits for the device, all who wait added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms_s: Option<Saved>,
}

/// A figure and its 95 % confidence interval; without a sample all three are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// The figure.
    pub value: f64,
    /// Lower end of its confidence.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Whether a step saves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepVerdict {
    /// It does.
    Saves,
    /// Nothing: no read less.
    Nothing,
    /// The confidence interval of the saving includes zero.
    NoDifference,
    /// The curve does not reach there.
    Unknown,
}

impl Saved {
    fn times(self, factor: f64) -> Saved {
        Saved { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    fn short(self) -> Saved {
        Saved { value: short(self.value), low: short(self.low), high: short(self.high) }
    }

    /// From `a` to `b`, at worst and at best. The two bands come of one sample and err alike, so this is wider than 95 %.
    fn between(a: Reads, b: Reads) -> Saved {
        Saved { value: a.value - b.value, low: a.low - b.high, high: a.high - b.low }
    }
}

/// From reads per request to reads a second and the time that they take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    requests_s: Option<f64>,
    latency_ms: Option<f64>,
}

impl Rate {
    pub fn new(requests: u64, given: &Given) -> Rate {
        Rate {
            requests_s: given.seconds.filter(|s| *s > 0.0).map(|s| requests as f64 / s),
            latency_ms: given.miss_latency_ns.map(|ns| ns as f64 / 1e6),
        }
    }
}

/// A gigabyte for a curve of several; else the power of two that goes into it eight times.
pub(super) fn step_bytes(points: &[Point]) -> u64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return GIB };
    let eighth = (last.cache_bytes - first.cache_bytes) / 8;
    if eighth == 0 { 1 } else { (1u64 << eighth.ilog2()).min(GIB) }
}

/// What `by` bytes more than `from` buy.
pub(super) fn step(interpolation: &Interpolation, from: u64, by: u64, rate: Rate) -> Step {
    let wanted = from.saturating_add(by);
    let end = interpolation
        .ends()
        .map_or(wanted, |(_, last)| if interpolation.settled() { wanted } else { wanted.min(last) });
    let to = end.max(from);
    let (before, after) = (interpolation.at(from), interpolation.at(to));
    let reads = match (before, after) {
        (Some(a), Some(b)) if to > from => Some(saved(interpolation, from, to, a, b)),
        _ => None,
    };
    let reads_s = reads.zip(rate.requests_s).map(|(r, per_s)| r.times(per_s));
    Step {
        from_bytes: from,
        to_bytes: to,
        read_ratio: before.map(|r| short(r.value)),
        verdict: verdict(reads),
        reads: reads.unwrap_or_default().short(),
        reads_s: reads_s.map(Saved::short),
        wait_ms_s: reads_s.zip(rate.latency_ms).map(|(r, ms)| r.times(ms).short()),
    }
}

/// Beyond the largest size of a curve that has settled, both ends are the same point, and its confidence interval is no doubt about their
/// difference.
fn saved(interpolation: &Interpolation, from: u64, to: u64, a: Reads, b: Reads) -> Saved {
    let last = interpolation.ends().map_or(0, |(_, last)| last);
    if from >= last && to >= last { Saved::default() } else { Saved::between(a, b) }
}

fn verdict(reads: Option<Saved>) -> StepVerdict {
    match reads {
        None => StepVerdict::Unknown,
        Some(r) if r.low > 0.0 => StepVerdict::Saves,
        Some(r) if r.low == r.high => StepVerdict::Nothing,
        Some(_) => StepVerdict::NoDifference,
    }
}
