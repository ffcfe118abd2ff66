//! The datasets of a trial: one for each role, below one that is marked as the trial's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poolwright_openzfs::ZilStats;
use poolwright_openzfs::property::Settings;
use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use poolwright_zfs::kernel::{CommandError, CommandOptions, DatasetChange, ZfsCommands};

use super::meter::PoolMeter;
use super::{DEADLINE, KernelPoolOptions, MARK, role_of};
use crate::{Counters, Result};

/// Datasets of the kernel that a trial created. They remain when this is dropped: the process that started the trial destroys them.
#[derive(Debug)]
pub struct TrialDatasets {
    commands: ZfsCommands,
    pool: String,
    dataset: String,
    mountpoint: PathBuf,
    /// Role → the name of its dataset.
    names: BTreeMap<String, String>,
    meter: PoolMeter,
}

impl TrialDatasets {
    /// Creates and mounts the dataset of the trial that this process is, and one below it for each role, with these properties. A role is
    /// mounted at its path in the directory of the mounts, by default its name. If a role's path is below another role's, so is its
    /// dataset.
    ///
    /// # Errors
    /// If a dataset cannot be created and mounted, or the pool's counters cannot be read.
    pub fn create(
        options: &KernelPoolOptions,
        settings: &BTreeMap<String, Settings>,
        places: &BTreeMap<String, PathBuf>,
    ) -> Result<TrialDatasets> {
        let commands = ZfsCommands::new(CommandOptions { deadline: DEADLINE, ..CommandOptions::default() });
        let trial = std::process::id();
        let (dataset, mountpoint) = (options.dataset_of(trial), options.mountpoint_of(trial));
        let defaults = supported(&commands, &options.parent, &options.properties)?;
        let mut own = defaults.clone();
        own.insert("mountpoint".to_owned(), mountpoint.to_string_lossy().into_owned());
        own.insert("canmount".to_owned(), "on".to_owned());
        own.insert("quota".to_owned(), options.quota.to_string());
        own.insert(MARK.to_owned(), trial.to_string());
        commands.change(&DatasetChange::Create { dataset: dataset.clone(), settings: own })?;
        let names = names(&dataset, settings.keys(), places);
        let mut by_place: Vec<(&String, &Settings)> = settings.iter().collect();
        by_place.sort_by_key(|(role, _)| place(role, places).components().count());
        for (role, settings) in by_place {
            // Not those of the dataset in which it is mounted.
            let mut all = defaults.clone();
            all.extend(settings.clone());
            let at = mountpoint.join(place(role, places));
            all.insert("mountpoint".to_owned(), at.to_string_lossy().into_owned());
            commands.change(&DatasetChange::Create { dataset: names[role].clone(), settings: all })?;
        }
        let meter = PoolMeter::of(&commands, options.pool(), &dataset)?;
        Ok(TrialDatasets { commands, pool: options.pool().to_owned(), dataset, mountpoint, names, meter })
    }

    /// The name of a role's dataset.
    pub fn name_of(&self, role: &str) -> String {
        self.names.get(role).cloned().unwrap_or_else(|| format!("{}/{role}", self.dataset))
    }

    /// The directory in which the datasets of the roles are mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// The space of each role's dataset.
    ///
    /// # Errors
    /// If the pool cannot be queried.
    pub fn space(&self) -> Result<BTreeMap<String, DatasetSpace>> {
        let tree = self.commands.tree_of(&self.dataset)?;
        let below = format!("{}/", self.dataset);
        let of_role = |of: DatasetSpace| Some((role_of(of.name.strip_prefix(&below)?).to_owned(), of));
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

    /// The counters; those of the vdevs and of the ARC include other users' I/O.
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

/// The path at which a role is mounted, relative to the directory of the mounts.
fn place<'p>(role: &'p str, places: &'p BTreeMap<String, PathBuf>) -> &'p Path {
    places.get(role).map_or(Path::new(role), PathBuf::as_path)
}

/// The names of the roles' datasets: below `dataset`, or below that of the role in whose directory one is mounted. OpenZFS unmounts and
/// destroys datasets in this order.
fn names<'r>(
    dataset: &str,
    roles: impl Iterator<Item = &'r String>,
    places: &BTreeMap<String, PathBuf>,
) -> BTreeMap<String, String> {
    let roles: Vec<&String> = roles.collect();
    let is_below =
        |role: &str, other: &str| role != other && place(role, places).starts_with(place(other, places));
    let name = |role: &String| {
        let mut above: Vec<&str> =
            roles.iter().filter(|other| is_below(role, other)).map(|other| other.as_str()).collect();
        above.sort_by_key(|other| place(other, places).components().count());
        let path: Vec<&str> = [dataset].into_iter().chain(above).chain([role.as_str()]).collect();
        (role.clone(), path.join("/"))
    };
    roles.iter().map(|role| name(role)).collect()
}

/// The properties without those that the release of OpenZFS does not have.
fn supported(commands: &ZfsCommands, parent: &str, properties: &Settings) -> Result<Settings> {
    let missing = || CommandError::NoSuchPool { pool: parent.to_owned() };
    let known = commands.properties_of(parent)?.ok_or_else(missing)?.properties;
    let known = properties.iter().filter(|(name, _)| known.contains_key(*name));
    Ok(known.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dataset_in_the_directory_of_another_one_is_below_it() {
        let roles = ["db", "db1", "db2", "wal"].map(str::to_owned);
        let places = [("db", "db"), ("db1", "db/log"), ("db2", "db/log/old")]
            .map(|(role, place)| (role.to_owned(), PathBuf::from(place)))
            .into();
        let names = names("tank/t", roles.iter(), &places);
        let all: Vec<&str> = names.values().map(String::as_str).collect();
        assert_eq!(all, ["tank/t/db", "tank/t/db/db1", "tank/t/db/db1/db2", "tank/t/wal"]);
        assert_eq!(names.values().map(|name| role_of(name)).collect::<Vec<_>>(), roles);
    }
}
