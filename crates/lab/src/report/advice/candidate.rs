//! The cases among which a question chooses, compared by a goal of the tuner.
//!
//! The objective of a case is the tuner's: the weighted geometric mean of the ratios of its metrics to those of a reference.
//! Two cases are compared block by block, like every other pair of cases of the lab, so that anything that slows down a whole block cancels
//! out.

use std::collections::BTreeMap;

use poolwright_base::stats::{Direction, PairedRatio};
use poolwright_plan::MetricName;
use poolwright_report::Better;
use poolwright_tune::Goal;
use poolwright_tune::objective::Metrics;

use super::super::cells;
use super::super::figure::Figure;
use crate::campaign::{Case, Recommend, Study};
use crate::order::{cases, matches};
use crate::statistics::{self, ComparableBlock};
use crate::store::Trial;

/// A smaller relative difference of a metric is none, whatever the noise, as for `tune`.
const SAME: f64 = 0.005;

/// A case, the values that it stands for, and its metrics.
pub(super) struct Candidate {
    pub case: Case,
    /// Property or factor → value.
    pub set: Vec<(String, String)>,
    /// A figure for each criterion; `None` if it was not measured.
    pub figures: Vec<Option<Figure>>,
    /// Block → metrics of the trial, in which a reciprocal replaces a measure of the opposite direction.
    metrics: BTreeMap<ComparableBlock, Metrics>,
}

/// A question with its goal.
pub(super) struct Contest<'a> {
    pub wanted: &'a Recommend,
    pub goal: Goal,
}

impl<'a> Contest<'a> {
    pub fn new(wanted: &'a Recommend) -> Contest<'a> {
        // The name was checked when the campaign was parsed.
        Contest { wanted, goal: Goal::parse(&wanted.goal).unwrap_or(Goal::Balanced) }
    }

    /// Returns the weight of each criterion, scaled so that those in use add up to 1.
    pub fn weights(&self) -> Vec<f64> {
        let weight = |name: &MetricName| {
            self.goal.weights().iter().find(|(metric, _)| metric == name).map_or(0.0, |(_, weight)| *weight)
        };
        let all: Vec<f64> = self.wanted.criteria.iter().map(|c| weight(&c.metric)).collect();
        let sum: f64 = all.iter().sum();
        all.into_iter().map(|weight| weight / sum).collect()
    }

    /// Returns the cases to choose from for which something was measured, in the campaign's order.
    pub fn candidates(&self, study: &Study, trials: &[Trial]) -> Vec<Candidate> {
        let criteria = &self.wanted.criteria;
        let values: Vec<_> =
            criteria.iter().map(|c| statistics::by_block(study, trials, &c.measure)).collect();
        let figures: Vec<_> = criteria.iter().map(|c| cells::figures(study, trials, &c.measure)).collect();
        let candidate = |case: Case| {
            let mut metrics: BTreeMap<ComparableBlock, Metrics> = BTreeMap::new();
            for (criterion, values) in criteria.iter().zip(&values) {
                for ((_, block), value) in values.iter().filter(|((of, _), _)| *of == case) {
                    let value = if criterion.inverse { 1.0 / value } else { *value };
                    metrics.entry(block.clone()).or_default().insert(criterion.metric.clone(), value);
                }
            }
            let figure =
                |of: &Vec<(Case, Figure)>| of.iter().find(|(c, _)| *c == case).map(|(_, f)| f.clone());
            let figures = figures.iter().map(figure).collect();
            Candidate { set: self.wanted.values(study, &case), figures, metrics, case }
        };
        let considered = cases(study).into_iter().filter(|case| self.wanted.considers(case));
        considered.map(candidate).filter(|c| !c.metrics.is_empty()).collect()
    }

    /// Returns the original's choice among the candidates.
    pub fn original<'c>(&self, all: &'c [Candidate]) -> Option<&'c Candidate> {
        let original = &self.wanted.original;
        all.iter().find(|c| !original.is_empty() && matches(&c.case, original))
    }

    /// Returns the objective of `second` relative to `first`, block by block. Below 1, `second` is better.
    pub fn objective(&self, first: &Candidate, second: &Candidate) -> Option<PairedRatio> {
        let pairs = pairs(first, second).map(|(a, b)| (1.0, self.goal.objective(b, a)));
        PairedRatio::of_medians(&pairs.collect::<Vec<_>>())
    }

    /// Returns the candidates that no other one beats, the best objective first: from the best on, each joins unless a
    /// member beats it. The tuner selects its Pareto set in the same way.
    pub fn front(&self, ordered: &[Candidate]) -> Vec<bool> {
        let mut front: Vec<bool> = Vec::new();
        for candidate in ordered {
            let members = ordered.iter().zip(&front).filter(|(_, member)| **member);
            let beaten = members.map(|(member, _)| member).any(|member| self.beats(member, candidate));
            front.push(!beaten);
        }
        front
    }

    /// Whether `a` is better than `b` beyond noise in one metric, and worse beyond noise in none.
    fn beats(&self, a: &Candidate, b: &Candidate) -> bool {
        let mut better = false;
        for criterion in &self.wanted.criteria {
            let of = |metrics: &Metrics| metrics.get(&criterion.metric).copied();
            let pairs: Vec<(f64, f64)> = pairs(b, a).filter_map(|(b, a)| Some((of(b)?, of(a)?))).collect();
            let Some(ratio) = PairedRatio::of_medians(&pairs) else { return false };
            let up = match ratio.direction() {
                _ if (ratio.ratio - 1.0).abs() < SAME => continue,
                Direction::NoDifference | Direction::TooFew => continue,
                Direction::Higher => true,
                Direction::Lower => false,
            };
            if up != (criterion.metric.better() == Better::Higher) {
                return false;
            }
            better = true;
        }
        better
    }
}

/// Returns the metrics of both candidates in the blocks that both have.
fn pairs<'c>(
    first: &'c Candidate,
    second: &'c Candidate,
) -> impl Iterator<Item = (&'c Metrics, &'c Metrics)> {
    first.metrics.iter().filter_map(|(block, metrics)| Some((metrics, second.metrics.get(block)?)))
}
