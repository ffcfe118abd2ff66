//! The output of a trial: the measures, time series and histograms of its phases.

use std::collections::BTreeMap;

use poolwright_replay::PoolLoad;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// The phases in the order in which they ran.
    pub phases: Vec<PhaseOutcome>,
    /// Wall time of the whole trial in seconds, including setup and teardown.
    pub seconds: f64,
    /// Program → version, as reported by the driver and the target: `openzfs`, `mariadb` …
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// The load of the kernel's pool; missing on other targets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<LabPoolLoad>,
}

/// The load of a kernel's pool during trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabPoolLoad {
    /// Bytes that the pool's devices wrote: for the trial and for others.
    pub device_written_bytes: u64,
    /// The load of other users, and the I/O times of the devices.
    #[serde(flatten)]
    pub load: PoolLoad,
}

impl LabPoolLoad {
    /// Returns the load of several trials together; `None` without one.
    pub fn sum(loads: impl Iterator<Item = LabPoolLoad>) -> Option<LabPoolLoad> {
        loads.reduce(|a, b| LabPoolLoad {
            device_written_bytes: a.device_written_bytes + b.device_written_bytes,
            load: PoolLoad {
                others_read_bytes: a.load.others_read_bytes + b.load.others_read_bytes,
                others_written_bytes: a.load.others_written_bytes + b.load.others_written_bytes,
                worst_device_ns: a.load.worst_device_ns.max(b.load.worst_device_ns),
            },
        })
    }
}

impl Outcome {
    /// Returns a measure by its name in campaigns: `PHASE/NAME`, or `NAME` of the first measured phase that has
    /// it.
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        let (phase, name) = name.split_once('/').map_or((None, name), |(phase, name)| (Some(phase), name));
        let mut phases =
            self.phases.iter().filter(|p| p.measured && phase.is_none_or(|phase| p.name == phase));
        phases.find_map(|p| p.measures.get(name))
    }
}

/// The result of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseOutcome {
    /// Name of the phase.
    pub name: String,
    /// Whether the phase appears in the tables.
    pub measured: bool,
    /// Measures by name; `docs/lab.md` lists them.
    pub measures: BTreeMap<String, Measure>,
    /// Series by name: seconds since the measured window began → value. Earlier times are negative.
    pub series: BTreeMap<String, Series>,
    /// Role → kind of call (`read`, `write`) → size in bytes, rounded down to a power of two → number of
    /// calls.
    #[serde(default)]
    pub histograms: BTreeMap<String, BTreeMap<String, Vec<(u64, u64)>>>,
    /// Seconds since the measured window began, and the log line.
    #[serde(default)]
    pub log: Vec<(f64, String)>,
    /// Seconds since the measured window began, and the change that was made then.
    #[serde(default)]
    pub changes: Vec<(f64, String)>,
}

/// A measure with its unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measure {
    /// The value in `unit`.
    pub value: f64,
    /// `s`, `ns`, `bytes`, `1/s`, `bytes/s`, `ratio`, `percent`, `count`.
    pub unit: String,
}

/// A measure over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// A unit as in [`Measure`].
    pub unit: String,
    /// Seconds → value.
    pub points: Vec<(f64, f64)>,
}
