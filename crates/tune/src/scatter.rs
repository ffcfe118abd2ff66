//! The noise of a trial's metrics.

use std::collections::{BTreeMap, BTreeSet};

use poolwright_base::stats::Deviation;
use poolwright_plan::MetricName;

use crate::objective::Metrics;

/// The noise of one trial's figure, by metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scatter(BTreeMap<MetricName, Deviation>);

impl Scatter {
    /// Pools the trials of each setting.
    pub fn of<'a>(settings: impl Iterator<Item = &'a [Metrics]>) -> Scatter {
        let settings: Vec<&[Metrics]> = settings.filter(|trials| trials.len() > 1).collect();
        let metrics: BTreeSet<&MetricName> =
            settings.iter().flat_map(|t| t.iter()).flat_map(|t| t.keys()).collect();
        let of_one = |metric: &MetricName| {
            let values = |trials: &&[Metrics]| trials.iter().filter_map(|t| t.get(metric).copied()).collect();
            Some((metric.clone(), Deviation::within(settings.iter().map(values))?))
        };
        Scatter(metrics.into_iter().filter_map(of_one).collect())
    }

    /// Pools these trials with those of other settings.
    pub fn and(&self, other: &Scatter) -> Scatter {
        let mut all = self.0.clone();
        for (metric, theirs) in &other.0 {
            all.entry(metric.clone()).and_modify(|ours| *ours = ours.pooled(*theirs)).or_insert(*theirs);
        }
        Scatter(all)
    }

    /// The deviation of a metric; `None` if no setting has two trials with it.
    pub fn of_metric(&self, metric: &MetricName) -> Option<Deviation> {
        self.0.get(metric).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatters_are_pooled_by_their_degrees_of_freedom() {
        let trials = |values: &[f64]| -> Vec<Metrics> {
            values.iter().map(|v| Metrics::from([(MetricName::WorkRate, *v)])).collect()
        };
        let (some, others) = (trials(&[1.0, 1.1, 1.2]), trials(&[2.0, 1.0]));
        let both = Scatter::of([some.as_slice(), others.as_slice()].into_iter());
        let one_by_one =
            Scatter::of([some.as_slice()].into_iter()).and(&Scatter::of([others.as_slice()].into_iter()));
        let (expected, got) = (
            both.of_metric(&MetricName::WorkRate).unwrap(),
            one_by_one.of_metric(&MetricName::WorkRate).unwrap(),
        );
        assert_eq!(got.freedom, 3);
        assert!((got.deviation - expected.deviation).abs() < 1e-12);
        assert_eq!(Scatter::default().and(&both), both);
    }

    #[test]
    fn deviations_are_within_settings_only() {
        let trials =
            |v: &[f64]| v.iter().map(|v| Metrics::from([(MetricName::WorkRate, *v)])).collect::<Vec<_>>();
        let s = Scatter::of([trials(&[1.0, 1.0f64.exp()]).as_slice(), trials(&[3.0]).as_slice()].into_iter());
        let d = s.of_metric(&MetricName::WorkRate).unwrap();
        assert!((d.deviation - 0.5f64.sqrt()).abs() < 1e-12 && d.freedom == 1);
        assert_eq!(s.of_metric(&MetricName::OpsS), None);
    }
}
