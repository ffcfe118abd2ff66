//! Evaluates conditions on readings, with the semantics of PromQL.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Readings, Resource};

use crate::alert::condition::{AlertCondition, Comparison, Expression, Limit, RuleGuard, Selector};
use crate::alert::history::History;
use crate::alert::threshold::Thresholds;

/// The shortest time from which a rate is computed, in seconds.
const RATE_MIN: f64 = 5.0;

/// The labels of a value, by name, without empty ones.
pub type Labels<'a> = Vec<(&'static str, &'a str)>;

/// A number with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelledValue<'a> {
    /// The labels.
    pub labels: Labels<'a>,
    /// The number.
    pub value: f64,
}

/// The data on which conditions are evaluated.
#[derive(Debug)]
pub struct Inputs<'a> {
    now: f64,
    /// The same in the time of the history.
    observed: f64,
    by_type: BTreeMap<&'static str, Vec<&'a Resource>>,
    history: &'a History,
    thresholds: &'a Thresholds,
}

impl<'a> Inputs<'a> {
    /// The readings at a time in seconds since 1970. `history` has observed them at `observed`, by a separate clock.
    pub fn new(
        now: f64,
        observed: f64,
        all: &[&'a Readings],
        history: &'a History,
        thresholds: &'a Thresholds,
    ) -> Inputs<'a> {
        let mut by_type: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for resource in all.iter().flat_map(|readings| &readings.resources) {
            by_type.entry(resource.of.name).or_default().push(resource);
        }
        Inputs { now, observed, by_type, history, thresholds }
    }

    /// The values for which the condition holds.
    pub fn firing(&self, condition: &AlertCondition) -> Vec<LabelledValue<'a>> {
        let (first, guards) = match condition {
            AlertCondition::When(first, guards) => (first, guards),
            AlertCondition::Absent(selector) => return self.absent(selector),
        };
        let mut left = self.holding(first);
        for guard in *guards {
            if left.is_empty() {
                break;
            }
            let (comparison, wanted) = match guard {
                RuleGuard::And(comparison) => (comparison, true),
                RuleGuard::Unless(comparison) => (comparison, false),
            };
            let others = self.holding(comparison);
            keep(&mut left, &others, [&first.value, &comparison.value], wanted);
        }
        left
    }

    /// The values that are compared first, whether the condition holds or not.
    pub fn compared(&self, condition: &AlertCondition) -> Vec<LabelledValue<'a>> {
        match condition {
            AlertCondition::When(first, _) => self.values(&first.value),
            AlertCondition::Absent(_) => Vec::new(),
        }
    }

    fn absent(&self, selector: &Selector) -> Vec<LabelledValue<'a>> {
        match self.values(&Expression::Now(*selector)).is_empty() {
            true => vec![LabelledValue { labels: Vec::new(), value: 1.0 }],
            false => Vec::new(),
        }
    }

    fn holding(&self, comparison: &Comparison) -> Vec<LabelledValue<'a>> {
        let relation = comparison.relation;
        let limit = match comparison.limit {
            Limit::Number(limit) => limit,
            Limit::Threshold(threshold) => self.thresholds.value(threshold),
            Limit::Expression(right) => {
                let limits = self.matched(&comparison.value, right);
                let mut left = self.values(&comparison.value);
                left.retain(|sample| limits(sample).is_some_and(|limit| relation.holds(sample.value, limit)));
                return left;
            }
        };
        self.values_where(&comparison.value, &|value| relation.holds(value, limit))
    }

    /// A function that finds the value of `right` for a sample of `left`.
    fn matched(
        &self,
        left: &Expression,
        right: &Expression,
    ) -> impl Fn(&LabelledValue<'a>) -> Option<f64> + use<'a> {
        let names = right.labels();
        let own = left.labels();
        let shared =
            move |labels: &Labels<'a>| kept(labels, |name| own.contains(&name) && names.contains(&name));
        let found: HashMap<Labels<'a>, f64> =
            self.values(right).into_iter().map(|sample| (shared(&sample.labels), sample.value)).collect();
        move |sample| found.get(&shared(&sample.labels)).copied()
    }

    /// The numbers.
    pub fn values(&self, value: &Expression) -> Vec<LabelledValue<'a>> {
        self.values_where(value, &|_| true)
    }

    /// The numbers that `is_wanted`. Labels are made only for these, because a host can have very many resources.
    fn values_where(&self, value: &Expression, is_wanted: &dyn Fn(f64) -> bool) -> Vec<LabelledValue<'a>> {
        let each = |selector: &Selector, number: &dyn Fn(&Resource) -> Option<f64>| {
            self.each(selector, |resource| number(resource).filter(|number| is_wanted(*number)))
        };
        let now = |selector: &Selector, resource: &Resource| resource.value(selector.family);
        let change = |selector: &Selector, resource: &Resource, window, is_steady| {
            self.history.change(selector.family, &resource.labels, window, self.observed, is_steady)
        };
        let mut values = match value {
            Expression::Now(selector) => each(selector, &|resource| now(selector, resource)),
            Expression::Age(selector) => {
                each(selector, &|resource| Some(self.now - now(selector, resource)?))
            }
            Expression::Increase(selector, window) | Expression::Change(selector, window) => {
                each(selector, &|resource| {
                    now(selector, resource)?;
                    Some(change(selector, resource, *window, false)?.by[0])
                })
            }
            Expression::Rate(selector, window) => each(selector, &|resource| {
                now(selector, resource)?;
                let change = change(selector, resource, *window, true)?;
                (change.covered >= RATE_MIN).then(|| change.by[0] / change.covered)
            }),
            Expression::Predicted(selector, window, ahead) => each(selector, &|resource| {
                now(selector, resource)?;
                let points = self.history.line(selector.family, &resource.labels, *window, self.observed);
                predicted(&points, self.observed, f64::from(*ahead))
            }),
            Expression::Earlier(selector, ago) => each(selector, &|resource| {
                let now = now(selector, resource)?;
                let change = change(selector, resource, *ago, false)?;
                (change.covered >= f64::from(*ago)).then(|| now - change.by[0])
            }),
            Expression::Quantile(part, selector, window) => each(selector, &|resource| {
                let mut histograms = resource.histograms.iter();
                let histogram = histograms.find(|has| std::ptr::eq(has.family, selector.family))?;
                quantile(*part, histogram.bounds, &change(selector, resource, *window, true)?.by)
            }),
            Expression::Sum(value, without) => sums(self.values(value), without),
            Expression::Unless(left, right) => {
                let mut samples = self.values(left);
                keep(&mut samples, &self.values(right), [*left, *right], false);
                samples
            }
            Expression::Plus(left, right) => self.binary(left, right, |left, right| left + right),
            Expression::Quotient(left, right) => self.binary(left, right, |left, right| left / right),
            Expression::PeerRatio(value, label) => peer_ratios(self.values(value), label),
            Expression::Recorded(recording) => return self.values_where(&recording.value, is_wanted),
        };
        values.retain(|sample| is_wanted(sample.value));
        values
    }

    /// The resources that a selector selects, with a number for each.
    fn each(&self, selector: &Selector, number: impl Fn(&Resource) -> Option<f64>) -> Vec<LabelledValue<'a>> {
        let resources = self.by_type.get(selector.family.resource.name).into_iter().flatten();
        let selected = resources.filter(|resource| is_selected(resource, selector));
        selected
            .filter_map(|resource| Some(LabelledValue { value: number(resource)?, labels: labels(resource) }))
            .collect()
    }

    fn binary(
        &self,
        left: &Expression,
        right: &Expression,
        of: impl Fn(f64, f64) -> f64,
    ) -> Vec<LabelledValue<'a>> {
        let found = self.matched(left, right);
        let numbers = self.values(left).into_iter().filter_map(|mut sample| {
            sample.value = of(sample.value, found(&sample)?);
            Some(sample)
        });
        numbers.collect()
    }
}

fn is_selected(resource: &Resource, selector: &Selector) -> bool {
    selector.labels.iter().all(|wanted| {
        let at = resource.of.labels.iter().position(|label| *label == wanted.label);
        let value = at.map_or("", |at| &*resource.labels[at]);
        wanted.values.contains(&value) == wanted.is_one_of
    })
}

fn labels(resource: &Resource) -> Labels<'_> {
    let all = resource.of.labels.iter().copied().zip(resource.labels.iter().map(|value| &**value));
    let mut labels: Labels<'_> = all.filter(|(_, value)| !value.is_empty()).collect();
    labels.sort_unstable();
    labels
}

fn kept<'a>(labels: &Labels<'a>, is_kept: impl Fn(&'static str) -> bool) -> Labels<'a> {
    labels.iter().copied().filter(|(name, _)| is_kept(name)).collect()
}

/// Keeps the samples that have a counterpart in `others` with the same values of the labels that both values have, or those that have
/// none.
fn keep<'a>(
    samples: &mut Vec<LabelledValue<'a>>,
    others: &[LabelledValue<'a>],
    values: [&Expression; 2],
    wanted: bool,
) {
    let [own, other] = values.map(Expression::labels);
    let shared = |labels: &Labels<'a>| kept(labels, |name| own.contains(&name) && other.contains(&name));
    let known: HashSet<Labels<'a>> = others.iter().map(|sample| shared(&sample.labels)).collect();
    samples.retain(|sample| known.contains(&shared(&sample.labels)) == wanted);
}

fn sums<'a>(samples: Vec<LabelledValue<'a>>, without: &[&str]) -> Vec<LabelledValue<'a>> {
    let mut sums: BTreeMap<Labels<'a>, f64> = BTreeMap::new();
    for sample in samples {
        *sums.entry(kept(&sample.labels, |name| !without.contains(&name))).or_default() += sample.value;
    }
    sums.into_iter().map(|(labels, value)| LabelledValue { labels, value }).collect()
}

fn peer_ratios<'a>(samples: Vec<LabelledValue<'a>>, label: &str) -> Vec<LabelledValue<'a>> {
    let mut groups: BTreeMap<Labels<'a>, (f64, f64)> = BTreeMap::new();
    let group = |sample: &LabelledValue<'a>| kept(&sample.labels, |name| name != label);
    let samples: Vec<LabelledValue<'a>> = samples.into_iter().filter(|sample| sample.value > 0.0).collect();
    for sample in &samples {
        let (sum, count) = groups.entry(group(sample)).or_default();
        (*sum, *count) = (*sum + sample.value, *count + 1.0);
    }
    let ratios = samples.into_iter().filter_map(|mut sample| {
        let (sum, count) = groups[&group(&sample)];
        let others = (sum - sample.value) / (count - 1.0);
        sample.value /= others;
        (count > 1.0).then_some(sample)
    });
    ratios.collect()
}

/// The value of a line fitted to the points, `ahead` seconds after `now`.
fn predicted(points: &[(f64, f64)], now: f64, ahead: f64) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x - now).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let covariance: f64 = points.iter().map(|(x, y)| (x - now - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - now - mean_x).powi(2)).sum();
    (points.len() > 1).then(|| mean_y + covariance / variance * (ahead - mean_x))
}

/// The quantile of observations in buckets, as Prometheus's `histogram_quantile` estimates it: observations are spread evenly in
/// a bucket, and the last bucket counts as its lower bound.
fn quantile(part: f64, bounds: &[f64], counts: &[f64]) -> Option<f64> {
    let total: f64 = counts.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let rank = part * total;
    let mut below = 0.0;
    for (at, count) in counts.iter().enumerate() {
        if below + count >= rank && *count > 0.0 {
            let lower = at.checked_sub(1).map_or(0.0, |before| bounds[before]);
            let Some(upper) = bounds.get(at) else { return bounds.last().copied() };
            return Some(lower + (upper - lower) * (rank - below) / count);
        }
        below += count;
    }
    bounds.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_interpolated() {
        let bounds = [1.0, 2.0, 4.0];
        assert_eq!(quantile(0.5, &bounds, &[0.0, 10.0, 0.0, 0.0]), Some(1.5));
        assert_eq!(quantile(0.5, &bounds, &[10.0, 0.0, 10.0, 0.0]), Some(1.0));
        assert_eq!(quantile(0.99, &bounds, &[1.0, 0.0, 0.0, 9.0]), Some(4.0));
        assert_eq!(quantile(0.5, &bounds, &[0.0; 4]), None);
    }

    #[test]
    fn one_of_two_peers_can_exceed_any_factor() {
        let sample = |vdev, value| LabelledValue { labels: vec![("pool", "tank"), ("vdev", vdev)], value };
        let ratios = peer_ratios(vec![sample("a", 1.0), sample("b", 8.0), sample("idle", 0.0)], "vdev");
        assert_eq!(ratios, [sample("a", 0.125), sample("b", 8.0)]);
        assert!(peer_ratios(vec![sample("a", 1.0)], "vdev").is_empty());
    }

    #[test]
    fn lines_are_continued() {
        let line = predicted(&[(0.0, 1.0), (10.0, 2.0), (20.0, 3.0)], 20.0, 100.0).unwrap();
        assert!((line - 13.0).abs() < 1e-9, "{line}");
        assert_eq!(predicted(&[(0.0, 1.0)], 0.0, 1.0), None);
    }
}
