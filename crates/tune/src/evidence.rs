//! The plan's evidence: trials and estimates.

use std::collections::BTreeMap;

use poolwright_base::stats::{PairedRatio, median};
use poolwright_openzfs::property::Settings;
use poolwright_report::Better;

use crate::candidates::{same, with};
use crate::objective::{Goal, Metrics};
use crate::race::{self, Runner};
use crate::scatter::Scatter;
use crate::space::EstimatedSpace;
use poolwright_plan::{
    Evidence, EvidenceKind, Gain, GainVerdict, Gains, Measured, MeasuredChange, MetricName, Outcome, Spread,
};

/// Returns the median, smallest and largest value of every metric over the trials.
pub fn measured(trials: &[Metrics]) -> BTreeMap<MetricName, Measured> {
    let mut values: BTreeMap<MetricName, Vec<f64>> = BTreeMap::new();
    for (name, value) in trials.iter().flatten() {
        values.entry(name.clone()).or_default().push(*value);
    }
    let of = |v: Vec<f64>| Measured {
        median: median(&v),
        low: v.iter().copied().fold(f64::INFINITY, f64::min),
        high: v.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    values.into_iter().map(|(name, v)| (name, of(v))).collect()
}

/// Returns the evidence of a raced setting.
pub(crate) fn of_runner(
    runner: &Runner,
    goal: Goal,
    today: &Metrics,
    ashift: u32,
    outcome: Outcome,
) -> Evidence {
    let failed = runner.trials.is_empty();
    Evidence {
        kind: EvidenceKind::Trial,
        settings: runner.settings.clone(),
        ashift: Some(ashift as u8),
        others: BTreeMap::new(),
        repeats: runner.trials.len() as u32,
        spread: Spread::MinMax,
        metrics: measured(&runner.trials),
        objective: (!failed).then(|| goal.objective(&runner.median(), today)),
        outcome: if failed { Outcome::Failed } else { outcome },
        why: runner.failures.last().cloned(),
    }
}

/// Returns the evidence of a combination from the space estimate.
pub(crate) fn of_estimate(s: &EstimatedSpace, ashift: u32, raced: bool) -> Evidence {
    let [low, high] = s.ci95;
    let space = Measured { median: s.ratio, low, high };
    let finite = [space.median, space.low, space.high].iter().all(|v| v.is_finite());
    Evidence {
        kind: EvidenceKind::Estimate,
        settings: s.settings.clone(),
        ashift: Some(ashift as u8),
        others: BTreeMap::new(),
        repeats: 1,
        spread: Spread::Ci95,
        metrics: if finite { BTreeMap::from([(MetricName::SpaceRatio, space)]) } else { BTreeMap::new() },
        objective: None,
        outcome: if raced { Outcome::Raced } else { Outcome::ScreenedOut },
        why: None,
    }
}

/// Returns the verdict on a change of a metric: `change` gives its direction, `is_clear` whether it is beyond the
/// noise.
pub(crate) fn verdict(metric: &MetricName, change: f64, is_clear: bool) -> GainVerdict {
    let better = (change < 0.0) == (metric.better() == Better::Lower);
    match (is_clear, better) {
        (false, _) => GainVerdict::Noise,
        (true, true) => GainVerdict::Better,
        (true, false) => GainVerdict::Worse,
    }
}

/// Widens the interval of a change of space to that of an estimate whose error, as half of the interval of the logarithm, is `half`; changes
/// of other metrics stay as they are.
pub(crate) fn widen_space(metric: &MetricName, half: f64, found: &mut MeasuredChange) {
    if half == 0.0 || !matches!(metric, MetricName::AllocatedBytes | MetricName::SpaceRatio) {
        return;
    }
    let ratio = 1.0 + found.change;
    found.ci95 = (ratio * (-half).exp() - 1.0, ratio * half.exp() - 1.0);
    let is_clear = found.ci95.0 > 0.0 || found.ci95.1 < 0.0;
    found.verdict = verdict(metric, found.change, is_clear);
}

/// Returns the change of every metric that was measured on both sides of the pairs; `scatter` is that of all
/// trials, including these.
pub fn gains(pairs: &[(Metrics, Metrics)], scatter: &Scatter) -> Gains {
    let names: std::collections::BTreeSet<&MetricName> =
        pairs.iter().flat_map(|(a, b)| a.keys().chain(b.keys())).collect();
    let mut gains = Gains::new();
    for name in names {
        let values: Vec<(f64, f64)> =
            pairs.iter().filter_map(|(a, b)| Some((*a.get(name)?, *b.get(name)?))).collect();
        let ratio = PairedRatio::of_means(&values, scatter.of_metric(name));
        let Some(change) = ratio.and_then(|ratio| ratio.change()) else { continue };
        let verdict = verdict(name, change.change, change.is_significant());
        let (from, to): (Vec<f64>, Vec<f64>) = values.iter().copied().unzip();
        gains.insert(
            name.clone(),
            Gain {
                from: median(&from),
                to: median(&to),
                change: change.change,
                ci95: change.ci95,
                pairs: values.len() as u32,
                verdict,
            },
        );
    }
    gains
}

/// Returns all evidence of a role: raced settings by objective, then estimates.
pub(crate) fn collect(
    outcome: Option<&race::Outcome>,
    recommended: bool,
    space: &[EstimatedSpace],
    today: &Settings,
    goal: Goal,
    ashift: u32,
) -> Vec<Evidence> {
    let mut list = Vec::new();
    if let Some(o) = outcome {
        let reference = o.today.median();
        list.push(of_runner(&o.today, goal, &reference, ashift, Outcome::Current));
        for (i, runner) in
            o.others.iter().enumerate().filter(|(_, r)| !r.trials.is_empty() || !r.failures.is_empty())
        {
            let chosen = recommended && o.best == Some(i);
            let outcome = if chosen { Outcome::Recommended } else { Outcome::Raced };
            list.push(of_runner(runner, goal, &reference, ashift, outcome));
        }
        list.sort_by(|a, b| a.objective.unwrap_or(f64::MAX).total_cmp(&b.objective.unwrap_or(f64::MAX)));
    }
    let raced = |s: &EstimatedSpace| {
        outcome.is_some_and(|o| {
            o.others.iter().any(|r| !r.trials.is_empty() && same(&r.settings, &with(today, &s.settings)))
        })
    };
    list.extend(space.iter().map(|s| of_estimate(s, ashift, raced(s))));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_of_space_has_the_error_of_the_estimate() {
        let change = MeasuredChange { change: -0.02, ci95: (-0.02, -0.02), verdict: GainVerdict::Better };
        let widened = |metric: MetricName, half: f64| {
            let mut found = change;
            widen_space(&metric, half, &mut found);
            found
        };
        assert_eq!(widened(MetricName::AllocatedBytes, 0.0), change);
        assert_eq!(widened(MetricName::WorkRate, 0.03), change);
        let found = widened(MetricName::AllocatedBytes, 0.03);
        assert!((found.ci95.0 + 0.049).abs() < 1e-3 && (found.ci95.1 - 0.0098).abs() < 1e-3, "{found:?}");
        assert_eq!(found.verdict, GainVerdict::Noise);
    }
}
