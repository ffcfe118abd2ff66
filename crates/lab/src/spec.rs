//! The complete description of one trial: the input of `poolwright trial SPEC.json` when `kind` is `lab`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::property::Settings;
use poolwright_replay::KernelPoolOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::campaign::{Parameters, Phase, PoolSpec};

/// The storage for the datasets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TargetSpec {
    /// A pool of the engine in user space, created and mounted for the trial.
    Pool(PoolSpec),
    /// Datasets of the kernel's OpenZFS, created for the trial.
    Dataset(KernelPoolOptions),
    /// Directories below this one, on the host's file system; properties do not apply.
    Directory(PathBuf),
}

/// A trial. Paths refer to the machine on which it runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// Always `lab`.
    #[schemars(extend("const" = TrialSpec::KIND))]
    pub kind: String,
    /// Identity of the trial.
    pub key: TrialKey,
    /// Path of the driver's program.
    pub driver: PathBuf,
    /// Arguments of the driver before `run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver_words: Vec<String>,
    /// The driver's parameters.
    pub parameters: Parameters,
    /// The storage to run on.
    pub target: TargetSpec,
    /// Further pools by name, if the target is a pool.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolSpec>,
    /// Role → name of its pool in `pools`; the other datasets are on the target.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pool_of: BTreeMap<String, String>,
    /// Role → properties.
    pub datasets: BTreeMap<String, Settings>,
    /// Role → mount point of its dataset, relative to the common directory; the default is the role's name. A
    /// mount point may be inside another one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, PathBuf>,
    /// Phases in the order in which they run.
    pub phases: Vec<Phase>,
    /// An empty directory for the pool's files, mount points, sockets and logs, used only by this trial; the
    /// process that starts the trial removes it.
    pub scratch: PathBuf,
    /// Directory for generated inputs, kept between trials.
    pub cache: PathBuf,
    /// Directory for tools that no package provides.
    pub tools: PathBuf,
    /// Seed of the workload; the same for all cases of a block.
    pub seed: u64,
}

impl TrialSpec {
    /// The `kind` that distinguishes the specification from that of a replay.
    pub const KIND: &'static str = "lab";

    /// Whether the first phase needs the pool's emulated device. Phases before the first cold one only provide its data if none of them is
    /// measured: they run at the speed of the host's disk, and the pool is imported with the device for the cold phase.
    pub(crate) fn emulates_from_the_start(&self) -> bool {
        let cold = self.phases.iter().position(|phase| phase.cold);
        cold.is_none_or(|cold| self.phases[..cold].iter().any(|phase| phase.measure))
    }
}

/// Identity of a trial in a campaign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct TrialKey {
    /// Name of the study.
    pub study: String,
    /// Factor → level, by name.
    pub case: BTreeMap<String, String>,
    /// Block number, from 0.
    pub block: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_emulated_from_the_first_cold_phase_on_if_none_before_it_is_measured() {
        let emulates = |phases: &str| {
            let phases = phases.split(' ').map(|text| {
                let (measured, cold) = (text.contains('m'), text.contains('c'));
                serde_json::json!({"name": "p", "measure": measured, "cold": cold})
            });
            let spec = serde_json::json!({
                "kind": "lab", "key": {"study": "s", "case": {}, "block": 0}, "driver": "/d", "parameters": {},
                "target": {"directory": "/t"}, "datasets": {}, "phases": phases.collect::<Vec<_>>(),
                "scratch": "/s", "cache": "/c", "tools": "/t", "seed": 1,
            });
            serde_json::from_value::<TrialSpec>(spec).unwrap().emulates_from_the_start()
        };
        assert!(!emulates("- mc") && !emulates("- - c m") && !emulates("mc"));
        assert!(emulates("m mc") && emulates("- m c") && emulates("m") && emulates("- m"));
    }
}
