//! What a level of a factor does against the factor's first level, everything else being equal.

use poolwright_report::Better;
use poolwright_stats::Direction;
use serde::Serialize;

use super::{format, measures};
use crate::campaign::Study;
use crate::statistics;
use crate::store::Trial;

/// One level against the first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Effect {
    /// What it is an effect on.
    pub measure: String,
    /// Of the medians.
    pub unit: String,
    /// Factor.
    pub factor: String,
    /// Its first level.
    pub from: String,
    /// This one.
    pub to: String,
    /// Medians over the pairs' first and second trials.
    pub medians: (f64, f64),
    /// Median of the ratios, pair by pair.
    pub ratio: f64,
    /// Of the ratio; `null` where there are too few pairs.
    pub ci95: Option<(f64, f64)>,
    /// Pairs of trials.
    pub pairs: usize,
    /// Whether the interval leaves out 1.
    pub beyond_noise: bool,
    /// Whether this level is better than the first one; `null` inside the noise, or where better means nothing.
    pub better: Option<bool>,
}

/// Every level of every factor, for every column of the table.
pub fn effects(study: &Study, trials: &[Trial]) -> Vec<Effect> {
    study.measures.iter().flat_map(|m| of_measure(study, trials, m)).collect()
}

fn of_measure(study: &Study, trials: &[Trial], measure: &str) -> Vec<Effect> {
    let unit = format::unit(study, trials, measure);
    let all = statistics::effects(study, trials, measure).into_iter();
    all.filter_map(|e| {
        let level = |name: &str| [(e.factor.clone(), name.to_owned())].into();
        let medians =
            format::medians(&statistics::pairs(study, trials, measure, &level(&e.from), &level(&e.to)))?;
        let ratio = e.ratio?;
        let direction = match ratio.direction() {
            Direction::Higher => Some(Better::Higher),
            Direction::Lower => Some(Better::Lower),
            Direction::NoDifference | Direction::TooFew => None,
        };
        let good = measures::better(study, measure, &unit);
        Some(Effect {
            measure: measure.to_owned(),
            unit: unit.clone(),
            factor: e.factor,
            from: e.from,
            to: e.to,
            medians,
            ratio: ratio.ratio,
            ci95: ratio.interval,
            pairs: ratio.pairs,
            beyond_noise: direction.is_some(),
            better: direction.zip(good).map(|(d, g)| d == g),
        })
    })
    .collect()
}
