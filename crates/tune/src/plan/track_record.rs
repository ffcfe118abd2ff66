//! How good predictions were where databases were asked for the truth.

use serde::{Deserialize, Serialize};

/// The measured workloads that speak for this plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrackRecord {
    /// Those of the detected database system if there are any, else all.
    pub workloads: Vec<MeasuredWorkload>,
    /// The detected database system, where `workloads` are its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Workloads that were measured in all.
    pub measured: u32,
}

/// A workload under which a real database was run with the settings that were predicted for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredWorkload {
    /// Its name in the campaign.
    pub workload: String,
    /// Its name for people.
    pub title: String,
    /// `mariadb`, `postgresql`, `sqlite`, `rocksdb` or `openldap`.
    pub system: String,
    /// Settings whose change of the work rate was predicted and measured.
    pub settings: u32,
    /// Those of them whose true change is known within ±4 % (95 %). The truth's noise adds to the errors of the others.
    #[serde(default)]
    pub known: u32,
    /// Those of the settings predicted within ten percentage points of the truth.
    pub rate_within_ten_points: u32,
    /// The largest error of a predicted change of the work rate, in percentage points.
    pub largest_rate_error_points: f64,
    /// Kendall's τ between the predicted and the true order of the settings by the objective.
    pub kendall_tau: f64,
    /// By how much the true objective of the recommended setting lies above that of the best one, in per cent.
    pub regret_percent: f64,
}

impl TrackRecord {
    /// The record in one sentence; `None` where nothing was measured.
    pub fn sentence(&self) -> Option<String> {
        let of = |count: fn(&MeasuredWorkload) -> u32| self.workloads.iter().map(count).sum::<u32>();
        let (right, all) = (of(|w| w.rate_within_ten_points), of(|w| w.settings));
        if all == 0 {
            return None;
        }
        let largest = self.workloads.iter().map(|w| w.largest_rate_error_points).fold(0.0, f64::max);
        let mut titles: Vec<&str> = self.workloads.iter().map(|w| w.title.as_str()).collect();
        titles.dedup();
        let titles = match titles.split_last() {
            Some((last, first)) if !first.is_empty() => format!("{} and {last}", first.join(", ")),
            _ => titles.join(""),
        };
        let workloads = |n: u32| format!("{n} workload{}", if n == 1 { "" } else { "s" });
        let (lead, end) = match self.system {
            Some(_) => (format!("On {titles}"), format!("measured on {} in all", workloads(self.measured))),
            None => (
                format!("On {titles}, other databases than this one"),
                format!("measured on {}", workloads(self.measured)),
            ),
        };
        Some(format!(
            "{lead}, work rate was predicted within 10 points of the truth for {right} of {all} settings (largest error \
             {largest:.1} points); {end}."
        ))
    }
}
