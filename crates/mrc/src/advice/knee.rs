//! The knee and the sufficient size of a curve.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::interpolate::Interpolation;
use super::short;

/// The knee: up to this size memory saves many reads, beyond it few.
///
/// Kneedle (Satopää, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a Haystack", ICDCS Workshops 2011) on the lower
/// convex hull: both axes are scaled to 0 … 1, and the knee is the point farthest below the straight line from the
/// first to the last point. On the hull each byte saves less than the one before, while the curve itself may have
/// cliffs, and the point before a cliff is a bad choice. Sizes beyond [`Enough`] are ignored; otherwise the knee would
/// depend on how far the curve extends beyond the sufficient size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Reads from the device per request there.
    pub read_ratio: f64,
}

/// The smallest size whose reads are within 5 % of the minimum (and within 0.05 % of the requests, for a curve that
/// reaches zero). There is none if this is the largest size of a curve that does not hold all reused records, because
/// then the minimum is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Enough {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Reads from the device per request there.
    pub read_ratio: f64,
    /// The minimum of the curve.
    pub best_read_ratio: f64,
}

/// Judgements, not measurements: 10 % more reads would be noticeable, 5 % hardly.
const WITHIN: f64 = 0.05;
const WITHIN_REQUESTS: f64 = 0.0005;
/// A curve that falls by less than 1 % of the requests is flat.
const MIN_FALL: f64 = 0.01;
/// The minimum distance of a knee below the straight line, relative to the height of the curve.
const MIN_BEND: f64 = 0.1;

pub(super) fn enough(interpolation: &Interpolation) -> Option<Enough> {
    let best = interpolation.points.iter().map(|p| p.1.value).min_by(f64::total_cmp)?;
    let limit = best * (1.0 + WITHIN) + WITHIN_REQUESTS;
    let (bytes, reads) = interpolation.points.iter().find(|p| p.1.value <= limit)?;
    Some(Enough { cache_bytes: *bytes, read_ratio: short(reads.value), best_read_ratio: short(best) })
}

/// The knee, or why there is none.
pub(super) fn knee(interpolation: &Interpolation) -> Result<Knee, &'static str> {
    const FEW: &str =
        "no knee: fewer than three of the modelled sizes are at or below the size that is enough";
    let enough = enough(interpolation).ok_or(FEW)?;
    let first = interpolation.points.first().ok_or(FEW)?;
    if interpolation.points.len() > 1 && first.1.value - enough.best_read_ratio < MIN_FALL {
        return Err("no knee: the curve is flat: a small cache is as good as a large one");
    }
    let points: Vec<_> = interpolation.points.iter().filter(|p| p.0 <= enough.cache_bytes).collect();
    let [.., end] = points.as_slice() else { return Err(FEW) };
    let fall = first.1.value - end.1.value;
    if first.1.low <= end.1.high {
        return Err("no knee: the sample is too small to distinguish the sizes");
    }
    if points.len() < 3 {
        return Err(FEW);
    }
    let width = (end.0 - first.0) as f64;
    let below =
        |(bytes, ratio): (u64, f64)| 1.0 - (bytes - first.0) as f64 / width - (ratio - end.1.value) / fall;
    let corners = hull(points.iter().map(|p| (p.0, p.1.value)));
    let farthest = corners.into_iter().max_by(|a, b| below(*a).total_cmp(&below(*b)));
    match farthest {
        Some(knee) if below(knee) >= MIN_BEND => Ok(Knee { cache_bytes: knee.0, read_ratio: short(knee.1) }),
        _ => Err("no knee: the curve is nearly straight, or falls only at its end"),
    }
}

/// The lower convex hull from left to right (Andrew's monotone chain, 1979).
fn hull(points: impl Iterator<Item = (u64, f64)>) -> Vec<(u64, f64)> {
    let mut out: Vec<(u64, f64)> = Vec::new();
    for p in points {
        while let [.., a, b] = out.as_slice() {
            let (ab, ap) = ((b.0 - a.0) as f64, (p.0 - a.0) as f64);
            // b stays if it lies below the line from a to p.
            if (b.1 - a.1) * ap < (p.1 - a.1) * ab {
                break;
            }
            out.pop();
        }
        out.push(p);
    }
    out
}
