//! Order of the trials: cases, blocks in random order, and the specification of each trial.
//!
//! A block contains every case of a study once. Cases are compared within a block, so drift (a disk that fills up,
//! a neighbour's load) affects all of them equally. The order within a block is random, so that no case is always
//! first.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::property::Settings;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value as Json;

use crate::assets::Assets;
use crate::campaign::{Campaign, Case, MAIN_POOL, ParameterPath, Parameters, PoolSpec, Study};
pub use crate::campaign::{cases, matches};
use crate::run_target::RunTarget;
use crate::{TrialKey, TrialSpec};

/// Returns the cases of a block in the order in which they run.
pub fn block(study: &Study, seed: u64, block: u32) -> Vec<Case> {
    let mut order = cases(study);
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(mixed(seed, &study.name, block)));
    order
}

/// Returns the workload's seed in a block: the same in all studies, so that they share a generated input. It has 31
/// bits, which fit the integer type of every language.
pub fn workload_seed(seed: u64, block: u32) -> u64 {
    mixed(seed, "workload", block) >> 33
}

/// Hashes the parts with FNV-1a and the finaliser of MurmurHash3, so that neighbouring seeds and blocks give
/// unrelated values.
fn mixed(seed: u64, name: &str, block: u32) -> u64 {
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes()).chain(block.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// The conditions of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    /// Parameters of the driver.
    pub parameters: Parameters,
    /// Role → properties.
    pub datasets: BTreeMap<String, Settings>,
    /// The pool.
    pub pool: PoolSpec,
    /// The further pools that have datasets, by name.
    pub pools: BTreeMap<String, PoolSpec>,
    /// Role → name of its pool, for datasets on these.
    pub pool_of: BTreeMap<String, String>,
}

/// Returns a case's conditions. A study overrides its campaign, and the factors override the study, in the file's
/// order.
pub fn conditions(campaign: &Campaign, study: &Study, scale: &str, case: &Case) -> Conditions {
    let mut parameters = campaign.scale.get(scale).cloned().unwrap_or_default();
    parameters.extend(study.parameters.clone());
    parameters.extend(study.scale.get(scale).cloned().unwrap_or_default());
    let mut conditions = Conditions {
        parameters,
        datasets: study.datasets.clone(),
        pool: study.pool.clone(),
        pools: study.pools.clone(),
        pool_of: study.pool_of.clone(),
    };
    for factor in &study.factors {
        let level = factor.levels.iter().find(|l| case.get(&factor.name) == Some(&l.name));
        for (location, value) in level.iter().flat_map(|l| &l.set) {
            conditions.set(location, value);
        }
    }
    conditions.pool_of.retain(|_, pool| pool != MAIN_POOL);
    conditions.pools.retain(|name, _| conditions.pool_of.values().any(|pool| pool == name));
    conditions
}

impl Conditions {
    /// Sets a value. The parser has checked that it fits the path.
    fn set(&mut self, location: &ParameterPath, value: &Json) {
        let text = || value.as_str().unwrap_or_default().to_owned();
        match location {
            ParameterPath::Workload(name) => {
                self.parameters.insert(name.clone(), value.clone());
            }
            ParameterPath::Dataset(role, name) => {
                self.datasets.entry(role.clone()).or_default().insert(name.clone(), text());
            }
            ParameterPath::DatasetPool(role) => {
                self.pool_of.insert(role.clone(), text());
            }
            ParameterPath::Tunable(name) => {
                self.pool.tunables.insert(name.clone(), text());
            }
            ParameterPath::Pool(key) => match key.as_str() {
                "vdevs" => {
                    let words = value.as_array().into_iter().flatten().filter_map(Json::as_str);
                    self.pool.vdevs = words.map(str::to_owned).collect();
                }
                "ashift" => self.pool.ashift = value.as_u64().unwrap_or(12) as u32,
                "arc" => self.pool.arc = text(),
                "device" => self.pool.device = text(),
                "memory" => self.pool.memory = text(),
                "snapshots" => self.pool.snapshots = text(),
                _ => self.pool.caching = text(),
            },
        }
    }
}

/// The properties that all trials of a run share.
#[derive(Clone, Debug)]
pub struct Plan<'a> {
    /// The campaign.
    pub campaign: &'a Campaign,
    /// Scale of the run.
    pub scale: &'a str,
    /// Seed of the order and of the workloads.
    pub seed: u64,
    /// The storage of the datasets.
    pub target: &'a RunTarget,
    /// Location of the drivers.
    pub assets: &'a Assets,
}

impl Plan<'_> {
    /// Returns a trial's specification; `scratch` is the trial's own scratch directory.
    pub fn spec(&self, study: &Study, case: &Case, block: u32, scratch: PathBuf) -> TrialSpec {
        let conditions = conditions(self.campaign, study, self.scale, case);
        TrialSpec {
            kind: TrialSpec::KIND.to_owned(),
            key: TrialKey { study: study.name.clone(), case: case.clone(), block },
            driver: self.assets.driver(&study.driver),
            driver_words: Vec::new(),
            parameters: conditions.parameters,
            target: self.target.spec(conditions.pool, &scratch, study.space(self.scale)),
            pools: conditions.pools,
            pool_of: conditions.pool_of,
            datasets: conditions.datasets,
            places: BTreeMap::new(),
            phases: study.phases.clone(),
            scratch,
            cache: self.assets.cache(&self.campaign.name),
            tools: self.assets.tools(),
            seed: workload_seed(self.seed, block),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use poolwright_replay::KernelPoolOptions;

    use super::*;
    use crate::TargetSpec;

    #[test]
    fn blocks_hold_every_case_once_in_an_order_of_their_own() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../poolwright/tests/fixtures/smoke.toml");
        let (campaign, _) = Campaign::load(&path).unwrap();
        let study = &campaign.studies[0];
        let all: BTreeSet<Case> = cases(study).into_iter().collect();
        let mut orders = BTreeSet::new();
        for number in 0..20 {
            let order = block(study, 1, number);
            assert_eq!(order, block(study, 1, number), "the seed determines the order");
            assert!(order.len() == all.len() && order.iter().cloned().collect::<BTreeSet<_>>() == all);
            orders.insert(order);
        }
        assert_eq!(orders.len(), 2, "both orders of two cases occur");
        let seeds: BTreeSet<u64> = (0..100).map(|b| workload_seed(1, b)).collect();
        assert!(seeds.len() == 100 && seeds.iter().all(|s| *s <= i32::MAX as u64));
        assert_ne!(workload_seed(1, 0), workload_seed(2, 0));
    }

    #[test]
    fn a_specification_holds_all_of_a_trial() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../poolwright/tests/fixtures/smoke.toml");
        let (campaign, _) = Campaign::load(&path).unwrap();
        let assets = Assets::at(Path::new("/home"));
        let target = RunTarget::Pool;
        let mut plan = Plan { campaign: &campaign, scale: "long", seed: 3, target: &target, assets: &assets };
        let study = &campaign.studies[1];
        let case = Case::from([("compression".into(), "off".into())]);
        let spec = plan.spec(study, &case, 1, "/scratch/t0".into());
        assert_eq!(spec.driver, Path::new("/home/workloads/lab/files"));
        assert_eq!(
            (&spec.parameters["pause_ms"], &spec.datasets["data"]["compression"]),
            (&100.into(), &"off".into())
        );
        assert!(matches!(&spec.target, TargetSpec::Pool(pool) if pool.arc == "64M"));
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<TrialSpec>(&text).unwrap(), spec);
        let directory = RunTarget::Directory("/data".into());
        plan.target = &directory;
        assert_eq!(
            plan.spec(study, &case, 1, "/scratch/t0".into()).target,
            TargetSpec::Directory("/data".into())
        );
        let options = KernelPoolOptions {
            parent: "tank/lab".into(),
            mount_dir: PathBuf::new(),
            properties: BTreeMap::new(),
            quota: 0,
            fill_rate: None,
            latency_limit_ns: 5,
        };
        let dataset = RunTarget::Dataset { options, max_bytes: 0, available: 0 };
        plan.target = &dataset;
        let TargetSpec::Dataset(of) = plan.spec(study, &case, 1, "/scratch/t0".into()).target else {
            panic!()
        };
        assert_eq!((of.parent.as_str(), of.quota, of.latency_limit_ns), ("tank/lab", 4 << 30, 5));
        assert_eq!(of.mount_dir, Path::new("/scratch/t0/target"));
    }
}
