//! The datasets of a trial: one for each role, below one that is marked as the trial's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_openzfs::ZilStats;
use poolwright_openzfs::property::Settings;
use poolwright_pool::command::dataset::DatasetSpace;
use poolwright_pool::{CommandError, CommandOptions, DatasetChange, ZfsCommands};

use super::meter::PoolMeter;
use super::{DEADLINE, KernelPoolOptions, MARK};
use crate::{Counters, Result};

/// Datasets of the kernel that a trial created. They remain when this is dropped: the process that started the trial destroys them.
#[derive(Debug)]
pub struct TrialDatasets {
    commands: ZfsCommands,
    pool: String,
    dataset: String,
    mountpoint: PathBuf,
    meter: PoolMeter,
}

impl TrialDatasets {
    /// Creates and mounts the dataset of the trial that this process is, and one below it for each role, with these properties. Roles
    /// are mounted in the directory of their names.
    ///
    /// # Errors
    /// If a dataset cannot be created and mounted, or the pool's counters cannot be read.
    pub fn create(
        options: &KernelPoolOptions,
        settings: &BTreeMap<String, Settings>,
    ) -> Result<TrialDatasets> {
        let commands = ZfsCommands::new(CommandOptions { deadline: DEADLINE, ..CommandOptions::default() });
        let trial = std::process::id();
        let (dataset, mountpoint) = (options.dataset_of(trial), options.mountpoint_of(trial));
        let mut own = supported(&commands, &options.parent, &options.properties)?;
        own.insert("mountpoint".to_owned(), mountpoint.to_string_lossy().into_owned());
        own.insert("canmount".to_owned(), "on".to_owned());
        own.insert("quota".to_owned(), options.quota.to_string());
        own.insert(MARK.to_owned(), trial.to_string());
        commands.change(&DatasetChange::Create { dataset: dataset.clone(), settings: own })?;
        for (role, settings) in settings {
            let (dataset, settings) = (format!("{dataset}/{role}"), settings.clone());
            commands.change(&DatasetChange::Create { dataset, settings })?;
        }
        let meter = PoolMeter::of(&commands, options.pool(), &dataset)?;
        Ok(TrialDatasets { commands, pool: options.pool().to_owned(), dataset, mountpoint, meter })
    }

    /// The name of a role's dataset.
    pub fn name_of(&self, role: &str) -> String {
        format!("{}/{role}", self.dataset)
    }

    /// The directory in which the datasets of the roles are mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The space of each role's dataset.
    ///
    /// # Errors
    /// If the pool cannot be asked.
    pub fn space(&self) -> Result<BTreeMap<String, DatasetSpace>> {
        let tree = self.commands.tree_of(&self.dataset)?;
        let below = format!("{}/", self.dataset);
        let of_role = |of: DatasetSpace| Some((of.name.strip_prefix(&below)?.to_owned(), of));
        Ok(tree.into_iter().filter_map(of_role).collect())
    }

    /// Sets properties of a role's dataset.
    ///
    /// # Errors
    /// If OpenZFS refuses a value.
    pub fn set(&self, role: &str, settings: &Settings) -> Result<()> {
        for (property, value) in settings {
            let (dataset, property) = (self.name_of(role), property.clone());
            self.commands.change(&DatasetChange::Set { dataset, property, value: value.clone() })?;
        }
        Ok(())
    }

    /// Waits until all earlier changes of the pool are on disk.
    ///
    /// # Errors
    /// If the pool cannot be synced.
    pub fn sync(&self) -> Result<()> {
        Ok(self.commands.change(&DatasetChange::Sync { pool: self.pool.clone() })?)
    }

    /// The counters; those of the vdevs and of the ARC include what others do.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub fn counters(&self) -> Result<Counters> {
        self.meter.read(&self.commands)
    }

    /// The counters of each role's intent log.
    ///
    /// # Errors
    /// If a counter cannot be read.
    pub fn zil_counters(&self) -> Result<BTreeMap<String, ZilStats>> {
        self.meter.zil_by_role()
    }

    /// Destroys the datasets. Files in them must not be open.
    ///
    /// # Errors
    /// If OpenZFS refuses it.
    pub fn destroy(&self) -> Result<()> {
        Ok(self.commands.change(&DatasetChange::DestroyDataset { dataset: self.dataset.clone() })?)
    }
}

/// The properties without those that the release of OpenZFS does not have.
fn supported(commands: &ZfsCommands, parent: &str, properties: &Settings) -> Result<Settings> {
    let missing = || CommandError::NoSuchPool { pool: parent.to_owned() };
    let known = commands.properties_of(parent)?.ok_or_else(missing)?.properties;
    let known = properties.iter().filter(|(name, _)| known.contains_key(*name));
    Ok(known.map(|(name, value)| (name.clone(), value.clone())).collect())
}
