//! The effect of a factor's levels relative to its first level, with all other factors equal.

use poolwright_base::stats::Direction;
use poolwright_report::Better;
use schemars::JsonSchema;
use serde::Serialize;

use super::{format, measures};
use crate::campaign::Study;
use crate::statistics;
use crate::store::Trial;

/// The effect of one level relative to the first.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Effect {
    /// The measure.
    pub measure: String,
    /// Unit of the medians.
    pub unit: String,
    /// Name of the factor.
    pub factor: String,
    /// First level of the factor.
    pub from: String,
    /// The compared level.
    pub to: String,
    /// Medians of the first and of the second trials of the pairs.
    pub medians: (f64, f64),
    /// Median of the pairs' ratios.
    pub ratio: f64,
    /// 95 % interval of the ratio; `null` if there are too few pairs.
    pub ci95: Option<(f64, f64)>,
    /// Number of pairs of trials.
    pub pairs: usize,
    /// Whether the interval excludes 1.
    pub beyond_noise: bool,
    /// Whether this level is better than the first one; `null` within noise and for measures without a
    /// direction.
    pub better: Option<bool>,
}

/// Returns the effects of all levels of all factors on all columns of the table.
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
