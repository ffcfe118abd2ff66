//! Medians and paired intervals.

use std::collections::{BTreeMap, BTreeSet};

pub use poolwright_estimate::student::Z975;

use crate::objective::Metrics;

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
    pub fn is_significant(&self) -> bool {
        self.ci95.0 > 0.0 || self.ci95.1 < 0.0
    }
}

/// The standard deviation of one trial's figure, as a logarithm, as all trials show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// The standard deviation.
    pub deviation: f64,
    /// Its degrees of freedom.
    pub freedom: usize,
}

impl Deviation {
    /// Pooled over groups of positive figures, each with a mean of its own; `None` where no group has two.
    pub fn within(groups: impl Iterator<Item = Vec<f64>>) -> Option<Deviation> {
        let (mut squares, mut freedom) = (0.0, 0);
        for group in groups {
            let logs: Vec<f64> =
                group.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect();
            if logs.len() < 2 {
                continue;
            }
            let mean = logs.iter().sum::<f64>() / logs.len() as f64;
            squares += logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            freedom += logs.len() - 1;
        }
        (freedom > 0).then(|| Deviation { deviation: (squares / freedom as f64).sqrt(), freedom })
    }

    /// Of both: the mean of the variances, weighted by their degrees of freedom.
    fn pooled(self, other: Deviation) -> Deviation {
        let squares = |d: Deviation| d.deviation.powi(2) * d.freedom as f64;
        let freedom = self.freedom + other.freedom;
        Deviation { deviation: ((squares(self) + squares(other)) / freedom as f64).sqrt(), freedom }
    }
}

/// How far trials of one setting lie apart, by metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter(BTreeMap<String, Deviation>);

impl Scatter {
    /// From the trials of each setting.
    pub fn of<'a>(settings: impl Iterator<Item = &'a [Metrics]>) -> Scatter {
        let settings: Vec<&[Metrics]> = settings.filter(|trials| trials.len() > 1).collect();
        let metrics: BTreeSet<&String> =
            settings.iter().flat_map(|t| t.iter()).flat_map(|t| t.keys()).collect();
        let of_one = |metric: &String| {
            let values = |trials: &&[Metrics]| trials.iter().filter_map(|t| t.get(metric).copied()).collect();
            Some((metric.clone(), Deviation::within(settings.iter().map(values))?))
        };
        Scatter(metrics.into_iter().filter_map(of_one).collect())
    }

    /// With the trials of more settings.
    pub fn and(&self, other: &Scatter) -> Scatter {
        let mut all = self.0.clone();
        for (metric, theirs) in &other.0 {
            all.entry(metric.clone()).and_modify(|ours| *ours = ours.pooled(*theirs)).or_insert(*theirs);
        }
        Scatter(all)
    }

    /// Of a metric, where it is known.
    pub fn of_metric(&self, metric: &str) -> Option<Deviation> {
        self.0.get(metric).copied()
    }
}

/// The change from the first to the second of each pair, from the mean log ratio with Student's t. Pairs that were run
/// side by side share the machine's slow drifts, so those cancel. `None` for fewer than two usable pairs.
pub fn paired_change(pairs: &[(f64, f64)]) -> Option<Change> {
    pooled_change(pairs, None)
}

/// The same, with the deviation of a trial from all trials, those of the pairs included, if that is known better than the
/// pairs tell it: a difference of two trials has twice the variance of one. Where drifts cancel in pairs, the interval is wider
/// than it has to be.
pub fn pooled_change(pairs: &[(f64, f64)], all: Option<Deviation>) -> Option<Change> {
    let usable = pairs.iter().filter(|(a, b)| *a > 0.0 && *b > 0.0 && a.is_finite() && b.is_finite());
    let logs: Vec<f64> = usable.map(|(a, b)| (b / a).ln()).collect();
    let n = logs.len();
    if n < 2 {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / n as f64;
    let (variance, freedom) = match all.filter(|all| all.freedom > n - 1) {
        Some(all) => (2.0 * all.deviation.powi(2), all.freedom),
        None => (logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1) as f64, n - 1),
    };
    let half = t975(freedom) * (variance / n as f64).sqrt();
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
    fn scatters_are_pooled_by_their_degrees_of_freedom() {
        let trials = |values: &[f64]| -> Vec<Metrics> {
            values.iter().map(|v| Metrics::from([("work_rate".to_owned(), *v)])).collect()
        };
        let (some, others) = (trials(&[1.0, 1.1, 1.2]), trials(&[2.0, 1.0]));
        let both = Scatter::of([some.as_slice(), others.as_slice()].into_iter());
        let one_by_one =
            Scatter::of([some.as_slice()].into_iter()).and(&Scatter::of([others.as_slice()].into_iter()));
        let (expected, got) =
            (both.of_metric("work_rate").unwrap(), one_by_one.of_metric("work_rate").unwrap());
        assert_eq!(got.freedom, 3);
        assert!((got.deviation - expected.deviation).abs() < 1e-12);
        assert_eq!(Scatter::default().and(&both), both);
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
        assert!(!c.is_significant());
        let c = paired_change(&[(2.0, 1.0), (4.0, 2.0), (8.0, 4.04)]).unwrap();
        assert!((c.change + 0.5).abs() < 0.01 && c.is_significant());
        assert!(paired_change(&[(1.0, 2.0)]).is_none());
        assert!(paired_change(&[(0.0, 2.0), (1.0, f64::NAN)]).is_none());
    }

    /// Nearly normal.
    fn normal(rng: &mut rand_chacha::ChaCha8Rng) -> f64 {
        (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
    }

    #[test]
    fn two_pairs_among_other_trials_cover_as_well_and_are_narrower() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(12);
        let (mut covered, mut pooled, mut alone) = (0, 0.0, 0.0);
        for _ in 0..2000 {
            let mut figure = |level: f64| level * (0.02 * normal(&mut rng)).exp();
            let pairs = [(figure(1.0), figure(0.8)), (figure(1.0), figure(0.8))];
            // Each was tried once in the search too.
            let groups = [
                vec![figure(1.0), pairs[0].0, pairs[1].0],
                vec![figure(0.8), pairs[0].1, pairs[1].1],
                vec![figure(0.7)],
            ];
            let c = pooled_change(&pairs, Deviation::within(groups.into_iter())).unwrap();
            covered += usize::from(c.ci95.0 <= -0.2 && -0.2 <= c.ci95.1);
            pooled += c.ci95.1 - c.ci95.0;
            let c = paired_change(&pairs).unwrap();
            alone += c.ci95.1 - c.ci95.0;
        }
        assert!((1870..=1930).contains(&covered), "{covered} of 2000 intervals hold the truth");
        assert!(pooled < 0.5 * alone, "{pooled} against {alone}");
    }

    #[test]
    fn deviations_are_within_groups_only() {
        let d = Deviation::within([vec![1.0, 1.0], vec![5.0, 5.0], vec![7.0]].into_iter()).unwrap();
        assert_eq!((d.deviation, d.freedom), (0.0, 2));
        assert_eq!(Deviation::within([vec![1.0], vec![2.0]].into_iter()), None);
        let trials = |v: &[f64]| v.iter().map(|v| Metrics::from([("a".into(), *v)])).collect::<Vec<_>>();
        let s = Scatter::of([trials(&[1.0, 1.0f64.exp()]).as_slice(), trials(&[3.0]).as_slice()].into_iter());
        let d = s.of_metric("a").unwrap();
        assert!((d.deviation - 0.5f64.sqrt()).abs() < 1e-12 && d.freedom == 1);
        assert_eq!(s.of_metric("b"), None);
    }

    #[test]
    fn the_interval_covers_in_nineteen_of_twenty() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(11);
        let mut noise = || normal(&mut rng);
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
