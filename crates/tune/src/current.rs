//! Today's state: the file system of a directory, its properties, and the sector size of its device.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    let (file_system, source) =
        mounted(dir).unwrap_or_else(|| ("a file system of unknown type".into(), String::new()));
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

/// Returns file system type and source of the mount that contains `dir`.
fn mounted(dir: &Path) -> Option<(String, String)> {
    let dir = dir.canonicalize().ok()?;
    let text = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
    best_mount(&text, &dir)
}

fn best_mount(mountinfo: &str, dir: &Path) -> Option<(String, String)> {
    let one = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let point = PathBuf::from(left.split(' ').nth(4)?.replace("\\040", " "));
        let mut right = right.split(' ');
        let found = (right.next()?.to_owned(), right.next()?.replace("\\040", " "));
        dir.starts_with(&point).then_some((point.as_os_str().len(), found))
    };
    // Of several mounts on one mount point, the last one hides the others.
    mountinfo.lines().filter_map(one).max_by_key(|(len, _)| *len).map(|(_, found)| found)
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

/// Returns the physical sector size in bytes of the block device below `dir`, or `None` if there is none.
pub(crate) fn physical_sector(dir: &Path) -> Option<u64> {
    let dev = std::fs::metadata(dir).ok()?.dev();
    let (major, minor) = ((dev >> 8) & 0xfff, (dev & 0xff) | ((dev >> 12) & 0xfff00));
    let base = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let read = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse().ok();
    read(base.join("queue/physical_block_size")).or_else(|| read(base.join("../queue/physical_block_size")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_and_last_mount_wins() {
        let info = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    2 1 0:30 / /srv rw,relatime shared:5 - zfs tank/srv rw\n\
                    3 2 0:31 / /srv/my\\040db rw - zfs tank/my\\040db rw\n\
                    4 1 0:32 / /srvx rw - tmpfs tmpfs rw\n";
        let at = |dir: &str| best_mount(info, Path::new(dir)).unwrap();
        assert_eq!(at("/srv/pg"), ("zfs".into(), "tank/srv".into()));
        assert_eq!(at("/srv/my db/x"), ("zfs".into(), "tank/my db".into()));
        assert_eq!(at("/srvz").0, "ext4");
    }
}
