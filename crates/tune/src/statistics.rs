//! Medians and paired intervals.

pub use poolwright_estimate::student::Z975;

/// The 97.5 % quantile of Student's t with these degrees of freedom, 1 at least.
pub fn t975(freedom: usize) -> f64 {
    poolwright_estimate::student::t975(freedom as f64)
}

/// The middle value, or the mean of the two middle ones; NaN for none.
pub fn median(values: &[f64]) -> f64 {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    match v.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => v[n / 2],
        n => (v[n / 2 - 1] + v[n / 2]) / 2.0,
    }
}

/// A relative change with its 95 % interval, as fractions: -0.25 is a quarter less.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The estimate.
    pub change: f64,
    /// Lower and upper end.
    pub ci95: (f64, f64),
}

impl Change {
    /// Whether the interval leaves out "no change".
    pub fn is_one(&self) -> bool {
        self.ci95.0 > 0.0 || self.ci95.1 < 0.0
    }
}

/// The change from the first to the second of each pair, from the mean log ratio with Student's t. Pairs that were run
/// side by side share the machine's slow drifts, so those cancel. `None` for fewer than two usable pairs.
pub fn paired_change(pairs: &[(f64, f64)]) -> Option<Change> {
    let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite());
    let logs: Vec<f64> = usable.map(|(a, b)| (b / a).ln()).collect();
    let n = logs.len();
    if n < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let half = t975(n - 1) * (variance / n as f64).sqrt();
    Some(Change { change: mean.exp() - 1.0, ci95: ((mean - half).exp() - 1.0, (mean + half).exp() - 1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn many_pairs_have_the_interval_of_as_many() {
        // 41 pairs that differ by e^±0.1: by Student's t with 40 degrees, 2.021, not by the normal 1.960.
        let pairs: Vec<(f64, f64)> =
            (0..41).map(|i| (1.0, if i % 2 == 0 { 0.1f64 } else { -0.1 }.exp())).collect();
        let c = paired_change(&pairs).unwrap();
        let half = ((1.0 + c.ci95.1).ln() - (1.0 + c.ci95.0).ln()) / 2.0;
        let mean = 0.1 / 41.0;
        let deviation = ((41.0 * 0.01 - 41.0 * mean * mean) / 40.0f64).sqrt();
        assert!((half / (deviation / 41f64.sqrt()) - 2.021).abs() < 1e-3, "{half}");
    }

    #[test]
    fn equal_pairs_have_no_change_and_a_known_one_is_found() {
        let c = paired_change(&[(2.0, 2.0); 5]).unwrap();
        assert_eq!((c.change, c.ci95), (0.0, (0.0, 0.0)));
        assert!(!c.is_one());
        let c = paired_change(&[(2.0, 1.0), (4.0, 2.0), (8.0, 4.04)]).unwrap();
        assert!((c.change + 0.5).abs() < 0.01 && c.is_one());
        assert!(paired_change(&[(1.0, 2.0)]).is_none());
        assert!(paired_change(&[(0.0, 2.0), (1.0, f64::NAN)]).is_none());
    }

    #[test]
    fn the_interval_covers_in_nineteen_of_twenty() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
        let mut noise = || (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0; // nearly normal
        let covered = (0..2000)
            .filter(|_| {
                let pairs: Vec<(f64, f64)> = (0..5)
                    .map(|_| {
                        let drift = (0.3 * noise()).exp();
                        (drift * (0.05 * noise()).exp(), drift * 0.8 * (0.05 * noise()).exp())
                    })
                    .collect();
                let c = paired_change(&pairs).unwrap();
                c.ci95.0 <= -0.2 && -0.2 <= c.ci95.1
            })
            .count();
        assert!((1870..=1930).contains(&covered), "{covered} of 2000 intervals hold the truth");
    }
}
