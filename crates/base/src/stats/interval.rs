//! The 95 % interval of a median.
//!
//! A bootstrap of three values cannot leave their range, and that range contains the true median in three cases of four
//! only. Below [`BOOTSTRAP`] values, the interval is therefore Student's t around the median, widened because a median is
//! less certain than a mean. With more values, it is a bootstrap interval.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::stats::{Z975, median, standard_deviation, t975};

/// The number of values from which the bootstrap is used.
pub(crate) const BOOTSTRAP: usize = 20;

/// The number of resamples of a bootstrap.
const RESAMPLES: usize = 2000;

/// The standard error of a median divided by that of a mean, for many normal values: √(π/2).
const MEDIAN_OVER_MEAN: f64 = 1.2533;

/// The 95 % interval of the median. Positive values are compared as logarithms: times, rates and sizes are symmetric
/// there, and no end falls below zero. `seed` determines the resamples.
///
/// Returns `None` for fewer than three values and for values that are not finite.
pub fn median_interval(values: &[f64], seed: u64) -> Option<(f64, f64)> {
    if values.len() < 3 || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    if values.len() >= BOOTSTRAP {
        return Some(bootstrap(values, seed));
    }
    if values.iter().all(|v| *v > 0.0) {
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        let (low, high) = around_median(&logs);
        return Some((low.exp(), high.exp()));
    }
    Some(around_median(values))
}

/// Student's t around the median, with the standard error of the mean times [`MEDIAN_OVER_MEAN`].
pub(crate) fn around_median(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let half = t975(n - 1.0) * standard_deviation(values) / n.sqrt() * MEDIAN_OVER_MEAN;
    let middle = median(values);
    (middle - half, middle + half)
}

/// The 2.5 % and 97.5 % percentiles of the medians of resamples, widened as T. Hesterberg advises ("What Teachers Should Know
/// About the Bootstrap", 2015): resamples vary less than samples, by a factor that depends on the degrees of freedom.
pub(crate) fn bootstrap(values: &[f64], seed: u64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = || {
        let drawn: Vec<f64> = values.iter().map(|_| values[rng.random_range(0..values.len())]).collect();
        median(&drawn)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    medians.sort_by(f64::total_cmp);
    let (low, high) = (medians[RESAMPLES / 40 - 1], medians[RESAMPLES - RESAMPLES / 40]);
    let n = values.len() as f64;
    let (middle, wider) = (median(values), t975(n - 1.0) / Z975 * (n / (n - 1.0)).sqrt());
    (middle - (middle - low) * wider, middle + (high - middle) * wider)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::sample::normal;

    fn share_of(times: usize, mut is_true: impl FnMut(&mut ChaCha8Rng) -> bool) -> f64 {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        (0..times).filter(|_| is_true(&mut rng)).count() as f64 / times as f64
    }

    #[test]
    fn an_interval_holds_the_truth_in_nineteen_of_twenty() {
        for n in [3, 4, 5, 8, 12, 20, 30] {
            let covered = share_of(if n < 20 { 1000 } else { 400 }, |rng| {
                let values: Vec<f64> = (0..n).map(|_| 100.0 * (0.1 * normal(rng)).exp()).collect();
                let (low, high) = median_interval(&values, 1).unwrap();
                low <= 100.0 && 100.0 <= high
            });
            assert!(covered >= 0.93, "{n} values: {covered}");
        }
        assert_eq!(median_interval(&[1.0, 2.0], 1), None);
        assert_eq!(median_interval(&[0.0, 0.0, 0.0], 1), Some((0.0, 0.0)));
        let many: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(median_interval(&many, 7), median_interval(&many, 7));
    }

    #[test]
    fn two_runs_agree_within_their_intervals() {
        for n in [3, 5] {
            let agree = share_of(1000, |rng| {
                let mut run = || {
                    let values: Vec<f64> = (0..n).map(|_| 50.0 * (0.05 * normal(rng)).exp()).collect();
                    median_interval(&values, 1).unwrap()
                };
                let (a, b) = (run(), run());
                a.0 <= b.1 && b.0 <= a.1
            });
            assert!(agree > 0.97, "{n} values: {agree}");
        }
    }
}
