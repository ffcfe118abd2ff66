//! Histograms of bounded size: powers of two for sizes, log-linear for latencies.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Sizes in bytes by power of two: `[low, count]` for sizes from `low` to below `2*low`, ascending; `low` 0 for size 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct SizeHistogram(pub Vec<(u64, u64)>);

impl SizeHistogram {
    /// Counts one size.
    pub fn add(&mut self, size: u64) {
        self.add_many(size, 1);
    }

    fn add_many(&mut self, size: u64, count: u64) {
        let low = if size == 0 { 0 } else { 1 << size.ilog2() };
        match self.0.binary_search_by_key(&low, |(low, _)| *low) {
            Ok(at) => self.0[at].1 += count,
            Err(at) => self.0.insert(at, (low, count)),
        }
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &SizeHistogram) {
        for (low, count) in &other.0 {
            self.add_many(*low, *count);
        }
    }

    /// Returns the number of sizes counted.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// Returns the bucket with the most counts, or `None` if the histogram is empty.
    pub fn mode(&self) -> Option<u64> {
        self.0.iter().max_by_key(|(_, count)| *count).map(|(low, _)| *low)
    }
}

/// A log-linear histogram of latencies: each power of two has 16 equal parts. A value is reported as the middle of its
/// part, so its error is at most 1/32, or 3 %.
///
/// A collector has three for each file of a trace. Therefore an empty one takes no memory, and a part counts to 2^32.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram(Option<Histogram<u32>>);

impl LatencyHistogram {
    /// Counts one latency in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        self.counts().record(ns).expect("a histogram that grows has room for every latency");
    }

    fn counts(&mut self) -> &mut Histogram<u32> {
        self.0.get_or_insert_with(|| Histogram::new(1).expect("one significant digit is within bounds"))
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        if let Some(other) = &other.0 {
            self.counts().add(other).expect("a histogram that grows has room for every latency");
        }
    }

    /// Returns the number of latencies counted.
    pub fn total(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    /// Returns the latency in nanoseconds that `share` (0 to 1) of the operations did not exceed, within 3 %; 0 if the
    /// histogram is empty.
    pub fn quantile(&self, share: f64) -> u64 {
        self.0.as_ref().map_or(0, |counts| counts.median_equivalent(counts.value_at_quantile(share)))
    }

    /// Returns the quantiles that reports show, or `None` if the histogram is empty.
    pub fn quantiles(&self) -> Option<Quantiles> {
        (self.total() > 0).then(|| Quantiles {
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
        })
    }
}

/// Latency quantiles in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// Median in nanoseconds.
    pub p50: u64,
    /// 99th percentile in nanoseconds.
    pub p99: u64,
    /// 99.9th percentile in nanoseconds.
    pub p999: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sizes_fall_into_powers_of_two() {
        let mut sizes = SizeHistogram::default();
        for size in [0, 1, 4095, 4096, 8191, 8192, u64::MAX] {
            sizes.add(size);
        }
        assert_eq!(sizes.0, [(0, 1), (1, 1), (2048, 1), (4096, 2), (8192, 1), (1 << 63, 1)]);
    }

    proptest! {
        #[test]
        fn quantiles_are_within_three_per_cent(mut values in prop::collection::vec(1..1u64 << 40, 1..300), share in 0.0..1.0f64) {
            let mut all = LatencyHistogram::default();
            let (left, right) = values.split_at(values.len() / 2);
            let mut part = LatencyHistogram::default();
            left.iter().for_each(|v| all.add(*v));
            right.iter().for_each(|v| part.add(*v));
            all.merge(&part);
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let exact = values[rank - 1] as f64;
            let found = all.quantile(share) as f64;
            prop_assert!((found - exact).abs() <= exact / 30.0, "{found} for {exact}");
        }

        #[test]
        fn any_latency_has_a_bucket(ns: u64) {
            let mut one = LatencyHistogram::default();
            one.add(ns);
            prop_assert!(one.quantile(0.5).abs_diff(ns) as f64 <= ns as f64 / 30.0);
        }
    }
}
