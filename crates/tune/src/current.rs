//! Today's state: the file system of a directory, its properties, and the sector size of its device.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_base::mountinfo::{self, MountEntry, UNKNOWN_FILE_SYSTEM};
use poolwright_base::{regular, volume};
use poolwright_estimate::Layout;
use poolwright_openzfs::property::{self, Settings};
use poolwright_zfs::kernel::command::property::SourcedValue;
use poolwright_zfs::kernel::command::version::parse_release;
use poolwright_zfs::kernel::command::{CommandError, CommandOptions, ZfsCommands};

use crate::pool_layout::layout_of_pool;
use poolwright_plan::CurrentSource;

/// The file system of a directory and its settings.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    /// The type of the file system; `zvol` for a volume.
    pub file_system: String,
    pub dataset: Option<String>,
    /// The properties that the plan compares.
    pub settings: Settings,
    /// All properties of the dataset that Poolwright reads; empty without a dataset.
    all: Settings,
    pub source: CurrentSource,
    pub ashift: Option<u8>,
    /// The layout of the data vdevs of a volume's pool; `None` if it is unknown, and for file systems.
    pub layout: Option<Layout>,
    /// Whether a kernel's OpenZFS has the dataset.
    is_of_kernel: bool,
}

/// The properties that the plan compares: of a file system, and of a volume.
const COMPARED: &[&str] = &["recordsize", "compression", "logbias", "primarycache"];
const COMPARED_OF_VOLUMES: &[&str] = &["volblocksize", "compression", "logbias", "primarycache"];

/// What there is at a path: a mounted file system, or a block device.
struct Location {
    /// As in [`Current::file_system`].
    kind: String,
    /// The name of the dataset, if it is one; otherwise the device.
    source: String,
    compared: &'static [&'static str],
    is_of_kernel: bool,
    state: Option<Result<DatasetState, String>>,
}

impl Location {
    fn at(path: &Path) -> Location {
        if regular::is_block_device(path) { Location::of_device(path) } else { Location::of_directory(path) }
    }

    fn of_device(path: &Path) -> Location {
        let volume = volume::volume_at(path);
        let read = |volume: &String| {
            DatasetState::read(volume, CommandOptions::default()).map_err(|why| why.to_string())
        };
        Location {
            kind: if volume.is_some() { "zvol" } else { "a block device" }.to_owned(),
            compared: COMPARED_OF_VOLUMES,
            is_of_kernel: volume.is_some(),
            state: volume.as_ref().map(read),
            source: volume.unwrap_or_default(),
        }
    }

    fn of_directory(path: &Path) -> Location {
        let mount = mounted(path);
        Location {
            kind: mount.as_ref().map_or(UNKNOWN_FILE_SYSTEM, |mount| &mount.file_system).to_owned(),
            source: mount.as_ref().map_or_else(String::new, |of| of.source.to_string_lossy().into_owned()),
            compared: COMPARED,
            is_of_kernel: mount.as_ref().is_some_and(poolwright_zfs::datasets::is_kernel),
            state: mount.as_ref().and_then(state_of),
        }
    }
}

/// Inspects a directory or a volume's device. `stated` contains values that the user states as today's.
pub(crate) fn detect(path: &Path, stated: &Settings) -> Current {
    let Location { kind: file_system, source, compared, is_of_kernel, state } = Location::at(path);
    let is_volume = compared == COMPARED_OF_VOLUMES;
    let is_compared = |name: &str| compared.contains(&name);
    let default = |name: &&str| Some(((*name).to_owned(), property::default_of(name)?.to_owned()));
    let defaults: Settings = compared.iter().filter_map(default).collect();
    let subject = if is_volume { "this is" } else { "the directory is on" };
    let mut current = Current {
        file_system: file_system.clone(),
        dataset: None,
        settings: defaults,
        all: Settings::new(),
        source: CurrentSource::ZfsDefaults { why: format!("{subject} {file_system}") },
        ashift: None,
        layout: None,
        is_of_kernel,
    };
    if let Some(state) = state {
        match state {
            Ok(DatasetState { properties, ashift, layout }) => {
                let compared = properties.iter().filter(|(name, _)| is_compared(name));
                current.settings.extend(compared.map(|(name, value)| (name.clone(), value.clone())));
                // Trials need another value than the default, which OpenZFS before 2.3 does not have.
                let direct = properties.get_key_value("direct").filter(|(_, value)| *value != "standard");
                current.settings.extend(direct.map(|(name, value)| (name.clone(), value.clone())));
                current.source = CurrentSource::ZfsGet { dataset: source.clone() };
                (current.all, current.ashift) = (properties, ashift);
                current.layout = layout.filter(|_| is_volume);
                current.dataset = Some(source);
            }
            Err(why) => {
                current.source = CurrentSource::ZfsDefaults {
                    why: format!("the properties of {source} cannot be read: {why}"),
                };
            }
        }
    }
    if !stated.is_empty() {
        current.settings.extend(stated.clone());
        if current.dataset.is_none() {
            current.source = CurrentSource::ZfsDefaults {
                why: format!("{subject} {file_system}; the values given by the user are taken as today's"),
            };
        }
    }
    current
}

impl Current {
    /// The release of OpenZFS that has the dataset, major and minor number, from the version of the kernel's module; `None` if no kernel's has
    /// it.
    pub fn release(&self, module: Option<&str>) -> Option<(u32, u32)> {
        let release = parse_release(module.filter(|_| self.is_of_kernel)?)?;
        Some((release.major, release.minor))
    }

    /// Returns today's value of a property that the plan does not compare: the value of the dataset, or
    /// OpenZFS's default if there is no dataset.
    pub fn value(&self, property: &str) -> Option<String> {
        if let Some(known) = self.settings.get(property) {
            return Some(known.clone());
        }
        match &self.dataset {
            Some(_) => self.all.get(property).cloned(),
            None => property::default_of(property).or_else(|| other_default(property)).map(str::to_owned),
        }
    }
}

/// Returns the defaults of properties that the engine does not have.
fn other_default(property: &str) -> Option<&'static str> {
    (property == "atime").then_some("on")
}

/// The mount that contains `dir`.
fn mounted(dir: &Path) -> Option<MountEntry> {
    let dir = dir.canonicalize().ok()?;
    mountinfo::containing(&mountinfo::read().ok()?, &dir).cloned()
}

/// The state of the dataset that is mounted; `None` if the mount is of another file system.
fn state_of(mount: &MountEntry) -> Option<Result<DatasetState, String>> {
    let dataset = mount.source.to_string_lossy();
    if poolwright_zfs::datasets::is_kernel(mount) {
        return Some(DatasetState::read(&dataset, CommandOptions::default()).map_err(|why| why.to_string()));
    }
    let admin = poolwright_zfs::datasets::of_mount(mount)?;
    let state = |found| DatasetState { properties: settings(found), ashift: None, layout: None };
    Some(admin.properties(&dataset).map(state).map_err(|why| why.to_string()))
}

/// The properties of a dataset.
struct DatasetState {
    properties: Settings,
    ashift: Option<u8>,
    layout: Option<Layout>,
}

impl DatasetState {
    /// Asks the kernel by `zfs` and `zpool`, with a time limit: they hang if the pool is suspended.
    fn read(dataset: &str, options: CommandOptions) -> Result<DatasetState, CommandError> {
        let pool = dataset.split('/').next().unwrap_or(dataset);
        let commands = ZfsCommands::new(options);
        let found = commands.properties_of(dataset)?;
        let found = found.ok_or_else(|| CommandError::NoSuchPool { pool: dataset.to_owned() })?;
        let properties = settings(found.properties);
        let ashift = commands.property_of_pool(pool, "ashift").ok().and_then(|value| value.parse().ok());
        let pools = commands.status().unwrap_or_default();
        let layout = pools.iter().find(|of| of.name == pool).and_then(layout_of_pool);
        Ok(DatasetState { properties, ashift: ashift.filter(|ashift| *ashift > 0), layout })
    }
}

fn settings(properties: BTreeMap<String, SourcedValue>) -> Settings {
    let spelled = |(name, value): (String, SourcedValue)| {
        let value = poolwright_plan::spelled_setting(&name, &value.value);
        (name, value)
    };
    properties.into_iter().map(spelled).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;
    use std::time::Duration;

    use super::*;

    /// Programs in `dir` that run these lines of shell.
    fn programs(dir: &Path, zfs: &str, zpool: &str) -> CommandOptions {
        let program = |name: &str, lines: &str| -> Option<PathBuf> {
            let path = dir.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            Some(path)
        };
        CommandOptions {
            zfs: program("zfs", zfs),
            zpool: program("zpool", zpool),
            device: None,
            deadline: Duration::from_secs(60),
            ..CommandOptions::default()
        }
    }

    #[test]
    fn properties_have_the_spelling_of_settings() {
        let dir = tempfile::tempdir().unwrap();
        let zfs =
            "printf 'tank/pg\\t%s\\t%s\\tlocal\\n' recordsize 16384 compression zstd-3 copies 2 atime off";
        let state = DatasetState::read("tank/pg", programs(dir.path(), zfs, "echo 12")).unwrap();
        let expected = [("atime", "off"), ("compression", "zstd-3"), ("copies", "2"), ("recordsize", "16K")];
        let expected: Settings = expected.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!((state.properties, state.ashift), (expected, Some(12)));
        // A pool whose vdevs differ has no ashift.
        let state = DatasetState::read("tank/pg", programs(dir.path(), zfs, "echo 0")).unwrap();
        assert_eq!(state.ashift, None);
    }

    #[test]
    fn a_pool_that_hangs_ends_no_longer_than_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let mut options = programs(dir.path(), "sleep 3600", "sleep 3600");
        options.deadline = Duration::from_millis(300);
        let read = DatasetState::read("tank/pg", options);
        assert!(matches!(read, Err(CommandError::TimedOut { .. })), "{:?}", read.err());
    }

    #[test]
    fn every_property_of_a_plan_is_read_from_the_kernels_datasets() {
        use poolwright_openzfs::property::{PROPERTIES, is_tuned};
        use poolwright_zfs::kernel::command::property::{TUNED, placed};
        for property in PROPERTIES.iter().filter(|of| is_tuned(of.name)) {
            for list in [TUNED, &placed()] {
                assert!(
                    list.split(',').any(|name| name == property.name),
                    "{} is not in {list}",
                    property.name
                );
            }
        }
    }
}
