//! What a trial prints: the measures, time series and histograms of its phases.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The result of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In order.
    pub phases: Vec<PhaseOutcome>,
    /// All of it, set-up and tear-down too.
    pub seconds: f64,
    /// Versions and the like, as the driver and the target said them: `openzfs`, `mariadb` …
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
}

impl Outcome {
    /// A figure by its name in campaigns: `PHASE/NAME`, or `NAME` of the first measured phase that has it.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        let (phase, name) = name.split_once('/').map_or((None, name), |(phase, name)| (Some(phase), name));
        let mut phases =
            self.phases.iter().filter(|p| p.measured && phase.is_none_or(|phase| p.name == phase));
        phases.find_map(|p| p.measures.get(name))
    }
}

/// The result of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseOutcome {
    /// Its name.
    pub name: String,
    /// Whether it belongs in the tables.
    pub measured: bool,
    /// By name, as `docs/lab.md` lists them.
    pub measures: BTreeMap<String, Measure>,
    /// By name; seconds since the measured window began → value. Times before it are negative.
    pub series: BTreeMap<String, Series>,
    /// Role → kind of call (`read`, `write`) → power-of-two bucket → calls.
    #[serde(default)]
    pub histograms: BTreeMap<String, BTreeMap<String, Vec<(u64, u64)>>>,
    /// Seconds since the measured window began, and the line.
    #[serde(default)]
    pub log: Vec<(f64, String)>,
    /// What was changed while it ran.
    #[serde(default)]
    pub changes: Vec<(f64, String)>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// How much.
    pub value: f64,
    /// `s`, `ns`, `bytes`, `1/s`, `bytes/s`, `ratio`, `percent`, `count`.
    pub unit: String,
}

/// A figure over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// As of a [`Measure`].
    pub unit: String,
    /// Seconds → value.
    pub points: Vec<(f64, f64)>,
}
