//! Linear interpolation of a curve.

use crate::Curve;

/// Reads from the device per request at one size, with the ends of the confidence interval. All three are equal for an
/// exact curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reads {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// A curve for any size, by linear interpolation of its points.
#[derive(Clone, Debug)]
pub(super) struct Interpolation {
    /// In ascending order of size, without duplicates.
    pub points: Vec<(u64, Reads)>,
    settled: bool,
}

impl Interpolation {
    pub fn new(curve: &Curve, footprint_bytes: Option<u64>) -> Interpolation {
        let mut points: Vec<(u64, Reads)> = curve
            .points
            .iter()
            .filter(|p| p.miss_ratio.is_finite())
            .map(|p| {
                let value = p.read_ratio();
                // The interval covers all misses; subtract the misses of writes from both ends.
                let end = |miss: f64| (miss - p.write_miss_ratio).clamp(0.0, 1.0);
                let (low, high) = p.confidence.map_or((value, value), |b| (end(b.low), end(b.high)));
                (p.cache_bytes, Reads { value, low: low.min(value), high: high.max(value) })
            })
            .collect();
        points.dedup_by_key(|p| p.0);
        let settled = curve.points.last().is_some_and(|last| {
            // Every record misses at least once. A record that was freed and came back misses twice, so the footprint
            // is checked too.
            let misses = last.miss_ratio * curve.requests as f64;
            // OpenZFS's ARC also holds metadata.
            let besides = if curve.model == "openzfs" { 0.25 } else { 0.0 };
            let holds = |bytes: u64| last.cache_bytes as f64 >= bytes as f64 * (1.0 + besides);
            misses <= curve.records as f64 * 1.0001 || footprint_bytes.is_some_and(holds)
        });
        Interpolation { points, settled }
    }

    /// Whether the largest size holds all reused records, so that larger sizes read as much.
    pub fn settled(&self) -> bool {
        self.settled
    }

    /// The largest size; `None` without points.
    pub fn largest(&self) -> Option<u64> {
        self.points.last().map(|p| p.0)
    }

    /// The reads at `bytes`; `None` outside the curve.
    pub fn at(&self, bytes: u64) -> Option<Reads> {
        let after = self.points.partition_point(|p| p.0 < bytes);
        let (Some(right), before) = (self.points.get(after), after.checked_sub(1)) else {
            return self.points.last().map(|p| p.1).filter(|_| self.settled);
        };
        if right.0 == bytes {
            return Some(right.1);
        }
        let left = self.points[before?];
        let share = (bytes - left.0) as f64 / (right.0 - left.0) as f64;
        let between = |a: f64, b: f64| a + (b - a) * share;
        Some(Reads {
            value: between(left.1.value, right.1.value),
            low: between(left.1.low, right.1.low),
            high: between(left.1.high, right.1.high),
        })
    }
}
