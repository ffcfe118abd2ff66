//! Reads the properties of datasets and pools.

use std::sync::PoisonError;

use super::error::CommandError;
use super::property::{DatasetProperties, TUNED, parse_each, parse_properties, placed, unknown_property};
use super::runner::{ZFS, ZPOOL, ZfsCommands, check_name, none_if_missing};

impl ZfsCommands {
    /// The properties that Poolwright tunes, of the file systems and volumes: calls `each` with one dataset after the other, because
    /// those of thousands need much memory.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected. `each` may have been called before.
    pub fn for_each_properties(&self, mut each: impl FnMut(DatasetProperties)) -> Result<(), CommandError> {
        self.with_known(TUNED, |names| {
            let arguments =
                ["get", "-Hp", "-t", "filesystem,volume", "-o", "name,property,value,source", names];
            self.zfs(&arguments, |text| parse_each(text, &mut each))
        })
    }

    /// Runs `get` with the properties of this list that the installed `zfs` supports: it prints nothing if one of them is unknown.
    fn with_known<T>(
        &self,
        list: &str,
        mut get: impl FnMut(&str) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let lock = || self.unknown_properties.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let unknown = lock().clone();
            let is_known = |name: &&str| !unknown.iter().any(|other| other == name);
            let names: Vec<&str> = list.split(',').filter(is_known).collect();
            let result = get(&names.join(","));
            let refused = match &result {
                Err(CommandError::Failed { message, .. }) => unknown_property(message),
                _ => None,
            };
            match refused.filter(|name| names.contains(name)) {
                Some(name) => lock().push(name.to_owned()),
                None => return result,
            }
        }
    }

    /// The same properties of one dataset. `None` if it does not exist.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, fails, or prints something unexpected.
    pub fn properties_of(&self, dataset: &str) -> Result<Option<DatasetProperties>, CommandError> {
        self.listed_properties(dataset, TUNED)
    }

    /// As [`ZfsCommands::properties_of`], with the properties that a copy of the dataset elsewhere needs ([`placed`]).
    ///
    /// # Errors
    /// As [`ZfsCommands::properties_of`].
    pub fn placed_properties(&self, dataset: &str) -> Result<Option<DatasetProperties>, CommandError> {
        self.listed_properties(dataset, &placed())
    }

    fn listed_properties(
        &self,
        dataset: &str,
        list: &str,
    ) -> Result<Option<DatasetProperties>, CommandError> {
        if check_name(dataset).is_err() {
            return Ok(None);
        }
        let found = self.with_known(list, |names| {
            let arguments = ["get", "-Hp", "-o", "name,property,value,source", names, dataset];
            self.parsed(&self.invocation(ZFS, &arguments)?, parse_properties)
        });
        Ok(none_if_missing(found)?.into_iter().find(|found| found.dataset == dataset))
    }

    /// The local value of a property of a dataset, including user properties. `None` if it is inherited or not set.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time or fails, or if the dataset does not exist.
    pub fn local_value(&self, dataset: &str, property: &str) -> Result<Option<String>, CommandError> {
        check_name(dataset)?;
        let arguments = ["get", "-Hp", "-s", "local", "-o", "value", property, dataset];
        let text = self.parsed(&self.invocation(ZFS, &arguments)?, |text| Ok(text.trim().to_owned()))?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// A property of a pool, as `zpool get -p` prints it. `-` stands for a value that the pool does not have.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time or fails, or if the pool does not exist.
    pub fn property_of_pool(&self, pool: &str, property: &str) -> Result<String, CommandError> {
        check_name(pool)?;
        let arguments = ["get", "-Hp", "-o", "value", property, pool];
        self.parsed(&self.invocation(ZPOOL, &arguments)?, |text| Ok(text.trim().to_owned()))
    }
}
