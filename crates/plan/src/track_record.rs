//! Accuracy of earlier predictions, measured with real databases.

use poolwright_base::units::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MetricName, Plan};

/// The measured workloads that are relevant to this plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrackRecord {
    /// The workloads of the detected database system if there are any, otherwise all.
    pub workloads: Vec<MeasuredWorkload>,
    /// The detected database system, if `workloads` are those of this system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Number of measured workloads of all systems.
    pub measured: u32,
    /// The error that 95 % of the predicted changes of the work rate did not exceed, in all these workloads: |ln(predicted/true)| as a
    /// multiple of 0.2 + |ln predicted|, because the error grows with the change. Both changes are factors.
    #[serde(default)]
    pub rate_error: f64,
}

/// A workload with which a real database was run under the predicted settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredWorkload {
    /// Identifier in the campaign.
    pub workload: String,
    /// Title for readers.
    pub title: String,
    /// The database system: the name of its layout, but `openldap` for its databases.
    pub system: String,
    /// Number of settings whose change of the work rate was predicted and measured.
    pub settings: u32,
    /// Number of these settings whose runs, and those of today's, differ by at most 4 %; 0 if each ran once.
    #[serde(default)]
    pub known: u32,
    /// Number of settings whose change was predicted within ten percentage points of the measured one.
    pub rate_within_ten_points: u32,
    /// The largest error of a predicted change of the work rate, in percentage points.
    pub largest_rate_error_points: f64,
    /// Kendall's τ between the predicted and the true order of the settings by the work rate.
    pub kendall_tau: f64,
    /// Difference between the true objective of the setting that is best by prediction and that of the best one, in per cent.
    pub regret_percent: f64,
}

impl Plan {
    /// Returns the interval in which the change of a metric is expected on the database, as fractions of today's value: for the work rate, with
    /// the errors of earlier predictions; otherwise `scatter`, that of the trials.
    pub fn expected(&self, metric: &MetricName, change: f64, scatter: (f64, f64)) -> (f64, f64) {
        match &self.track_record {
            Some(record) if *metric == MetricName::WorkRate => record.rate_interval(change, scatter),
            _ => scatter,
        }
    }
}

impl TrackRecord {
    /// The scale of errors of a predicted change, the logarithm of a factor; see [`TrackRecord::rate_error`].
    pub fn scale(predicted: f64) -> f64 {
        0.2 + predicted.abs()
    }

    /// Returns the interval of a predicted change of the work rate that contains the errors of earlier predictions and the trials' scatter.
    /// All are fractions of today's rate.
    pub fn rate_interval(&self, change: f64, scatter: (f64, f64)) -> (f64, f64) {
        let predicted = (1.0 + change).ln();
        let error = self.rate_error * TrackRecord::scale(predicted);
        let end = |by: f64| (predicted + by).exp() - 1.0;
        (end(-error).min(scatter.0), end(error).max(scatter.1))
    }

    /// The titles of the workloads: `MariaDB, PostgreSQL and SQLite`.
    fn titles(&self) -> String {
        let mut titles: Vec<&str> = self.workloads.iter().map(|w| w.title.as_str()).collect();
        titles.dedup();
        match titles.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            _ => titles.join(""),
        }
    }

    /// Summarises the record in one sentence, or returns `None` if nothing was measured.
    pub fn sentence(&self) -> Option<String> {
        let of = |count: fn(&MeasuredWorkload) -> u32| self.workloads.iter().map(count).sum::<u32>();
        let (right, all) = (of(|w| w.rate_within_ten_points), of(|w| w.settings));
        if all == 0 {
            return None;
        }
        let largest = self.workloads.iter().map(|w| w.largest_rate_error_points).fold(0.0, f64::max);
        let measured = counted(u64::from(self.measured), "workload");
        let (lead, end) = match self.system {
            Some(_) => (format!("On {}", self.titles()), format!("measured on {measured} in all")),
            None => (format!("On {measured} of other databases"), "this one was not measured".to_owned()),
        };
        Some(format!(
            "{lead}, work rate was predicted within 10 points of the truth for {right} of {all} settings (largest error \
             {largest:.1} points); {end}. The interval of the work rate contains 95 % of all these errors; other intervals contain \
             only the scatter of the trials."
        ))
    }
}
