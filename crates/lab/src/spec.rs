//! One trial, completely described: what `poolwright trial SPEC.json` reads when `kind` is `lab`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::property::Settings;
use serde::{Deserialize, Serialize};

use crate::campaign::{Parameters, Phase, PoolSpec};

/// What the datasets are on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetSpec {
    /// A pool of its own on the engine in user space, mounted.
    Pool(PoolSpec),
    /// Folders below this one, on the host's file system; properties do not apply.
    Directory(PathBuf),
}

/// A trial. Paths are of the machine it runs on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialSpec {
    /// [`TrialSpec::KIND`].
    pub kind: String,
    /// Which one it is.
    pub key: TrialKey,
    /// The driver's program.
    pub driver: PathBuf,
    /// Its words before `run`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub driver_words: Vec<String>,
    /// The driver's parameters.
    pub parameters: Parameters,
    /// What it runs on.
    pub target: TargetSpec,
    /// Role → properties.
    pub datasets: BTreeMap<String, Settings>,
    /// Role → where its dataset is mounted, below the directory of them all; the role's name where nothing is said. One
    /// may be in another.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, PathBuf>,
    /// In order.
    pub phases: Vec<Phase>,
    /// An empty directory of its own, for the pool's files, mount points, sockets and logs; the starter removes it.
    pub scratch: PathBuf,
    /// Kept between trials: generated inputs.
    pub cache: PathBuf,
    /// What no package has.
    pub tools: PathBuf,
    /// Of the workload; the same for all cases of a block.
    pub seed: u64,
}

impl TrialSpec {
    /// Tells it from a replay's specification.
    pub const KIND: &'static str = "lab";
}

/// Which trial of a campaign.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TrialKey {
    /// Study.
    pub study: String,
    /// Factor → level, by their names.
    pub case: BTreeMap<String, String>,
    /// Block, from 0.
    pub block: u32,
}
