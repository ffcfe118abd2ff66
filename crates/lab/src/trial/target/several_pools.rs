//! Several pools of the engine in user space. Each has its own process, and so its own ARC, transaction groups and devices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_openzfs::property::Settings;

use super::{Counters, DatasetServer, PoolTarget, Recorded, Size, Target};
use crate::trial::Setting;
use crate::{Error, Result, TrialSpec};

/// The mounted pools of a trial.
#[derive(Debug)]
pub struct SeveralPools {
    /// The name of each pool in the campaign, and the pool; the first one is `[pool]`, and has an empty name.
    pools: Vec<(String, PoolTarget)>,
    pool_of: BTreeMap<String, String>,
}

impl SeveralPools {
    /// Creates the pools of `spec.pools`, and the one that `main` creates from the other datasets.
    ///
    /// # Errors
    /// Fails if a dataset has a separate mount point, or if a pool cannot be created or mounted.
    pub fn create(
        spec: &TrialSpec,
        main: impl FnOnce(&BTreeMap<String, Settings>) -> Result<PoolTarget>,
        setting: &Setting,
    ) -> Result<SeveralPools> {
        if let Some(role) = spec.places.keys().next() {
            return Err(Error::Trial(format!(
                "the dataset {role} has a separate mount point, which requires a single pool"
            )));
        }
        let datasets_of = |pool: Option<&String>| {
            let all = spec.datasets.iter().filter(|(role, _)| spec.pool_of.get(*role) == pool);
            all.map(|(role, settings)| (role.clone(), settings.clone())).collect::<BTreeMap<_, _>>()
        };
        let mut pools = vec![(String::new(), main(&datasets_of(None))?)];
        for (name, pool) in &spec.pools {
            let dir = spec.scratch.join(format!("target-{name}"));
            let datasets = datasets_of(Some(name));
            let emulates = spec.emulates_from_the_start();
            let target = PoolTarget::create(pool, &datasets, &BTreeMap::new(), &dir, emulates, setting)?;
            pools.push((name.clone(), target));
        }
        Ok(SeveralPools { pools, pool_of: spec.pool_of.clone() })
    }

    fn pool(&self, role: &str) -> &PoolTarget {
        let name = self.pool_of.get(role).map_or("", String::as_str);
        let found = self.pools.iter().find(|(known, _)| known == name);
        &found.unwrap_or(&self.pools[0]).1
    }

    fn each(&self, act: impl Fn(&PoolTarget) -> Result<()>) -> Result<()> {
        self.pools.iter().try_for_each(|(_, pool)| act(pool))
    }

    fn merged<T>(
        &self,
        of: impl Fn(&PoolTarget) -> Result<BTreeMap<String, T>>,
    ) -> Result<BTreeMap<String, T>> {
        let all: Result<Vec<_>> = self.pools.iter().map(|(_, pool)| of(pool)).collect();
        Ok(all?.into_iter().flatten().collect())
    }
}

impl Target for SeveralPools {
    fn path(&self, role: &str) -> PathBuf {
        self.pool(role).path(role)
    }

    fn prepare(&mut self, cold: bool, record: bool) -> Result<()> {
        self.pools.iter_mut().try_for_each(|(_, pool)| pool.prepare(cold, record))
    }

    fn set(&self, role: &str, settings: &Settings) -> Result<()> {
        self.pool(role).set(role, settings)
    }

    /// The pools take their snapshots one after the other, not atomically.
    fn snapshot(&self, name: &str) -> Result<()> {
        self.each(|pool| pool.snapshot(name))
    }

    fn destroy_snapshot(&self, name: &str) -> Result<()> {
        self.each(|pool| pool.destroy_snapshot(name))
    }

    fn sync(&self) -> Result<()> {
        self.each(Target::sync)
    }

    fn sizes(&self) -> Result<BTreeMap<String, Size>> {
        self.merged(Target::sizes)
    }

    /// Returns the sums of the ARCs. A vdev of a further pool is named `POOL/FILE`.
    fn counters(&self) -> Result<Option<Counters>> {
        let mut sum = Counters::default();
        for (name, pool) in &self.pools {
            let Some(counters) = pool.counters()? else { return Ok(None) };
            sum.arc = sum.arc.plus(&counters.arc);
            sum.zils.extend(counters.zils);
            let vdev = |file: String| if name.is_empty() { file } else { format!("{name}/{file}") };
            sum.vdevs.extend(counters.vdevs.into_iter().map(|(file, moved)| (vdev(file), moved)));
        }
        Ok(Some(sum))
    }

    fn recorded(&mut self) -> Result<BTreeMap<String, Recorded>> {
        let mut all = BTreeMap::new();
        for (_, pool) in &mut self.pools {
            all.extend(pool.recorded()?);
        }
        Ok(all)
    }

    fn servers(&self) -> Vec<DatasetServer> {
        self.pools.iter().flat_map(|(_, pool)| pool.servers()).collect()
    }

    fn trouble(&self) -> Option<String> {
        self.pools.iter().find_map(|(_, pool)| pool.trouble())
    }

    fn location(&self) -> &Path {
        self.pools[0].1.location()
    }

    fn versions(&self) -> Result<BTreeMap<String, String>> {
        self.merged(Target::versions)
    }

    /// Destroys all pools, even if one of them fails; returns the first error.
    fn tear_down(&mut self) -> Result<()> {
        let done: Vec<Result<()>> = self.pools.iter_mut().map(|(_, pool)| pool.tear_down()).collect();
        done.into_iter().collect()
    }
}
