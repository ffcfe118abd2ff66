//! Medians, intervals, effects. How each is obtained is in `docs/method.md`.
//!
//! Cells have few values, often three. A bootstrap of three values cannot leave their range, which holds the truth in
//! three cases of four only. So below [`BOOTSTRAP`] values an interval comes from Student's t around the median, widened
//! by what a median is less certain than a mean; from there on it is the bootstrap's.

use std::collections::BTreeMap;

pub use poolwright_tune::statistics::median;
use poolwright_tune::statistics::{Z975, t975};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::Trial;
use crate::campaign::{Case, Claim, Study};
use crate::order::{cases, matches};

/// Values from which on the bootstrap is trusted.
const BOOTSTRAP: usize = 20;

/// Resamples.
const RESAMPLES: usize = 2000;

/// A cell whose values vary by more is flagged.
pub const NOISY: f64 = 0.1;

/// The standard error of a median over that of a mean, of many normal values: √(π/2).
const MEDIAN_OVER_MEAN: f64 = 1.2533;

/// A 95 % interval of the median; `None` for fewer than three values.
pub fn interval(values: &[f64], seed: u64) -> Option<(f64, f64)> {
    if values.len() < 3 || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    if values.len() >= BOOTSTRAP {
        return Some(bootstrap(values, seed));
    }
    // In logarithms, where times, rates and sizes are symmetric and no end falls below zero.
    if values.iter().all(|v| *v > 0.0) {
        let logs: Vec<f64> = values.iter().map(|v| v.ln()).collect();
        let (low, high) = around_median(&logs);
        return Some((low.exp(), high.exp()));
    }
    Some(around_median(values))
}

fn around_median(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let half = t975(values.len() - 1) * deviation(values) / n.sqrt() * MEDIAN_OVER_MEAN;
    let middle = median(values);
    (middle - half, middle + half)
}

/// Percentiles of the medians of resamples, widened as T. Hesterberg, "What Teachers Should Know About the Bootstrap"
/// (2015) advises: resamples vary less than samples do, by what the degrees of freedom tell.
fn bootstrap(values: &[f64], seed: u64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut resample = || {
        let drawn: Vec<f64> = values.iter().map(|_| values[rng.random_range(0..values.len())]).collect();
        median(&drawn)
    };
    let mut medians: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    medians.sort_by(f64::total_cmp);
    let (low, high) = (medians[RESAMPLES / 40 - 1], medians[RESAMPLES - RESAMPLES / 40]);
    let n = values.len() as f64;
    let (middle, wider) = (median(values), t975(values.len() - 1) / Z975 * (n / (n - 1.0)).sqrt());
    (middle - (middle - low) * wider, middle + (high - middle) * wider)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The sample's standard deviation.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (squares / (values.len() - 1) as f64).sqrt()
}

/// Coefficient of variation; `None` for fewer than two values or a mean of zero.
pub fn variation(values: &[f64]) -> Option<f64> {
    let known = values.len() >= 2 && mean(values) != 0.0;
    known.then(|| deviation(values) / mean(values).abs())
}

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
        let variation = variation(&values);
        Cell {
            unit: all.unit.to_owned(),
            median: median(&values),
            interval: interval(&values, values.len() as u64),
            noisy: variation.is_some_and(|v| v > NOISY),
            variation,
            values,
            case,
        }
    };
    cases(study).into_iter().map(cell).collect()
}

/// How two things differ, from pairs that were run in one block and are alike in all else.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the pairs' ratios, second over first.
    pub ratio: f64,
    /// 95 %, from three pairs on.
    pub interval: Option<(f64, f64)>,
    /// How many.
    pub pairs: usize,
}

/// What a ratio says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The second is higher, beyond noise.
    Higher,
    /// The second is lower, beyond noise.
    Lower,
    /// The interval holds 1.
    NoDifference,
    /// Fewer than three pairs.
    TooFew,
}

impl Ratio {
    /// From (first, second); `None` without a usable pair.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Ratio> {
        let log = |(first, second): &(f64, f64)| {
            if first == second {
                return Some(0.0); // zero of both as well
            }
            let log = (second / first).ln();
            (*first > 0.0 && *second > 0.0 && log.is_finite()).then_some(log)
        };
        let logs: Vec<f64> = pairs.iter().filter_map(log).collect();
        if logs.is_empty() {
            return None;
        }
        let interval = match logs.len() {
            0..3 => None,
            n if n < BOOTSTRAP => Some(around_median(&logs)),
            n => Some(bootstrap(&logs, n as u64)),
        };
        Some(Ratio {
            ratio: median(&logs).exp(),
            interval: interval.map(|(low, high)| (low.exp(), high.exp())),
            pairs: logs.len(),
        })
    }

    /// The first over the second.
    pub fn inverse(&self) -> Ratio {
        Ratio {
            ratio: 1.0 / self.ratio,
            interval: self.interval.map(|(low, high)| (1.0 / high, 1.0 / low)),
            pairs: self.pairs,
        }
    }

    /// What it says.
    pub fn direction(&self) -> Direction {
        match self.interval {
            None => Direction::TooFew,
            Some((low, _)) if low > 1.0 => Direction::Higher,
            Some((_, high)) if high < 1.0 => Direction::Lower,
            Some(_) => Direction::NoDifference,
        }
    }
}

/// What a level does against its factor's first one, over all levels of the other factors.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// Factor.
    pub factor: String,
    /// Its first level.
    pub from: String,
    /// The other one.
    pub to: String,
    /// `to` over `from`; `None` where nothing can be paired.
    pub ratio: Option<Ratio>,
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
                ratio: Ratio::of(&values.pairs(&level(&first.name), &level(&other.name))),
            });
        }
    }
    effects
}

/// (first, second) of each block, of cases that differ only in what `first` and `second` name: what is behind an effect.
pub fn pairs(study: &Study, trials: &[Trial], measure: &str, first: &Case, second: &Case) -> Vec<(f64, f64)> {
    Values::of(study, trials, measure).pairs(first, second)
}

/// A claim's `better` over `than`, or over `least`.
pub fn claim(study: &Study, trials: &[Trial], claim: &Claim) -> Option<Ratio> {
    Ratio::of(&claim_pairs(study, trials, claim))
}

/// What is behind a claim: (`than` or `least`, `better`).
pub fn claim_pairs(study: &Study, trials: &[Trial], claim: &Claim) -> Vec<(f64, f64)> {
    let values = Values::of(study, trials, &claim.measure);
    match claim.least {
        None => values.pairs(&claim.than, &claim.better),
        Some(least) => {
            let matching = values.values.iter().filter(|((case, _), _)| matches(case, &claim.better));
            matching.map(|(_, value)| (least, *value)).collect()
        }
    }
}

/// A measure of a study's trials.
struct Values<'a> {
    values: BTreeMap<(&'a Case, u32), f64>,
    unit: &'a str,
}

impl<'a> Values<'a> {
    fn of(study: &Study, trials: &'a [Trial], measure: &str) -> Values<'a> {
        let mut found = Values { values: BTreeMap::new(), unit: "" };
        for trial in trials.iter().filter(|t| t.key.study == study.name) {
            let Some(figure) = trial.outcome.as_ref().ok().and_then(|o| o.measure(measure)) else { continue };
            found.values.insert((&trial.key.case, trial.key.block), figure.value);
            found.unit = &figure.unit;
        }
        found
    }

    /// (first, second) of each block, of cases that differ only in what `first` and `second` name.
    fn pairs(&self, first: &Case, second: &Case) -> Vec<(f64, f64)> {
        let matching = self.values.iter().filter(|((case, _), _)| matches(case, first));
        let pair = |((case, block), value): (&(&Case, u32), &f64)| {
            let mut other = (*case).clone();
            other.extend(second.clone());
            Some((*value, *self.values.get(&(&other, *block))?))
        };
        matching.filter_map(pair).collect()
    }
}

#[cfg(test)]
mod tests;
