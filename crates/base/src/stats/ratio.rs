//! The ratio of two figures from pairs of trials.
//!
//! The two trials of a pair run one after the other, so they share the machine's slow drifts, which cancel in their ratio.
//! The estimate is made from the logarithms of the pairs' ratios.

use crate::stats::interval::{BOOTSTRAP, around_median, bootstrap};
use crate::stats::{Deviation, mean, median, standard_deviation, t975, two_sided_t};

/// The largest standard deviation of a trial's logarithm that is assumed when two pairs are too few to estimate it: a factor of 1.65. Of equal trials
/// of the shipped campaigns, those with the largest one (a read mix on emulated spinning disks) have 0.4.
const LARGEST_DEVIATION: f64 = 0.5;

/// An estimate of second divided by first.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedRatio {
    /// The ratio; 1 is no difference.
    pub ratio: f64,
    /// Its 95 % interval; `None` for too few pairs.
    pub interval: Option<(f64, f64)>,
    /// The number of usable pairs.
    pub pairs: usize,
}

/// The direction of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The second figure is higher, beyond noise.
    Higher,
    /// The second figure is lower, beyond noise.
    Lower,
    /// The interval contains 1.
    NoDifference,
    /// There are too few pairs for an interval.
    TooFew,
}

/// A relative change with its 95 % interval, as fractions: -0.25 is a decrease by a quarter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RelativeChange {
    /// The estimate.
    pub change: f64,
    /// The lower and the upper end of the interval.
    pub ci95: (f64, f64),
}

impl RelativeChange {
    /// Whether the interval excludes 0.
    pub fn is_significant(&self) -> bool {
        self.ci95.0 > 0.0 || self.ci95.1 < 0.0
    }
}

impl PairedRatio {
    /// The median of the ratios of the pairs (first, second), which one outlying trial does not move. The interval needs
    /// three pairs: Student's t around the median below 20 pairs, a bootstrap from there on (see
    /// [`median_interval`](crate::stats::median_interval)).
    ///
    /// Returns `None` without a usable pair.
    pub fn of_medians(pairs: &[(f64, f64)]) -> Option<PairedRatio> {
        let logs = log_ratios(pairs);
        let interval = match logs.len() {
            0 => return None,
            1 | 2 => None,
            n if n < BOOTSTRAP => Some(around_median(&logs)),
            n => Some(bootstrap(&logs, n as u64)),
        };
        Some(PairedRatio::from_logs(median(&logs), interval, logs.len()))
    }

    /// The geometric mean of the ratios of the pairs (first, second). The interval needs two pairs: Student's t of the mean
    /// logarithm.
    ///
    /// `pooled` is the deviation of one trial from all trials, those of the pairs included. If it has more degrees of freedom
    /// than the pairs, it determines the interval, because the difference of two trials has twice the variance of one. That
    /// interval is wider than necessary if drifts cancel in the pairs.
    ///
    /// Returns `None` without a usable pair.
    pub fn of_means(pairs: &[(f64, f64)], pooled: Option<Deviation>) -> Option<PairedRatio> {
        PairedRatio::around_mean(pairs, pooled, t975)
    }

    /// The geometric mean of the ratios of the pairs (first, second). The interval, which needs two pairs, misses the true ratio with at most
    /// the probability `alpha`. It is the narrower of two around the mean logarithm, each with half of `alpha`: Student's t of
    /// the pairs' differences, in which shared drifts cancel, and Welch's t of the two samples, which has more degrees of freedom (B. L. Welch,
    /// *Biometrika* 34, 1947) and is too wide if the figures of a pair drift together. The figures of a pair must not drift apart. Against a
    /// constant, the two are equal. With two pairs, Welch's t is too narrow if the samples vary differently: the second interval is then that
    /// of figures with a known standard deviation of [`LARGEST_DEVIATION`], which decides only large differences.
    ///
    /// Returns `None` without a usable pair.
    pub fn of_means_at(pairs: &[(f64, f64)], alpha: f64) -> Option<PairedRatio> {
        let paired = PairedRatio::around_mean(pairs, None, |freedom| two_sided_t(alpha / 2.0, freedom))?;
        let log = paired.ratio.ln();
        let second = match paired.pairs {
            2 => Some(two_sided_t(alpha / 2.0, f64::INFINITY) * LARGEST_DEVIATION),
            _ => welch(pairs, alpha / 2.0),
        };
        let interval = match (paired.interval, second) {
            (Some((_, high)), Some(half)) if log + half < high.ln() => {
                Some(((log - half).exp(), (log + half).exp()))
            }
            (interval, _) => interval,
        };
        Some(PairedRatio { interval, ..paired })
    }

    /// The geometric mean and its interval. `t` is the factor of the interval for degrees of freedom.
    fn around_mean(
        pairs: &[(f64, f64)],
        pooled: Option<Deviation>,
        t: impl Fn(f64) -> f64,
    ) -> Option<PairedRatio> {
        let logs = log_ratios(pairs);
        let n = logs.len();
        if n == 0 {
            return None;
        }
        let mean = mean(&logs);
        let half = (n >= 2).then(|| {
            let (variance, freedom) = match pooled.filter(|pooled| pooled.freedom > n - 1) {
                Some(pooled) => (2.0 * pooled.deviation.powi(2), pooled.freedom),
                None => (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64, n - 1),
            };
            t(freedom as f64) * (variance / n as f64).sqrt()
        });
        Some(PairedRatio::from_logs(mean, half.map(|half| (mean - half, mean + half)), n))
    }

    fn from_logs(log: f64, interval: Option<(f64, f64)>, pairs: usize) -> PairedRatio {
        let interval = interval.map(|(low, high)| (low.exp(), high.exp()));
        PairedRatio { ratio: log.exp(), interval, pairs }
    }

    /// First divided by second.
    pub fn inverse(&self) -> PairedRatio {
        PairedRatio {
            ratio: 1.0 / self.ratio,
            interval: self.interval.map(|(low, high)| (1.0 / high, 1.0 / low)),
            pairs: self.pairs,
        }
    }

    /// The change from first to second. Returns `None` without an interval.
    pub fn change(&self) -> Option<RelativeChange> {
        let (low, high) = self.interval?;
        Some(RelativeChange { change: self.ratio - 1.0, ci95: (low - 1.0, high - 1.0) })
    }

    /// Whether the second figure differs from the first beyond noise.
    pub fn direction(&self) -> Direction {
        match self.interval {
            None => Direction::TooFew,
            Some((low, _)) if low > 1.0 => Direction::Higher,
            Some((_, high)) if high < 1.0 => Direction::Lower,
            Some(_) => Direction::NoDifference,
        }
    }
}

/// The logarithms of second divided by first. Equal figures, also two zeros, have the ratio 1. Ignores other pairs with a
/// figure that is not positive and finite.
fn log_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    let log = |(first, second): &(f64, f64)| {
        if first == second {
            return Some(0.0);
        }
        let log = (second / first).ln();
        (*first > 0.0 && *second > 0.0 && log.is_finite()).then_some(log)
    };
    pairs.iter().filter_map(log).collect()
}

/// Half of the interval of the difference of the mean logarithms of two samples, which misses the truth with probability `alpha`. Returns
/// `None` for fewer than two pairs, figures that are not positive and finite, and two samples without variance.
fn welch(pairs: &[(f64, f64)], alpha: f64) -> Option<f64> {
    let variance_of_mean = |pick: fn(&(f64, f64)) -> f64| {
        let logs: Vec<f64> = pairs.iter().map(|pair| pick(pair).ln()).collect();
        standard_deviation(&logs).powi(2) / logs.len() as f64
    };
    let (first, second) = (variance_of_mean(|pair| pair.0), variance_of_mean(|pair| pair.1));
    let sum = first + second;
    let freedom = sum.powi(2) * (pairs.len() as f64 - 1.0) / (first.powi(2) + second.powi(2));
    (sum > 0.0 && freedom.is_finite()).then(|| two_sided_t(alpha, freedom) * sum.sqrt())
}

#[cfg(test)]
mod tests;
