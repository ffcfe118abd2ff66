//! Estimates a miss ratio and its confidence interval from the counts of a sample.
//!
//! Counts here are relative to the expected requests of the sample: the sampling rate times all requests.
//! `docs/derivations.md` explains the estimate, and how often it holds.

use super::GROUPS;
use crate::Confidence;

/// Student's t for 99 % on both sides and one degree of freedom less than groups. An interval of 95 % by its formula
/// would cover 95 of 100 samples only if all of its assumptions were exact; this one must cover them at every size of
/// every trace.
const T: f64 = 2.947;
/// The quantile of the normal distribution for 99 %.
const Z: f64 = 2.576;
/// How much an interval is stretched if few records fit into the sample's cache, relative to one over the square root
/// of their number. Determined by experiment.
const SKEW: f64 = 3.0;
/// The mean of a Poisson variable that is 0 in 1 of 100 samples.
const NONE_SEEN: f64 = 4.6;

/// One count in a sample and in each of its groups.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    /// The count of the whole sample.
    pub whole: f64,
    /// The count for a larger cache, by as much as chance may have added records to the sample.
    pub larger: f64,
    /// The count for a smaller cache.
    pub smaller: f64,
    /// The count of each group, times the number of groups.
    pub groups: [f64; GROUPS],
}

/// The properties of a sample.
#[derive(Clone, Debug)]
pub(super) struct Basis {
    /// Share of the records in the sample.
    pub rate: f64,
    /// All requests of the trace.
    pub requests: f64,
    /// Sum over all records of the trace of the square of their requests.
    pub squares: f64,
    /// Records in the sample.
    pub records: f64,
    /// Requests of each group, times the number of groups, relative to the expected requests.
    pub groups: [f64; GROUPS],
}

impl Basis {
    /// The count relative to the trace's requests, with its confidence interval. `slots` is the number of records that
    /// fit into the sample's cache.
    pub fn estimate(&self, observed: &Observed, slots: f64) -> (f64, Confidence) {
        let sampled = mean(&self.groups);
        let (slope, error) = self.adjustment(observed);
        // The count adjustment of SHARDS, multiplied by the share of the excess requests that missed.
        let shift = -slope * (sampled - 1.0);
        let ratio = observed.whole + shift;

        // A few records cause most of the misses (or, with the slope at 1, most of the hits). A sample that has too few
        // of them is too low without showing it, so the interval is longer on that side.
        let stretch = |share: f64| T * (1.0 + SKEW * share / slots.sqrt()) * error;
        // The misses of a smaller or larger cache are themselves those of a random number of records.
        let noise = Z * (1.0 - slope) / self.records.sqrt();
        let low = observed.larger.min(observed.smaller) + shift;
        let high = observed.larger.max(observed.smaller) + shift;
        // Errors that the differences between samples do not show: small caches are not exact reductions of a large one
        // (estimated from the groups, assuming that the error falls with the square root of the size, which makes it
        // four times as large for groups), and the curve bends or jumps between the three sizes.
        let nested = (mean(&observed.groups) - observed.whole).abs() / ((GROUPS as f64).sqrt() - 1.0);
        let bent = (low + high - 2.0 * ratio).abs() / 2.0;
        let low = (ratio - stretch(slope)).min(low * (1.0 - noise)) - nested - bent;
        let high = (ratio + stretch(1.0 - slope)).max(high * (1.0 + noise)) + nested + bent;
        let unseen = NONE_SEEN / (self.rate * self.requests);
        let confidence =
            Confidence { low: (low - unseen).clamp(0.0, 1.0), high: (high + unseen).clamp(0.0, 1.0) };
        (ratio.clamp(0.0, 1.0), confidence)
    }

    /// The regression slope of the count on the number of sampled requests, 0 to 1, and the remaining standard error.
    ///
    /// A slope of 0 is the count adjustment of SHARDS as published, which counts all excess or missing requests as
    /// hits. A slope of 1 counts them as misses. The miss ratio as a slope gives the plain ratio within the sample. The
    /// best slope depends on the trace: it is that of the regression over the groups. The variance of the requests
    /// comes from the whole trace, because the groups may lack the records that cause it.
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

/// The size of the sample's cache at `rate` for a cache of `cache_bytes`, and how far the records that chance selected
/// may deviate from it, both in bytes. `record_bytes` is the mean size of a record.
///
/// The requested record is always in the sample, and the others before it with the sampling rate. The sample's cache
/// therefore has room for it in addition to its share of the rest.
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

    /// Deviations whose sum is zero, half of them positive.
    fn around(middle: f64, by: f64) -> [f64; GROUPS] {
        std::array::from_fn(|n| middle + if n % 2 == 0 { by } else { -by })
    }

    #[test]
    fn where_all_requests_miss_the_ratio_is_one_whatever_the_sample() {
        let groups = around(0.9, 0.1);
        // As in the groups: 16 deviations of 0.1 cause an error of 0.1 / sqrt(15) in their mean.
        let squares = 0.01 / 15.0 * 0.01 * 1e12;
        let (ratio, confidence) = basis(groups, squares).estimate(&flat(0.9, groups), 100.0);
        assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
        assert!(confidence.low > 0.99 && confidence.high == 1.0, "{confidence:?}");
    }

    #[test]
    fn requests_for_missing_popular_records_count_as_hits() {
        // The sample has half of the expected requests; the others were for records outside of it.
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
    fn a_cliff_within_reach_is_in_the_interval() {
        let steady = around(0.95, 0.001);
        let observed = Observed { whole: 0.95, larger: 0.05, smaller: 0.95, groups: steady };
        let (_, confidence) = basis(around(1.0, 0.01), 1e6).estimate(&observed, 500.0);
        assert!(confidence.low < 0.05 && confidence.high > 0.95, "{confidence:?}");
    }

    #[test]
    fn the_cache_of_a_sample_is_its_share_and_the_requested_record() {
        assert_eq!(scaled(1 << 20, 1.0, 512.0), (1048576.0, 0.0));
        let (bytes, spread) = scaled(512 * 1000, 0.1, 512.0);
        assert!((bytes / 512.0 - 100.9).abs() < 1e-9);
        assert!((spread / 512.0 - Z * 90f64.sqrt()).abs() < 1e-9);
    }
}
