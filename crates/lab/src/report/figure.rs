//! One figure of a table: a measure over the trials of a case.

use schemars::JsonSchema;
use serde::Serialize;

/// A measure over the trials of a case.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// Name of the measure.
    pub measure: String,
    /// Unit of all values.
    pub unit: String,
    /// Median of the trials, in `unit`.
    pub median: f64,
    /// 95 % interval of the median, in `unit`; `null` for fewer than three trials.
    pub ci95: Option<(f64, f64)>,
    /// Coefficient of variation (standard deviation over mean), a fraction; `null` for one trial.
    pub variation: Option<f64>,
    /// Whether the coefficient of variation is above 0.1.
    pub noisy: bool,
    /// The value of each trial, in `unit`.
    pub values: Vec<f64>,
}

impl Figure {
    /// Returns the median and the interval times `factor`.
    pub(super) fn scaled(&self, factor: f64) -> (f64, Option<(f64, f64)>) {
        (self.median * factor, self.ci95.map(|(low, high)| (low * factor, high * factor)))
    }
}
