//! The trials of one race as a table: the settings, the measurements, and the scatter of repeated trials of one
//! setting.
//!
//! Figures are compared as logarithms, so that a change is relative.

use poolwright_base::stats::{Deviation, mean, t975};
use poolwright_openzfs::property::{Settings, canonical};

use crate::evidence::verdict;
use crate::objective::{Metrics, medians, name_in};
use crate::race::Outcome;
use poolwright_plan::{MeasuredChange, MetricName};

/// One setting and its trials.
#[derive(Clone, Debug)]
pub(crate) struct Tried {
    /// Property → value in the engine's spelling.
    pub settings: Settings,
    /// The metrics of each trial.
    pub trials: Vec<Metrics>,
}

/// All trials of one race, including those of its confirmation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observations {
    /// Each setting once, today's first.
    pub tried: Vec<Tried>,
}

/// A difference of logarithms with its standard error and the degrees of freedom of the error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Difference {
    pub log: f64,
    pub error: f64,
    pub freedom: usize,
}

/// A smaller difference of logarithms is a rounding error.
const ROUNDING: f64 = 1e-9;

impl Difference {
    /// Returns the relative change with its 95 % interval by Student's t.
    pub fn effect(&self, metric: &MetricName) -> MeasuredChange {
        let half = t975(self.freedom as f64) * self.error;
        let change = |log: f64| log.exp() - 1.0;
        let ci95 = (change(self.log - half), change(self.log + half));
        let is_clear = (ci95.0 > 0.0 || ci95.1 < 0.0) && self.log.abs() > ROUNDING;
        let verdict = verdict(metric, self.log, is_clear);
        MeasuredChange { change: change(self.log), ci95, verdict }
    }
}

impl Observations {
    /// Collects the trials of a race. Trials of one setting in different spellings count as one setting.
    pub fn of(outcome: &Outcome) -> Observations {
        let mut all = Observations::default();
        let today = &outcome.today.settings;
        let best = outcome.best.map(|i| &outcome.others[i].settings);
        all.add(today, outcome.today.trials.clone());
        for runner in &outcome.others {
            all.add(&runner.settings, runner.trials.clone());
        }
        all.add(today, outcome.pairs.iter().map(|(a, _)| a.clone()).collect());
        if let Some(best) = best {
            all.add(best, outcome.pairs.iter().map(|(_, b)| b.clone()).collect());
        }
        all
    }

    fn add(&mut self, settings: &Settings, trials: Vec<Metrics>) {
        if trials.is_empty() {
            return;
        }
        let settings = spelled(settings);
        match self.tried.iter_mut().find(|t| t.settings == settings) {
            Some(known) => known.trials.extend(trials),
            None => self.tried.push(Tried { settings, trials }),
        }
    }

    /// The number of trials.
    pub fn trials(&self) -> usize {
        self.tried.iter().map(|t| t.trials.len()).sum()
    }

    /// Returns the trials of exactly these settings.
    pub fn find(&self, settings: &Settings) -> Option<&Tried> {
        let settings = spelled(settings);
        self.tried.iter().find(|t| t.settings == settings)
    }

    /// Returns the metric's name or that of its substitute, whichever the trials have.
    pub fn name<'a>(&'a self, metric: &'a MetricName) -> Option<&'a MetricName> {
        self.tried.first()?.trials.first().and_then(|t| name_in(metric, t))
    }

    /// Returns the standard deviation of a trial's logarithm, pooled over all settings with several trials, and
    /// its degrees of freedom, or `None` if no setting has two trials.
    pub fn deviation(&self, metric: &MetricName) -> Option<(f64, usize)> {
        let values = |tried: &Tried| tried.trials.iter().filter_map(|t| t.get(metric).copied()).collect();
        Deviation::within(self.tried.iter().map(values)).map(|d| (d.deviation, d.freedom))
    }

    /// Returns the difference between two settings, or `None` if one of them lacks the metric or the noise is
    /// unknown.
    pub fn difference(&self, metric: &MetricName, from: &Tried, to: &Tried) -> Option<Difference> {
        let (deviation, freedom) = self.deviation(metric)?;
        let (a, b) = (from.logs(metric), to.logs(metric));
        if a.is_empty() || b.is_empty() {
            return None;
        }
        let error = deviation * (1.0 / a.len() as f64 + 1.0 / b.len() as f64).sqrt();
        Some(Difference { log: mean(&b) - mean(&a), error, freedom })
    }
}

impl Tried {
    /// Returns the median of each metric over the trials.
    pub fn median(&self) -> Metrics {
        medians(&self.trials)
    }

    /// Returns the logarithms of a metric from the trials that have it.
    pub fn logs(&self, metric: &MetricName) -> Vec<f64> {
        self.trials.iter().filter_map(|t| t.get(metric)).filter(|v| **v > 0.0).map(|v| v.ln()).collect()
    }
}

/// Returns settings in the engine's spelling, so that equal settings compare equal.
pub(crate) fn spelled(settings: &Settings) -> Settings {
    settings.iter().map(|(k, v)| (k.clone(), canonical(k, v))).collect()
}

/// Invented trials for tests.
#[cfg(test)]
pub(crate) mod fixture {
    use super::*;
    use crate::race::Runner;

    /// Changes from today's 128K lz4 with `primarycache=all`, and (work rate, space, bytes written) of each
    /// trial.
    pub type Row<'a> = (&'a [(&'a str, &'a str)], &'a [(f64, f64, f64)]);

    pub fn today() -> Settings {
        [("recordsize", "128K"), ("compression", "lz4"), ("primarycache", "all")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into()
    }

    fn metrics(&(rate, space, written): &(f64, f64, f64)) -> Metrics {
        Metrics::from([
            (MetricName::WorkRate, rate),
            (MetricName::AllocatedBytes, space),
            (MetricName::VdevWriteBytes, written),
        ])
    }

    /// An outcome whose first row has today's settings.
    pub fn outcome(rows: &[Row<'_>]) -> Outcome {
        let runner = |(changes, trials): &Row<'_>| {
            let mut settings = today();
            settings.extend(changes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
            Runner { trials: trials.iter().map(metrics).collect(), ..Runner::new(settings) }
        };
        let mut outcome = Outcome::new(runner(&rows[0]));
        outcome.others = rows[1..].iter().map(runner).collect();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::outcome;
    use super::*;
    use poolwright_plan::GainVerdict;

    #[test]
    fn spellings_and_confirmation_count_together() {
        let mut o = outcome(&[
            (&[], &[(1.0, 100.0, 50.0)]),
            (&[("compression", "on")], &[(1.1, 100.0, 50.0)]),
            (&[("recordsize", "16384")], &[(2.0, 50.0, 20.0)]),
        ]);
        o.best = Some(1);
        o.pairs = vec![(o.today.trials[0].clone(), o.others[1].trials[0].clone())];
        let all = Observations::of(&o);
        let counts: Vec<usize> = all.tried.iter().map(|t| t.trials.len()).collect();
        assert_eq!((counts, all.trials()), (vec![3, 2], 5));
        let wanted = crate::candidates::with(
            &fixture::today(),
            &Settings::from([("recordsize".into(), "16K".into())]),
        );
        assert_eq!(all.find(&wanted).unwrap().trials.len(), 2);
        let (deviation, freedom) = all.deviation(&MetricName::WorkRate).unwrap();
        assert!(freedom == 3 && deviation > 0.0);
        assert_eq!(all.deviation(&MetricName::AllocatedBytes), Some((0.0, 3)));
    }

    #[test]
    fn an_effect_has_the_interval_of_the_pooled_noise() {
        let o = outcome(&[
            (&[], &[(1.0, 100.0, 50.0), (1.02, 100.0, 50.0), (0.98, 100.0, 50.0)]),
            (&[("recordsize", "16K")], &[(2.0, 50.0, 20.0)]),
        ]);
        let all = Observations::of(&o);
        let difference = all.difference(&MetricName::WorkRate, &all.tried[0], &all.tried[1]).unwrap();
        let effect = difference.effect(&MetricName::WorkRate);
        assert!((effect.change - 1.0).abs() < 0.01 && effect.verdict == GainVerdict::Better, "{effect:?}");
        // 2 degrees of freedom, 3 trials against 1: 4.303 × 0.02 × √(1/3 + 1).
        let half = (1.0 + effect.ci95.1).ln() - (1.0 + effect.change).ln();
        assert!((half - 4.303 * 0.02 * (4.0f64 / 3.0).sqrt()).abs() < 1e-3, "{half}");
        let space = all.difference(&MetricName::AllocatedBytes, &all.tried[0], &all.tried[1]).unwrap();
        let (low, high) = space.effect(&MetricName::AllocatedBytes).ci95;
        assert!(low == high && (low + 0.5).abs() < 1e-9, "{low} {high}");
        let same = Difference { log: 1e-16, error: 0.0, freedom: 3 };
        assert_eq!(same.effect(&MetricName::AllocatedBytes).verdict, GainVerdict::Noise);
    }
}
