//! The effect of more memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interpolate::{Interpolation, Reads};
use super::{GIB, Given, short};
use crate::Point;

/// The saving of a larger cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// The size before.
    pub from_bytes: u64,
    /// The size after; less than requested if the curve ends before.
    pub to_bytes: u64,
    /// Reads from the device per request at `from_bytes`; `None` outside the curve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ratio: Option<f64>,
    /// Whether it saves anything.
    pub verdict: StepVerdict,
    /// Reads per request that it saves.
    pub reads: Saved,
    /// Reads per second that it saves, over the length of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_s: Option<Saved>,
    /// Waiting time that it saves, in milliseconds per second, summed over all waiting threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms_s: Option<Saved>,
}

/// A value and its 95 % confidence interval. All three are equal for an exact curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Saved {
    /// The value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Whether a step saves anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepVerdict {
    /// It saves reads.
    Saves,
    /// It saves nothing.
    Nothing,
    /// The confidence interval of the saving includes zero.
    NoDifference,
    /// The step lies outside the curve.
    Unknown,
}

impl Saved {
    fn times(self, factor: f64) -> Saved {
        Saved { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    fn short(self) -> Saved {
        Saved { value: short(self.value), low: short(self.low), high: short(self.high) }
    }

    /// The difference of `a` and `b`, with the worst and the best case. Both intervals come from the same sample and
    /// have similar errors, so this one covers more than 95 %.
    fn between(a: Reads, b: Reads) -> Saved {
        Saved { value: a.value - b.value, low: a.low - b.high, high: a.high - b.low }
    }
}

/// Converts reads per request to reads per second and to waiting time.
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

/// A gigabyte, or the largest power of two of which the curve covers eight.
pub(super) fn step_bytes(points: &[Point]) -> u64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return GIB };
    let eighth = (last.cache_bytes - first.cache_bytes) / 8;
    if eighth == 0 { 1 } else { (1u64 << eighth.ilog2()).min(GIB) }
}

/// The effect of `by` bytes more than `from`.
pub(super) fn step(interpolation: &Interpolation, from: u64, by: u64, rate: Rate) -> Step {
    let wanted = from.saturating_add(by);
    let end = interpolation
        .largest()
        .map_or(wanted, |last| if interpolation.settled() { wanted } else { wanted.min(last) });
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

/// Beyond the largest size of a settled curve both ends are the same point, whose confidence interval does not make
/// their difference uncertain.
fn saved(interpolation: &Interpolation, from: u64, to: u64, a: Reads, b: Reads) -> Saved {
    let last = interpolation.largest().unwrap_or(0);
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
