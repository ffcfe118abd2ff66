//! The work that a plan requires: the properties to set, and the files to rewrite.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poolwright_openzfs::property::{canonical, parse_size};
use poolwright_zfs::kernel::DatasetChange;
use poolwright_zfs::kernel::command::property::{PropertySource, SourcedValue};
use serde::{Deserialize, Serialize};

use crate::rewrite::FileEntry;

/// The properties that files take only when they are written.
pub const OF_FILES: [&str; 5] = ["recordsize", "compression", "checksum", "copies", "dedup"];

/// The least block size that a mount of the user-space engine reports, in bytes.
const MIN_BLOCK: u64 = 4096;

/// Whether a plan is applied or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the recommended settings.
    Apply,
    /// Back to the settings before.
    Undo,
}

impl Direction {
    /// `apply` or `undo`.
    pub fn name(self) -> &'static str {
        match self {
            Direction::Apply => "apply",
            Direction::Undo => "undo",
        }
    }
}

/// A property that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PropertyChange {
    /// The dataset.
    pub dataset: String,
    /// The property.
    pub property: String,
    /// Its value before, with its source.
    pub before: SourcedValue,
    /// Its value afterwards, which is local then.
    pub value: String,
}

impl PropertyChange {
    /// The command that makes the change or takes it back.
    pub fn command(&self, direction: Direction) -> DatasetChange {
        let (dataset, property) = (self.dataset.clone(), self.property.clone());
        match (direction, &self.before.source) {
            (Direction::Apply, _) => DatasetChange::Set { dataset, property, value: self.value.clone() },
            (Direction::Undo, PropertySource::Local) => {
                DatasetChange::Set { dataset, property, value: self.before.value.clone() }
            }
            (Direction::Undo, source) => {
                let received = *source == PropertySource::Received;
                DatasetChange::Inherit { dataset, property, received }
            }
        }
    }

    /// Whether the property has its state before the change, or afterwards.
    pub fn is_done(&self, direction: Direction, present: Option<&SourcedValue>) -> bool {
        let Some(present) = present else { return false };
        match direction {
            Direction::Apply => {
                present.source == PropertySource::Local
                    && is_same(&self.property, &present.value, &self.value)
            }
            Direction::Undo => {
                present.source == self.before.source
                    && is_same(&self.property, &present.value, &self.before.value)
            }
        }
    }
}

/// Whether two values of a property mean the same: `16K` and `16384`.
pub fn is_same(property: &str, a: &str, b: &str) -> bool {
    canonical(property, a) == canonical(property, b)
}

/// A directory that moves into a separate dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relocation {
    /// The directory.
    pub directory: PathBuf,
    /// The new dataset.
    pub dataset: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The properties with which it is created.
    pub settings: BTreeMap<String, String>,
}

/// The work on one dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetWork {
    /// The dataset.
    pub dataset: String,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
    /// The properties that change, in the order of the changes: first those of datasets below, which keep their values.
    pub changes: Vec<PropertyChange>,
    /// The directories that move into separate datasets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relocations: Vec<Relocation>,
    /// Whether `stat` shows the exact size of a file's block. FUSE rounds it down to a power of two.
    pub has_exact_block_sizes: bool,
}

impl DatasetWork {
    /// The value of a property of the dataset after the work, if it changes.
    fn target(&self, property: &str, direction: Direction) -> Option<&str> {
        let change = self.changes.iter().find(|of| of.dataset == self.dataset && of.property == property)?;
        Some(match direction {
            Direction::Apply => &change.value,
            Direction::Undo => &change.before.value,
        })
    }

    /// Whether a file must be rewritten to have all properties of the dataset. `is_rewritten`: this run has done it.
    pub fn needs_rewrite(&self, direction: Direction, file: &FileEntry, is_rewritten: bool) -> bool {
        let recodes = OF_FILES.iter().any(|of| *of != "recordsize" && self.target(of, direction).is_some());
        let is_recoded = is_rewritten || file.identity.length == 0;
        (recodes && !is_recoded) || !self.has_block_size(direction, file)
    }

    /// Whether a file has the block size that it would have if it was written now.
    pub fn has_block_size(&self, direction: Direction, file: &FileEntry) -> bool {
        let target = self.target("recordsize", direction).and_then(|value| parse_size(value).ok());
        target.is_none_or(|recordsize| self.is_block_size(file, recordsize))
    }

    /// Whether a file has the block size that it would have if it was written now to a dataset with this record size, in bytes.
    pub fn is_block_size(&self, file: &FileEntry, recordsize: u64) -> bool {
        let (shown, wanted) = (file.block_size.max(MIN_BLOCK), recordsize.max(MIN_BLOCK));
        // A file of one block has a block of its length, which grows with it.
        let one_block = if self.has_exact_block_sizes { shown } else { recordsize };
        shown == wanted || (file.identity.length <= one_block && shown < wanted)
    }

    /// Whether files must be rewritten or moved at all.
    pub fn rewrites(&self) -> bool {
        !self.relocations.is_empty()
            || OF_FILES.iter().any(|property| self.target(property, Direction::Apply).is_some())
    }
}

/// What applying a plan does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanWork {
    /// The plan's identifier ([`Plan::id`](poolwright_plan::Plan::id)).
    pub plan: String,
    /// The plan's file.
    pub path: PathBuf,
    /// The database's directory.
    pub directory: PathBuf,
    /// The datasets.
    pub datasets: Vec<DatasetWork>,
}

impl PlanWork {
    /// The snapshot of a dataset before its files were rewritten.
    pub fn snapshot_of(&self, dataset: &str) -> String {
        format!("{dataset}@poolwright-{}", self.plan)
    }

    /// The mount points, in which the database may have files open.
    pub fn roots(&self) -> Vec<PathBuf> {
        self.datasets.iter().map(|of| of.mountpoint.clone()).collect()
    }

    /// The name of the hidden directory for directories that move into separate datasets, and back.
    pub fn moving_name(&self) -> String {
        format!(".poolwright-{}-moving", self.plan)
    }

    /// The paths of a dataset that do not belong to the files to rewrite: the hidden directories, and directories that move.
    pub fn excepted(&self, of: &DatasetWork) -> Vec<PathBuf> {
        let hidden =
            [self.copies_name(Direction::Apply), self.copies_name(Direction::Undo), self.moving_name()];
        let moved = of.relocations.iter().map(|moves| moves.directory.clone());
        hidden.iter().map(|name| of.mountpoint.join(name)).chain(moved).collect()
    }

    /// The name of the directory with the copies. Copies of one direction have block sizes that are wrong for the other.
    pub fn copies_name(&self, direction: Direction) -> String {
        let suffix = match direction {
            Direction::Apply => "",
            Direction::Undo => "-undo",
        };
        format!(".poolwright-{}{suffix}", self.plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::FileIdentity;

    fn change(property: &str, before: &str, source: PropertySource, value: &str) -> PropertyChange {
        let before = SourcedValue { value: before.to_owned(), source };
        PropertyChange {
            dataset: "tank/db".to_owned(),
            property: property.to_owned(),
            before,
            value: value.to_owned(),
        }
    }

    fn file(length: u64, block_size: u64) -> FileEntry {
        let identity = FileIdentity { inode: 1, length, modified_ns: 0, changed_ns: 0 };
        FileEntry { paths: Vec::new(), identity, links: 1, block_size, allocated: length, owner: (0, 0) }
    }

    fn work(changes: Vec<PropertyChange>) -> DatasetWork {
        DatasetWork {
            dataset: "tank/db".to_owned(),
            mountpoint: "/db".into(),
            changes,
            relocations: Vec::new(),
            has_exact_block_sizes: true,
        }
    }

    #[test]
    fn undo_restores_value_and_source() {
        let undo =
            |source| change("recordsize", "131072", source, "16K").command(Direction::Undo).to_string();
        assert_eq!(undo(PropertySource::Local), "zfs set recordsize=131072 tank/db");
        assert_eq!(undo(PropertySource::Default), "zfs inherit recordsize tank/db");
        assert_eq!(undo(PropertySource::Inherited("tank".to_owned())), "zfs inherit recordsize tank/db");
        assert_eq!(undo(PropertySource::Received), "zfs inherit -S recordsize tank/db");
        let of = change("recordsize", "131072", PropertySource::Default, "16K");
        assert_eq!(of.command(Direction::Apply).to_string(), "zfs set recordsize=16K tank/db");
        let present = |value: &str, source| SourcedValue { value: value.to_owned(), source };
        assert!(of.is_done(Direction::Apply, Some(&present("16384", PropertySource::Local))));
        assert!(!of.is_done(Direction::Apply, Some(&present("16384", PropertySource::Default))));
        assert!(!of.is_done(Direction::Undo, Some(&present("131072", PropertySource::Local))));
        assert!(of.is_done(Direction::Undo, Some(&of.before)));
        assert!(of.is_done(Direction::Undo, Some(&present("128K", PropertySource::Default))));
        let quota = change("quota", "0", PropertySource::Default, "1M");
        assert!(quota.is_done(Direction::Apply, Some(&present("1048576", PropertySource::Local))));
        assert!(quota.is_done(Direction::Undo, Some(&present("none", PropertySource::Default))));
    }

    #[test]
    fn files_with_another_block_size_are_rewritten() {
        let sizes = work(vec![change("recordsize", "131072", PropertySource::Default, "16K")]);
        let needs = |length, block| sizes.needs_rewrite(Direction::Apply, &file(length, block), false);
        assert!(needs(1 << 20, 128 << 10) && needs(100 << 10, 100 << 10));
        assert!(!needs(1 << 20, 16 << 10) && !needs(8 << 10, 8 << 10) && !needs(0, 512));
        assert!(
            needs(8 << 10, 128 << 10) && needs(0, 128 << 10),
            "a file that was truncated keeps its block"
        );
        let back = |length, block| sizes.needs_rewrite(Direction::Undo, &file(length, block), false);
        assert!(back(1 << 20, 16 << 10) && !back(1 << 20, 128 << 10) && !back(8 << 10, 8 << 10));
        assert!(back(24 << 10, 16 << 10), "a file of several blocks keeps their size when it grows");
        assert!(sizes.rewrites());
    }

    #[test]
    fn another_codec_rewrites_every_file_once() {
        let codec = work(vec![change("compression", "lz4", PropertySource::Local, "zstd")]);
        assert!(codec.needs_rewrite(Direction::Apply, &file(100, 512), false));
        assert!(!codec.needs_rewrite(Direction::Apply, &file(100, 512), true));
        assert!(!codec.needs_rewrite(Direction::Apply, &file(0, 512), false));
        let cache = work(vec![change("primarycache", "all", PropertySource::Local, "metadata")]);
        assert!(
            !cache.needs_rewrite(Direction::Apply, &file(1 << 20, 128 << 10), false) && !cache.rewrites()
        );
    }
}
