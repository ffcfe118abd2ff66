//! One figure of a table: a measure over the trials of a case.

use serde::Serialize;

/// A measure over the trials of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub measure: String,
    /// Of all values.
    pub unit: String,
    /// Of the trials.
    pub median: f64,
    /// 95 % interval of the median; `null` for fewer than three trials.
    pub ci95: Option<(f64, f64)>,
    /// Standard deviation over mean; `null` for one trial.
    pub variation: Option<f64>,
    /// Whether that is over a tenth.
    pub noisy: bool,
    /// A trial each.
    pub values: Vec<f64>,
}
