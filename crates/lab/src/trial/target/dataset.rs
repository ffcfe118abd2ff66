//! Datasets of the kernel's OpenZFS, on the vdevs of an existing pool.
//!
//! The process that starts the trial destroys them if the trial cannot ([`poolwright_replay::PoolWatch`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_openzfs::property::{self, Settings};
use poolwright_replay::{KernelPoolOptions, TrialDatasets};

use super::{Counters, DatasetServer, Recorded, Size, Target};
use crate::{Error, Result};
use poolwright_base::cannot;

/// The version of the kernel's module.
const VERSION: &str = "/sys/module/zfs/version";

/// A dataset of the kernel for each role.
#[derive(Debug)]
pub struct DatasetTarget {
    pool: String,
    datasets: Option<TrialDatasets>,
    mountpoint: PathBuf,
    places: BTreeMap<String, PathBuf>,
}

impl DatasetTarget {
    /// Creates the datasets below `options.parent`, and mounts them in their `places`, or in a directory with the role's name.
    ///
    /// # Errors
    /// Fails if a dataset cannot be created and mounted, or if the pool's counters cannot be read.
    pub fn create(
        options: &KernelPoolOptions,
        datasets: &BTreeMap<String, Settings>,
        places: &BTreeMap<String, PathBuf>,
    ) -> Result<DatasetTarget> {
        let datasets = TrialDatasets::create(options, datasets, places)?;
        Ok(DatasetTarget {
            pool: options.pool().to_owned(),
            mountpoint: datasets.mountpoint().to_owned(),
            places: places.clone(),
            datasets: Some(datasets),
        })
    }

    fn datasets(&self) -> Result<&TrialDatasets> {
        self.datasets.as_ref().ok_or_else(|| Error::Trial("the datasets were destroyed".into()))
    }
}

/// A snapshot of the user's pool would outlive a trial that is killed.
fn no_snapshots() -> Result<()> {
    Err(Error::Trial("snapshots during a phase require a pool that only this trial uses".into()))
}

impl Target for DatasetTarget {
    fn path(&self, role: &str) -> PathBuf {
        self.mountpoint.join(self.places.get(role).map_or(Path::new(role), PathBuf::as_path))
    }

    fn prepare(&mut self, cold: bool, record: bool) -> Result<()> {
        let needs_pool = |what: &str| {
            Err(Error::Trial(format!("a phase with `{what}` requires a pool that only this trial uses")))
        };
        match (cold, record) {
            (true, _) => needs_pool("cold"),
            (_, true) => needs_pool("record"),
            (false, false) => Ok(()),
        }
    }

    fn set(&self, role: &str, settings: &Settings) -> Result<()> {
        let datasets = self.datasets()?;
        for (name, value) in settings {
            let dataset = datasets.name_of(role);
            property::check(name, value)
                .map_err(|why| Error::Trial(format!("setting {name}={value} on {dataset}: {why}")))?;
        }
        Ok(datasets.set(role, settings)?)
    }

    fn snapshot(&self, _: &str) -> Result<()> {
        no_snapshots()
    }

    fn destroy_snapshot(&self, _: &str) -> Result<()> {
        no_snapshots()
    }

    fn sync(&self) -> Result<()> {
        Ok(self.datasets()?.sync()?)
    }

    fn sizes(&self) -> Result<BTreeMap<String, Size>> {
        let space = self.datasets()?.space()?;
        let size = |role: &str, logical: Option<u64>, allocated: Option<u64>| match (logical, allocated) {
            (Some(logical), Some(allocated)) => Ok(Size { logical, allocated, held: None }),
            _ => Err(Error::Trial(format!("zfs did not report the size of the dataset {role}"))),
        };
        let sizes = space.into_iter().map(|(role, of)| {
            let size = size(&role, of.logical_referenced, of.referenced)?;
            Ok((role, size))
        });
        sizes.collect()
    }

    fn counters(&self) -> Result<Option<Counters>> {
        let datasets = self.datasets()?;
        let counters = datasets.counters()?;
        Ok(Some(Counters {
            arc: counters.arc,
            vdevs: BTreeMap::from([(self.pool.clone(), counters.vdev)]),
            zils: datasets.zil_counters()?,
        }))
    }

    fn recorded(&mut self) -> Result<BTreeMap<String, Recorded>> {
        Ok(BTreeMap::new())
    }

    fn servers(&self) -> Vec<DatasetServer> {
        vec![DatasetServer::Kernel]
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    fn location(&self) -> &Path {
        &self.mountpoint
    }

    fn versions(&self) -> Result<BTreeMap<String, String>> {
        // The module can have another version than the engine's library.
        let version = std::fs::read_to_string(VERSION).map_err(cannot("read", Path::new(VERSION)))?;
        Ok(BTreeMap::from([("openzfs".to_owned(), version.trim().to_owned())]))
    }

    fn tear_down(&mut self) -> Result<()> {
        let Some(datasets) = self.datasets.take() else { return Ok(()) };
        datasets.destroy()?;
        // OpenZFS removes the directory that it has created.
        let _ = std::fs::remove_dir(&self.mountpoint);
        Ok(())
    }
}
