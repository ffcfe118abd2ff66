//! The model's error, estimated from the trials.
//!
//! `ln(measured objective / predicted objective)` varies slowly with the record size and is alike for all codecs, so each
//! trial says something of the settings near it. The error is taken for a Gaussian process over (log2 of the record size,
//! codec); with the model as its trend this is kriging (Sacks, Welch, Mitchell, Wynn, "Design and Analysis of Computer
//! Experiments", Statistical Science 4(4), 1989). The scale of the error is not known beforehand: its estimate weighs the
//! trials against [`PRIOR_DEVIATION`], which counts as much as [`PRIOR_TRIALS`] trials.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use poolwright_openzfs::property::{Settings, canonical};

use crate::candidates::of_interest;

/// Octaves of record size over which the error loses most of its correlation.
const OCTAVES: f64 = 2.0;
/// Correlation between two codecs at one record size.
const OTHER_CODEC: f64 = 0.6;
/// Standard deviation of the error, as a logarithm, before any trial: the median error of the screening model on the
/// databases of `docs/method.md`.
const PRIOR_DEVIATION: f64 = 0.15;
const PRIOR_TRIALS: f64 = 4.0;
/// The least standard deviation of a trial: keeps the matrix regular where a setting was tried twice.
const LEAST_NOISE: f64 = 0.005;

/// Where a setting is for the process.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    octave: f64,
    codec: String,
}

impl Point {
    fn of(settings: &Settings) -> Point {
        let (recordsize, codec) = of_interest(settings);
        Point { octave: (recordsize as f64).log2(), codec: canonical("compression", codec) }
    }

    fn correlation(&self, other: &Point) -> f64 {
        let distance = (self.octave - other.octave) / OCTAVES;
        let codec = if self.codec == other.codec { 1.0 } else { OTHER_CODEC };
        codec * (-0.5 * distance * distance).exp()
    }
}

/// What one trial showed.
#[derive(Clone, Debug)]
pub(crate) struct Observation<'a> {
    /// What was tried.
    pub settings: &'a Settings,
    /// `ln(measured objective / predicted objective)`.
    pub error: f64,
}

/// The model's error, as far as the trials show it.
pub(crate) struct Surrogate {
    points: Vec<Point>,
    inverse: Option<(Cholesky<f64, Dyn>, DVector<f64>)>,
    /// Variance of the process.
    variance: f64,
}

/// An estimate of `ln(true objective / predicted objective)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ModelError {
    /// The most likely value.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Surrogate {
    /// From trials whose logarithms scatter by `noise` (a standard deviation).
    pub fn new(trials: &[Observation<'_>], noise: f64) -> Surrogate {
        let points: Vec<Point> = trials.iter().map(|o| Point::of(o.settings)).collect();
        let nugget = (noise.max(LEAST_NOISE) / PRIOR_DEVIATION).powi(2);
        let matrix = DMatrix::from_fn(points.len(), points.len(), |i, j| {
            points[i].correlation(&points[j]) + if i == j { nugget } else { 0.0 }
        });
        let errors = DVector::from_iterator(trials.len(), trials.iter().map(|o| o.error));
        // A correlation matrix with a nugget is positive definite, so only trials with no number give none.
        let inverse = Cholesky::new(matrix).filter(|_| !trials.is_empty()).map(|cholesky| {
            let weights = cholesky.solve(&errors);
            (cholesky, weights)
        });
        let fit = inverse.as_ref().map_or(0.0, |(_, weights)| errors.dot(weights));
        let freedom = PRIOR_TRIALS + if inverse.is_some() { trials.len() as f64 } else { 0.0 };
        let variance = (PRIOR_TRIALS * PRIOR_DEVIATION.powi(2) + fit) / freedom;
        Surrogate { points, inverse, variance }
    }

    /// The model's error for a setting.
    pub fn at(&self, settings: &Settings) -> ModelError {
        let Some((cholesky, weights)) = &self.inverse else {
            return ModelError { mean: 0.0, deviation: self.variance.sqrt() };
        };
        let at = Point::of(settings);
        let near = DVector::from_iterator(self.points.len(), self.points.iter().map(|p| p.correlation(&at)));
        let left = 1.0 - near.dot(&cholesky.solve(&near));
        ModelError { mean: near.dot(weights), deviation: (self.variance * left.max(0.0)).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(recordsize: &str, compression: &str) -> Settings {
        Settings::from([("recordsize".into(), recordsize.into()), ("compression".into(), compression.into())])
    }

    #[test]
    fn without_trials_the_model_stands_as_it_is() {
        let e = Surrogate::new(&[], 0.01).at(&setting("16K", "lz4"));
        assert_eq!(e.mean, 0.0);
        assert!((e.deviation - PRIOR_DEVIATION).abs() < 1e-12);
    }

    #[test]
    fn a_trial_corrects_its_neighbours_more_than_what_is_far() {
        let tried = setting("16K", "lz4");
        let s = Surrogate::new(&[Observation { settings: &tried, error: 0.3 }], 0.01);
        let [here, near, far, codec] = [("16K", "on"), ("32K", "lz4"), ("1M", "lz4"), ("16K", "zstd-3")]
            .map(|(r, c)| s.at(&setting(r, c)));
        assert!((here.mean - 0.3).abs() < 0.01 && here.deviation < 0.02, "{here:?}");
        assert!(near.mean > 0.2 && near.mean < here.mean, "{near:?}");
        assert!(far.mean < 0.01 && far.deviation > 0.9 * PRIOR_DEVIATION, "{far:?}");
        assert!((codec.mean / here.mean - OTHER_CODEC).abs() < 0.01, "{codec:?}");
    }

    #[test]
    fn repeats_narrow_the_estimate_and_large_errors_widen_it_elsewhere() {
        let tried = setting("16K", "lz4");
        let observed = |errors: &[f64]| {
            let trials: Vec<_> = errors.iter().map(|e| Observation { settings: &tried, error: *e }).collect();
            Surrogate::new(&trials, 0.05)
        };
        let (once, often) = (observed(&[0.1]).at(&tried), observed(&[0.1; 5]).at(&tried));
        assert!(often.deviation < 0.6 * once.deviation, "{once:?} {often:?}");
        let far = setting("1M", "lz4");
        assert!(observed(&[0.8]).at(&far).deviation > 1.5 * observed(&[0.0]).at(&far).deviation);
    }
}
