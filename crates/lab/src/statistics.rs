//! The figures of a campaign: cells, effects and claims. `docs/derivations.md` describes how each is obtained.

use std::collections::BTreeMap;

use poolwright_base::stats::{PairedRatio, coefficient_of_variation, median, median_interval};

use crate::Trial;
use crate::campaign::{Case, Claim, Study};
use crate::order::{cases, matches};

/// A cell whose values vary by more is flagged.
pub const NOISY: f64 = 0.1;

/// A case of a study by one measure.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The case.
    pub case: Case,
    /// By block.
    pub values: Vec<f64>,
    /// Of the values.
    pub unit: String,
    /// NaN without values.
    pub median: f64,
    /// 95 %, from three values on.
    pub interval: Option<(f64, f64)>,
    /// Coefficient of variation.
    pub variation: Option<f64>,
    /// It varies by more than [`NOISY`].
    pub noisy: bool,
}

/// Every case's values of a measure.
pub fn cells(study: &Study, trials: &[Trial], measure: &str) -> Vec<Cell> {
    let all = Values::of(study, trials, measure);
    let cell = |case: Case| {
        let values: Vec<f64> = all.values.iter().filter(|((c, _), _)| **c == case).map(|(_, v)| *v).collect();
        let variation = coefficient_of_variation(&values);
        Cell {
            unit: all.unit.to_owned(),
            median: median(&values),
            interval: median_interval(&values, values.len() as u64),
            noisy: variation.is_some_and(|v| v > NOISY),
            variation,
            values,
            case,
        }
    };
    cases(study).into_iter().map(cell).collect()
}

/// The effect of a level relative to its factor's first one, over all levels of the other factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Factor.
    pub factor: String,
    /// Its first level.
    pub from: String,
    /// The other one.
    pub to: String,
    /// `to` over `from`; `None` where nothing can be paired.
    pub ratio: Option<PairedRatio>,
}

/// The main effects of every factor on a measure.
pub fn effects(study: &Study, trials: &[Trial], measure: &str) -> Vec<Effect> {
    let values = Values::of(study, trials, measure);
    let mut effects = Vec::new();
    for factor in &study.factors {
        let level = |name: &str| Case::from([(factor.name.clone(), name.to_owned())]);
        let Some((first, others)) = factor.levels.split_first() else { continue };
        for other in others {
            effects.push(Effect {
                factor: factor.name.clone(),
                from: first.name.clone(),
                to: other.name.clone(),
                ratio: PairedRatio::of_medians(&values.pairs(&level(&first.name), &level(&other.name))),
            });
        }
    }
    effects
}

/// (first, second) of each block, of cases that differ only in what `first` and `second` name: what is behind an effect.
pub fn pairs(study: &Study, trials: &[Trial], measure: &str, first: &Case, second: &Case) -> Vec<(f64, f64)> {
    Values::of(study, trials, measure).pairs(first, second)
}

/// The pairs (`than` or `least`, `better`) of a claim, with the number of their block.
pub fn claim_pairs(study: &Study, trials: &[Trial], claim: &Claim) -> Vec<(u32, (f64, f64))> {
    let values = Values::of(study, trials, &claim.measure);
    match claim.least {
        None => values.block_pairs(&claim.than, &claim.better).collect(),
        Some(least) => {
            let matching = values.values.iter().filter(|((case, _), _)| matches(case, &claim.better));
            matching.map(|((_, (block, _)), value)| (*block, (least, *value))).collect()
        }
    }
}

/// Trials that can be compared: those of one block on one machine. A block on a cluster is split between machines if one of them is lost.
pub type ComparableBlock = (u32, String);

/// A measure of a study's trials, by case and block.
pub fn by_block(study: &Study, trials: &[Trial], measure: &str) -> BTreeMap<(Case, ComparableBlock), f64> {
    let values = Values::of(study, trials, measure).values.into_iter();
    values.map(|((case, (block, node)), value)| ((case.clone(), (block, node.to_owned())), value)).collect()
}

/// A measure of a study's trials.
struct Values<'a> {
    /// By case, and by block and machine.
    values: BTreeMap<(&'a Case, (u32, &'a str)), f64>,
    unit: &'a str,
}

impl<'a> Values<'a> {
    fn of(study: &Study, trials: &'a [Trial], measure: &str) -> Values<'a> {
        let mut found = Values { values: BTreeMap::new(), unit: "" };
        for trial in trials.iter().filter(|t| t.key.study == study.name) {
            let Some(figure) = trial.outcome.as_ref().ok().and_then(|o| o.measure(measure)) else { continue };
            found.values.insert((&trial.key.case, (trial.key.block, &trial.node)), figure.value);
            found.unit = &figure.unit;
        }
        found
    }

    /// (first, second) of each block on each machine, of cases that differ only in what `first` and `second` name.
    fn pairs(&self, first: &Case, second: &Case) -> Vec<(f64, f64)> {
        self.block_pairs(first, second).map(|(_, pair)| pair).collect()
    }

    /// As [`Values::pairs`], with the number of the block.
    fn block_pairs(&self, first: &Case, second: &Case) -> impl Iterator<Item = (u32, (f64, f64))> {
        let matching = self.values.iter().filter(|((case, _), _)| matches(case, first));
        matching.filter_map(|((case, at), value)| {
            let mut other = (*case).clone();
            other.extend(second.clone());
            Some((at.0, (*value, *self.values.get(&(&other, *at))?)))
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
