//! Today's state: the file system of a directory, its properties, and the sector size of its device.

use std::path::Path;
use std::process::Command;

use poolwright_host::mountinfo::{self, MountEntry, UNKNOWN_FILE_SYSTEM};
use poolwright_openzfs::property::{self, Settings};

use crate::plan::CurrentSource;

/// The file system of a directory and its settings.
#[derive(Clone, Debug)]
pub(crate) struct Current {
    pub file_system: String,
    pub dataset: Option<String>,
    pub settings: Settings,
    pub source: CurrentSource,
    pub ashift: Option<u8>,
}

/// The properties that the plan compares.
const COMPARED: &[&str] = &["recordsize", "compression", "logbias", "primarycache"];

/// Inspects `dir`. `stated` contains values that the user states as today's.
pub(crate) fn detect(dir: &Path, stated: &Settings) -> Current {
    let (file_system, source) = match mounted(dir) {
        Some(mount) => (mount.file_system, mount.source.to_string_lossy().into_owned()),
        None => (UNKNOWN_FILE_SYSTEM.to_owned(), String::new()),
    };
    let defaults: Settings =
        property::defaults().into_iter().filter(|(name, _)| COMPARED.contains(&name.as_str())).collect();
    let mut current = Current {
        file_system: file_system.clone(),
        dataset: None,
        settings: defaults,
        source: CurrentSource::ZfsDefaults { why: format!("the directory is on {file_system}") },
        ashift: None,
    };
    if file_system == "zfs" {
        match zfs_get(&source, COMPARED) {
            Some(settings) => {
                current.settings.extend(settings);
                current.source = CurrentSource::ZfsGet { dataset: source.clone() };
                current.ashift = pool_ashift(&source);
                current.dataset = Some(source);
            }
            None => {
                current.source = CurrentSource::ZfsDefaults {
                    why: format!("`zfs get` failed for {source}; is zfs in the PATH?"),
                };
            }
        }
    }
    if !stated.is_empty() {
        current.settings.extend(stated.clone());
        if current.dataset.is_none() {
            current.source = CurrentSource::ZfsDefaults {
                why: format!(
                    "the directory is on {file_system}; the values given by the user are taken as today's"
                ),
            };
        }
    }
    current
}

impl Current {
    /// Returns today's value of a property that the plan does not compare: the value of the dataset, or
    /// OpenZFS's default if there is no dataset.
    pub fn value(&self, property: &str) -> Option<String> {
        if let Some(known) = self.settings.get(property) {
            return Some(known.clone());
        }
        match &self.dataset {
            Some(dataset) => zfs_get(dataset, &[property])?.remove(property),
            None => property::defaults().remove(property).or_else(|| other_default(property)),
        }
    }
}

/// Returns the defaults of properties that the engine does not have.
fn other_default(property: &str) -> Option<String> {
    (property == "atime").then(|| "on".to_owned())
}

/// The mount that contains `dir`.
fn mounted(dir: &Path) -> Option<MountEntry> {
    let dir = dir.canonicalize().ok()?;
    mountinfo::containing(&mountinfo::read().ok()?, &dir).cloned()
}

fn output(program: &str, args: &[&str]) -> Option<String> {
    let out = Command::new(program).args(args).output().ok()?;
    out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
}

fn zfs_get(dataset: &str, properties: &[&str]) -> Option<Settings> {
    let text = output("zfs", &["get", "-H", "-o", "property,value", &properties.join(","), dataset])?;
    let pairs =
        text.lines().filter_map(|l| l.split_once('\t')).map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
    Some(pairs.collect())
}

fn pool_ashift(dataset: &str) -> Option<u8> {
    let pool = dataset.split('/').next()?;
    output("zpool", &["get", "-Hp", "-o", "value", "ashift", pool])?.trim().parse().ok().filter(|a| *a > 0)
}
