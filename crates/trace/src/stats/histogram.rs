//! Histograms of bounded size: powers of two for sizes, log-linear for latencies.

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

/// The number of parts of a power of two, as a logarithm. The error of a value is at most 1/32, or 3 %.
const PARTS_LOG2: u32 = 4;

/// A log-linear histogram of latencies: each power of two has 16 equal parts. A value is reported as the middle of its
/// part.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram {
    first: usize,
    counts: Vec<u64>,
}

impl LatencyHistogram {
    /// Counts one latency in nanoseconds.
    pub fn add(&mut self, ns: u64) {
        self.add_many(bucket(ns), 1);
    }

    fn add_many(&mut self, bucket: usize, count: u64) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.counts.len() {
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += count;
    }

    /// Adds the counts of another histogram.
    pub fn merge(&mut self, other: &LatencyHistogram) {
        for (at, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.add_many(other.first + at, *count);
        }
    }

    /// Returns the number of latencies counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the latency in nanoseconds that `share` (0 to 1) of the operations did not exceed, within 3 %; 0 if the
    /// histogram is empty.
    pub fn quantile(&self, share: f64) -> u64 {
        let total = self.total();
        let rank = ((share * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle(self.first + at);
            }
        }
        0
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

fn bucket(ns: u64) -> usize {
    let parts = 1u64 << PARTS_LOG2;
    if ns < parts {
        return ns as usize;
    }
    let shift = ns.ilog2() - PARTS_LOG2;
    ((shift as u64 + 1) * parts + ((ns >> shift) - parts)) as usize
}

fn middle(bucket: usize) -> u64 {
    let parts = 1u64 << PARTS_LOG2;
    let bucket = bucket as u64;
    if bucket < parts {
        return bucket;
    }
    let shift = bucket / parts - 1;
    ((parts + bucket % parts) << shift) + (1u64 << shift) / 2
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
