//! From what was counted in a sample to a miss ratio and the confidence interval around it.
//!
//! Every number here is a share of the requests that a sample is expected to have: the sampling rate times all of them.
//! What it is made of, and how often it holds, is in `docs/method.md`.

use super::GROUPS;
use crate::Confidence;

/// Student's t for 99 % on both sides and one degree of freedom less than there are groups. A confidence interval of 95 % by its formula
/// would hold for 95 of 100 samples only where all it rests on were exact; this one has to at every size of every trace.
const T: f64 = 2.947;
/// The normal distribution's 99 %.
const Z: f64 = 2.576;
/// How far a confidence interval is stretched where few records fit into the sample's cache, times one over the root of their number.
/// Found by experiment.
const SKEW: f64 = 3.0;
/// The mean of a Poisson count that is 0 in 1 of 100 samples.
const NONE_SEEN: f64 = 4.6;

/// One figure as it was counted in a sample and in each of its groups.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// In the whole sample.
    pub whole: f64,
    /// In the whole sample, with the cache as much larger as chance may have put more records into the sample.
    pub larger: f64,
    /// The same with a smaller cache.
    pub smaller: f64,
    /// In each group, times the number of groups.
    pub groups: [f64; GROUPS],
}

/// What a sample is.
#[derive(Clone, Debug)]
pub(super) struct Basis {
    /// Share of the records that is looked at.
    pub rate: f64,
    /// All requests of the trace.
    pub requests: f64,
    /// Sum over all records of the trace of the square of their requests.
    pub squares: f64,
    /// Records in the sample.
    pub records: f64,
    /// Requests of each group, times the number of groups, as a share.
    pub groups: [f64; GROUPS],
}

impl Basis {
    /// The count as a share of the trace's requests, with its confidence interval. `slots` is the number of records that fit into the
    /// sample's cache.
    pub fn estimate(&self, observed: &Observed, slots: f64) -> (f64, Confidence) {
        let sampled = mean(&self.groups);
        let (slope, error) = self.adjustment(observed);
        // The count adjustment of SHARDS, by the part of the excess requests that missed.
        let shift = -slope * (sampled - 1.0);
        let ratio = observed.whole + shift;

        // A few records carry most of what misses (or, with the slope at 1, of what hits). A sample that has too few of
        // them is too low and does not know it, so the interval is longer to that side.
        let stretch = |share: f64| T * (1.0 + SKEW * share / slots.sqrt()) * error;
        // The misses of a smaller or larger cache are themselves those of a random number of records.
        let noise = Z * (1.0 - slope) / self.records.sqrt();
        let low = observed.larger.min(observed.smaller) + shift;
        let high = observed.larger.max(observed.smaller) + shift;
        // What no sample tells by differing from another: that small caches are not quite a share of a large one (as far
        // as the groups show it, if that falls with the root of the size: it then is four times as much for them), and
        // that the curve bends or jumps between the three sizes.
        let nested = (mean(&observed.groups) - observed.whole).abs() / ((GROUPS as f64).sqrt() - 1.0);
        let bent = (low + high - 2.0 * ratio).abs() / 2.0;
        let low = (ratio - stretch(slope)).min(low * (1.0 - noise)) - nested - bent;
        let high = (ratio + stretch(1.0 - slope)).max(high * (1.0 + noise)) + nested + bent;
        let unseen = NONE_SEEN / (self.rate * self.requests);
        let confidence =
            Confidence { low: (low - unseen).clamp(0.0, 1.0), high: (high + unseen).clamp(0.0, 1.0) };
        (ratio.clamp(0.0, 1.0), confidence)
    }

    /// By how much the count is to follow the number of sampled requests, 0 to 1, and the standard error that is left.
    ///
    /// With 0 it is SHARDS's count adjustment as published (all requests too many or too few are taken for hits); with 1
    /// they are taken for misses; with the miss ratio, the plain ratio within the sample. Which is best depends on the
    /// trace: the regression of the count on the requests, over the groups, with the variance of the requests from the
    /// whole trace where the groups have missed what causes it.
    fn adjustment(&self, observed: &Observed) -> (f64, f64) {
        let k = GROUPS as f64;
        let (count, requests) = (mean(&observed.groups), mean(&self.groups));
        let (mut counts, mut both, mut own) = (0.0, 0.0, 0.0);
        for (x, r) in observed.groups.iter().zip(&self.groups) {
            counts += (x - count).powi(2);
            both += (x - count) * (r - requests);
            own += (r - requests).powi(2);
        }
        let scale = (1.0 - self.rate) / (k * (k - 1.0));
        let (counts, both, own) = (counts * scale, both * scale, own * scale);
        let true_variance = (1.0 - self.rate) * self.squares / (self.rate * self.requests.powi(2));
        let variance = true_variance.max(own);
        let slope = if variance > 0.0 { (both / variance).clamp(0.0, 1.0) } else { 0.0 };
        let left = (counts - 2.0 * slope * both + slope * slope * own).max(0.0);
        (slope, (left + slope * slope * (variance - own)).sqrt())
    }
}

fn mean(values: &[f64; GROUPS]) -> f64 {
    values.iter().sum::<f64>() / GROUPS as f64
}

/// The share of the trace's cache of `cache_bytes` that the sample's cache has at `rate`, and how far the records that
/// chance has put into the sample may differ from it, in bytes. `record_bytes` is the mean record.
///
/// The record asked for is in the sample for certain, and the others before it at the sampling rate: so there is room for
/// it besides its share of the rest.
pub(super) fn scaled(cache_bytes: u64, rate: f64, record_bytes: f64) -> (f64, f64) {
    let share = rate * cache_bytes as f64;
    let own = (1.0 - rate) * record_bytes;
    (share + own, Z * (share * own).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basis(groups: [f64; GROUPS], squares: f64) -> Basis {
        Basis { rate: 0.01, requests: 1e6, squares, records: 1_000.0, groups }
    }

    fn flat(whole: f64, groups: [f64; GROUPS]) -> Observed {
        Observed { whole, larger: whole, smaller: whole, groups }
    }

    /// Deviations that cancel out, half of them up.
    fn around(middle: f64, by: f64) -> [f64; GROUPS] {
        std::array::from_fn(|n| middle + if n % 2 == 0 { by } else { -by })
    }

    #[test]
    fn where_all_requests_miss_the_ratio_is_one_whatever_the_sample() {
        let groups = around(0.9, 0.1);
        // As the groups show it: 16 deviations of 0.1 make an error of 0.1 / sqrt(15) in their mean.
        let squares = 0.01 / 15.0 * 0.01 * 1e12;
        let (ratio, confidence) = basis(groups, squares).estimate(&flat(0.9, groups), 100.0);
        assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
        assert!(confidence.low > 0.99 && confidence.high == 1.0, "{confidence:?}");
    }

    #[test]
    fn missing_popular_records_are_taken_for_hits() {
        // The sample has half of the requests, the rest went to records that it has not got.
        let (requests, misses) = (around(0.5, 0.05), around(0.3, 0.02));
        let (ratio, confidence) = basis(requests, 0.25 * 0.01 * 1e12).estimate(&flat(0.3, misses), 100.0);
        assert!((ratio - 0.3).abs() < 0.01, "{ratio}");
        assert!(
            confidence.low > 0.25
                && confidence.low < 0.29
                && confidence.high > 0.31
                && confidence.high < 0.35,
            "{confidence:?}"
        );
    }

    #[test]
    fn a_cliff_in_reach_is_in_the_band() {
        let steady = around(0.95, 0.001);
        let observed = Observed { whole: 0.95, larger: 0.05, smaller: 0.95, groups: steady };
        let (_, confidence) = basis(around(1.0, 0.01), 1e6).estimate(&observed, 500.0);
        assert!(confidence.low < 0.05 && confidence.high > 0.95, "{confidence:?}");
    }

    #[test]
    fn a_cache_of_the_sample_is_its_share_and_the_record_asked_for() {
        assert_eq!(scaled(1 << 20, 1.0, 512.0), (1048576.0, 0.0));
        let (bytes, spread) = scaled(512 * 1000, 0.1, 512.0);
        assert!((bytes / 512.0 - 100.9).abs() < 1e-9);
        assert!((spread / 512.0 - Z * 90f64.sqrt()).abs() < 1e-9);
    }
}
