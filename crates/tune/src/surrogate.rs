//! Estimates the model's error from the trials.
//!
//! `ln(measured objective / predicted objective)` varies slowly with the record size and is similar for all codecs,
//! so each trial gives information on similar settings. The model's error about another property, such as
//! `logbias`, is similar for all record sizes and codecs. The error is treated as a Gaussian process: the sum of a
//! process over (log2 of the record size, codec) and of a constant for each set of other properties that differ
//! from today's. With the model as its trend this is kriging (Sacks, Welch, Mitchell, Wynn, "Design and Analysis of
//! Computer Experiments", Statistical Science 4(4), 1989). The scale of the error is not known beforehand: its
//! estimate weighs the trials against [`PRIOR_DEVIATION`], which counts as much as [`PRIOR_TRIALS`] trials.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use poolwright_openzfs::property::{Settings, canonical};

use crate::candidates::{difference, recordsize_and_compression};

/// Octaves of record size over which the error loses most of its correlation.
const OCTAVES: f64 = 2.0;
/// Correlation between two codecs at one record size.
const OTHER_CODEC: f64 = 0.6;
/// Standard deviation of the error, as a logarithm, before any trial: the median error of the screening model on
/// the databases of `docs/method.md`.
const PRIOR_DEVIATION: f64 = 0.15;
const PRIOR_TRIALS: f64 = 4.0;
/// Variance of the error that other properties add, relative to that of record size and codec.
const OTHER_PROPERTIES: f64 = 1.0;
/// Lower limit for the standard deviation of a trial: keeps the matrix regular if a setting was tried twice.
const LEAST_NOISE: f64 = 0.005;

/// The position of a setting in the process.
#[derive(Clone, Debug, PartialEq)]
struct Point {
    octave: f64,
    codec: String,
    /// Other properties that differ from today's.
    others: Settings,
}

impl Point {
    fn of(settings: &Settings, today: &Settings) -> Point {
        let (recordsize, codec) = recordsize_and_compression(settings);
        let mut others = difference(settings, today);
        others.retain(|property, _| property != "recordsize" && property != "compression");
        Point { octave: (recordsize as f64).log2(), codec: canonical("compression", codec), others }
    }

    /// Returns the covariance of two errors, in units of the variance due to record size and codec.
    fn covariance(&self, other: &Point) -> f64 {
        let distance = (self.octave - other.octave) / OCTAVES;
        let codec = if self.codec == other.codec { 1.0 } else { OTHER_CODEC };
        let shared = !self.others.is_empty() && self.others == other.others;
        codec * (-0.5 * distance * distance).exp() + if shared { OTHER_PROPERTIES } else { 0.0 }
    }
}

/// The result of one trial.
#[derive(Clone, Debug)]
pub(crate) struct Observation<'a> {
    /// The setting that was tried.
    pub settings: &'a Settings,
    /// `ln(measured objective / predicted objective)`.
    pub error: f64,
}

/// The model's error, estimated from the trials.
pub(crate) struct Surrogate<'a> {
    today: &'a Settings,
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
    /// Standard deviation of the estimate.
    pub deviation: f64,
}

impl<'a> Surrogate<'a> {
    /// Fits the process to trials whose logarithms scatter with the standard deviation `noise`.
    pub fn new(today: &'a Settings, trials: &[Observation<'_>], noise: f64) -> Surrogate<'a> {
        let points: Vec<Point> = trials.iter().map(|o| Point::of(o.settings, today)).collect();
        let nugget = (noise.max(LEAST_NOISE) / PRIOR_DEVIATION).powi(2);
        let matrix = DMatrix::from_fn(points.len(), points.len(), |i, j| {
            points[i].covariance(&points[j]) + if i == j { nugget } else { 0.0 }
        });
        let errors = DVector::from_iterator(trials.len(), trials.iter().map(|o| o.error));
        // A covariance matrix with a nugget is positive definite, so the decomposition fails only for trials
        // with NaN.
        let inverse = Cholesky::new(matrix).filter(|_| !trials.is_empty()).map(|cholesky| {
            let weights = cholesky.solve(&errors);
            (cholesky, weights)
        });
        let fit = inverse.as_ref().map_or(0.0, |(_, weights)| errors.dot(weights));
        let freedom = PRIOR_TRIALS + if inverse.is_some() { trials.len() as f64 } else { 0.0 };
        let variance = (PRIOR_TRIALS * PRIOR_DEVIATION.powi(2) + fit) / freedom;
        Surrogate { today, points, inverse, variance }
    }

    /// Returns the estimated error of the model for a setting.
    pub fn at(&self, settings: &Settings) -> ModelError {
        let at = Point::of(settings, self.today);
        let prior = at.covariance(&at);
        let Some((cholesky, weights)) = &self.inverse else {
            return ModelError { mean: 0.0, deviation: (self.variance * prior).sqrt() };
        };
        let near = DVector::from_iterator(self.points.len(), self.points.iter().map(|p| p.covariance(&at)));
        let left = prior - near.dot(&cholesky.solve(&near));
        ModelError { mean: near.dot(weights), deviation: (self.variance * left.max(0.0)).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(recordsize: &str, compression: &str) -> Settings {
        Settings::from([("recordsize".into(), recordsize.into()), ("compression".into(), compression.into())])
    }

    /// With these as today's settings, only record size and codec differ.
    fn today() -> Settings {
        setting("128K", "lz4")
    }

    #[test]
    fn without_trials_the_model_stands_as_it_is() {
        let e = Surrogate::new(&today(), &[], 0.01).at(&setting("16K", "lz4"));
        assert_eq!(e.mean, 0.0);
        assert!((e.deviation - PRIOR_DEVIATION).abs() < 1e-12);
    }

    #[test]
    fn a_trial_corrects_its_neighbours_more_than_what_is_far() {
        let tried = setting("16K", "lz4");
        let today = today();
        let s = Surrogate::new(&today, &[Observation { settings: &tried, error: 0.3 }], 0.01);
        let [here, near, far, codec] = [("16K", "on"), ("32K", "lz4"), ("1M", "lz4"), ("16K", "zstd-3")]
            .map(|(r, c)| s.at(&setting(r, c)));
        assert!((here.mean - 0.3).abs() < 0.01 && here.deviation < 0.02, "{here:?}");
        assert!(near.mean > 0.2 && near.mean < here.mean, "{near:?}");
        assert!(far.mean < 0.01 && far.deviation > 0.9 * PRIOR_DEVIATION, "{far:?}");
        assert!((codec.mean / here.mean - OTHER_CODEC).abs() < 0.01, "{codec:?}");
    }

    #[test]
    fn repeats_narrow_the_estimate_and_large_errors_widen_it_elsewhere() {
        let (today, tried) = (today(), setting("16K", "lz4"));
        let observed = |errors: &[f64]| {
            let trials: Vec<_> = errors.iter().map(|e| Observation { settings: &tried, error: *e }).collect();
            Surrogate::new(&today, &trials, 0.05)
        };
        let (once, often) = (observed(&[0.1]).at(&tried), observed(&[0.1; 5]).at(&tried));
        assert!(often.deviation < 0.6 * once.deviation, "{once:?} {often:?}");
        let far = setting("1M", "lz4");
        assert!(observed(&[0.8]).at(&far).deviation > 1.5 * observed(&[0.0]).at(&far).deviation);
    }

    #[test]
    fn an_error_of_another_property_holds_for_all_records_and_only_with_it() {
        let logbias = |mut settings: Settings| {
            settings.insert("logbias".into(), "throughput".into());
            settings
        };
        let (today, changed) = (today(), logbias(today()));
        let trials =
            [Observation { settings: &today, error: 0.0 }, Observation { settings: &changed, error: 0.7 }];
        let s = Surrogate::new(&today, &trials, 0.01);
        let far = setting("8K", "zstd-1");
        let (without, with) = (s.at(&far), s.at(&logbias(far.clone())));
        assert!(without.mean.abs() < 0.05, "{without:?}");
        assert!((with.mean - 0.7).abs() < 0.1, "{with:?}");
        // The trials show the effect of the property but say nothing about records of 8K.
        assert!((with.deviation / without.deviation - 1.0).abs() < 0.05, "{with:?} {without:?}");
    }
}
