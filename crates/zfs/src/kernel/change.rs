//! Changes of datasets and snapshots: each is one command of `zfs` or `zpool`.
//!
//! A [`DatasetChange`] can be shown before it is made, and is made with [`ZfsCommands::change`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::kernel::command::{CommandError, ZfsCommands};

/// One change. Names are full names, which include the pool's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatasetChange {
    /// Sets a property of a dataset.
    Set {
        /// The dataset.
        dataset: String,
        /// The property.
        property: String,
        /// The value, in the spelling of `zfs set`.
        value: String,
    },
    /// Removes a dataset's local value of a property.
    Inherit {
        /// The dataset.
        dataset: String,
        /// The property.
        property: String,
        /// Whether to return to the value that was received with a stream (`-S`).
        received: bool,
    },
    /// Creates a dataset.
    Create {
        /// The dataset. Its parent exists.
        dataset: String,
        /// Its own properties, in the spelling of `zfs create -o`; the others are inherited.
        settings: BTreeMap<String, String>,
    },
    /// Gives a dataset another name in its pool.
    Rename {
        /// The dataset.
        dataset: String,
        /// The new name. Its parent exists.
        to: String,
    },
    /// Mounts a dataset on its property `mountpoint`.
    Mount {
        /// The dataset.
        dataset: String,
    },
    /// Unmounts a dataset. Refused if a program uses it.
    Unmount {
        /// The dataset.
        dataset: String,
    },
    /// Destroys a dataset and the datasets and snapshots below it. Never the root dataset of a pool.
    DestroyDataset {
        /// The dataset.
        dataset: String,
    },
    /// Destroys a dataset that has neither snapshots nor datasets below it; `zfs` refuses others. Never the root dataset of a pool.
    DestroyLeaf {
        /// The dataset.
        dataset: String,
    },
    /// Takes a snapshot.
    Snapshot {
        /// `DATASET@SNAPSHOT`.
        name: String,
    },
    /// Takes snapshots of several datasets of one pool in one transaction group: all of them, or none.
    SnapshotAll {
        /// `DATASET@SNAPSHOT` for each dataset; one or more.
        names: Vec<String>,
    },
    /// Rolls a dataset back to its latest snapshot. `zfs` refuses it if there is a newer one.
    Rollback {
        /// `DATASET@SNAPSHOT`.
        name: String,
    },
    /// Destroys a snapshot. `zfs` refuses it if the snapshot has clones or is held.
    DestroySnapshot {
        /// `DATASET@SNAPSHOT`.
        name: String,
    },
    /// Makes a bookmark of a snapshot: it stays when the snapshot is destroyed, and a stream can be incremental from it.
    Bookmark {
        /// `DATASET@SNAPSHOT`.
        snapshot: String,
        /// `DATASET#BOOKMARK`, of the same dataset.
        name: String,
    },
    /// Destroys a bookmark.
    DestroyBookmark {
        /// `DATASET#BOOKMARK`.
        name: String,
    },
    /// Waits until all earlier changes of a pool are on disk.
    Sync {
        /// The pool.
        pool: String,
    },
}

impl DatasetChange {
    /// The program, `zfs` or `zpool`, and its arguments.
    pub fn command(&self) -> (&'static str, Vec<String>) {
        let zfs = |words: &[&str]| ("zfs", words.iter().map(|word| (*word).to_owned()).collect());
        match self {
            DatasetChange::Set { dataset, property, value } => {
                zfs(&["set", &format!("{property}={value}"), dataset])
            }
            DatasetChange::Inherit { dataset, property, received: true } => {
                zfs(&["inherit", "-S", property, dataset])
            }
            DatasetChange::Inherit { dataset, property, received: false } => {
                zfs(&["inherit", property, dataset])
            }
            DatasetChange::Create { dataset, settings } => {
                let mut arguments = vec!["create".to_owned()];
                for (property, value) in settings {
                    arguments.extend(["-o".to_owned(), format!("{property}={value}")]);
                }
                arguments.push(dataset.clone());
                ("zfs", arguments)
            }
            DatasetChange::Rename { dataset, to } => zfs(&["rename", dataset, to]),
            DatasetChange::Mount { dataset } => zfs(&["mount", dataset]),
            DatasetChange::Unmount { dataset } => zfs(&["unmount", dataset]),
            DatasetChange::DestroyDataset { dataset } => zfs(&["destroy", "-r", dataset]),
            DatasetChange::DestroyLeaf { dataset } => zfs(&["destroy", dataset]),
            DatasetChange::Snapshot { name } => zfs(&["snapshot", name]),
            DatasetChange::SnapshotAll { names } => (
                "zfs",
                std::iter::once("snapshot")
                    .chain(names.iter().map(String::as_str))
                    .map(str::to_owned)
                    .collect(),
            ),
            DatasetChange::Rollback { name } => zfs(&["rollback", name]),
            DatasetChange::DestroySnapshot { name } => zfs(&["destroy", name]),
            DatasetChange::Bookmark { snapshot, name } => zfs(&["bookmark", snapshot, name]),
            DatasetChange::DestroyBookmark { name } => zfs(&["destroy", name]),
            DatasetChange::Sync { pool } => ("zpool", vec!["sync".to_owned(), pool.clone()]),
        }
    }

    /// Whether the command could mean something else: a name without the character that makes it a snapshot would destroy a
    /// dataset, a dataset without a parent is a pool's root, and a name with a leading hyphen would be an option.
    ///
    /// `zfs snapshot` takes snapshots in several pools one after the other, and fails if a dataset is named twice.
    fn is_malformed(&self) -> bool {
        let (name, is_snapshot) = match self {
            DatasetChange::Set { dataset, .. }
            | DatasetChange::Inherit { dataset, .. }
            | DatasetChange::Mount { dataset }
            | DatasetChange::Unmount { dataset }
            | DatasetChange::Create { dataset, .. } => (dataset, false),
            DatasetChange::DestroyDataset { dataset } | DatasetChange::DestroyLeaf { dataset } => {
                return !dataset.contains('/') || is_malformed_name(dataset, false);
            }
            DatasetChange::SnapshotAll { names } => {
                let pool = |name: &String| name.split(['/', '@']).next().unwrap_or_default().to_owned();
                let distinct: BTreeSet<&String> = names.iter().collect();
                return names.is_empty()
                    || distinct.len() != names.len()
                    || names.iter().any(|name| pool(name) != pool(&names[0]))
                    || names.iter().any(|name| is_malformed_name(name, true));
            }
            DatasetChange::Bookmark { snapshot, name } => {
                return is_malformed_name(snapshot, true) || is_malformed_bookmark(name);
            }
            DatasetChange::DestroyBookmark { name } => return is_malformed_bookmark(name),
            DatasetChange::Rename { dataset, to } => {
                return [dataset, to]
                    .iter()
                    .any(|name| !name.contains('/') || is_malformed_name(name, false));
            }
            DatasetChange::Snapshot { name }
            | DatasetChange::Rollback { name }
            | DatasetChange::DestroySnapshot { name } => (name, true),
            DatasetChange::Sync { pool } => (pool, false),
        };
        is_malformed_name(name, is_snapshot)
    }
}

fn is_malformed_bookmark(name: &str) -> bool {
    match name.split_once('#') {
        Some((dataset, bookmark)) => [dataset, bookmark].iter().any(|part| is_malformed_name(part, false)),
        None => true,
    }
}

fn is_malformed_name(name: &str, is_snapshot: bool) -> bool {
    let parts: Vec<&str> = name.split('@').collect();
    parts.len() != 1 + usize::from(is_snapshot)
        || parts.iter().any(|part| part.is_empty() || part.starts_with('-') || part.contains([',', '%', '#']))
}

/// The command line.
impl fmt::Display for DatasetChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, arguments) = self.command();
        f.write_str(program)?;
        arguments.iter().try_for_each(|argument| match argument.contains(' ') {
            true => write!(f, " '{argument}'"),
            false => write!(f, " {argument}"),
        })
    }
}

impl ZfsCommands {
    /// Makes a change.
    ///
    /// # Errors
    /// If the command cannot be run, does not end in time, or fails; [`CommandError::Failed`] without running it if the name
    /// is malformed.
    pub fn change(&self, change: &DatasetChange) -> Result<(), CommandError> {
        if change.is_malformed() {
            return Err(CommandError::Failed {
                command: change.to_string(),
                code: None,
                message: "invalid name".to_owned(),
            });
        }
        let (program, arguments) = change.command();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.run_change(program, &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn command_lines() {
        let set = |value: &str| DatasetChange::Set {
            dataset: name("tank/db"),
            property: name("recordsize"),
            value: name(value),
        };
        let inherit =
            |received| DatasetChange::Inherit { dataset: name("tank/a b"), property: name("sync"), received };
        let destroy = DatasetChange::DestroySnapshot { name: name("tank@s") };
        let settings = [("recordsize", "8K"), ("mountpoint", "/mnt/a")].map(|(k, v)| (name(k), name(v)));
        let create = DatasetChange::Create { dataset: name("tank/a"), settings: settings.into() };
        let expected = [
            (set("16K"), "zfs set recordsize=16K tank/db"),
            (inherit(false), "zfs inherit sync 'tank/a b'"),
            (inherit(true), "zfs inherit -S sync 'tank/a b'"),
            (DatasetChange::Snapshot { name: name("tank@s") }, "zfs snapshot tank@s"),
            (
                DatasetChange::SnapshotAll { names: vec![name("tank/a@s"), name("tank/b@s")] },
                "zfs snapshot tank/a@s tank/b@s",
            ),
            (DatasetChange::Rollback { name: name("tank@s") }, "zfs rollback tank@s"),
            (destroy, "zfs destroy tank@s"),
            (create, "zfs create -o mountpoint=/mnt/a -o recordsize=8K tank/a"),
            (DatasetChange::DestroyDataset { dataset: name("tank/a") }, "zfs destroy -r tank/a"),
            (DatasetChange::DestroyLeaf { dataset: name("tank/a") }, "zfs destroy tank/a"),
            (DatasetChange::Mount { dataset: name("tank/a") }, "zfs mount tank/a"),
            (
                DatasetChange::Rename { dataset: name("tank/a"), to: name("tank/b") },
                "zfs rename tank/a tank/b",
            ),
            (DatasetChange::Sync { pool: name("tank") }, "zpool sync tank"),
            (
                DatasetChange::Bookmark { snapshot: name("tank/a@s"), name: name("tank/a#b") },
                "zfs bookmark tank/a@s tank/a#b",
            ),
            (DatasetChange::DestroyBookmark { name: name("tank/a#b") }, "zfs destroy tank/a#b"),
        ];
        for (change, text) in expected {
            assert_eq!(change.to_string(), text);
            assert!(!change.is_malformed(), "{text}");
        }
    }

    #[test]
    fn a_name_that_would_mean_something_else_is_not_run() {
        let commands = ZfsCommands::default();
        for wrong in ["tank/db", "tank/db@", "@s", "tank@a@b", "-r@s", "tank@-s", "tank@a,b", "tank@a%b", ""]
        {
            let destroy = DatasetChange::DestroySnapshot { name: name(wrong) };
            let refused = commands.change(&destroy).unwrap_err().to_string();
            assert!(refused.contains("invalid name"), "{wrong}: {refused}");
        }
        for wrong in ["tank/a", "tank/a@s", "tank/a#", "#b", "tank/a#-b", "-r#b", "tank/a#b#c", "tank/a@s#b"]
        {
            let destroy = DatasetChange::DestroyBookmark { name: name(wrong) };
            let refused = commands.change(&destroy).unwrap_err().to_string();
            assert!(refused.contains("invalid name"), "{wrong}: {refused}");
        }
        for wrong in ["tank", "tank@s", "tank/a@s", "-r/a", ""] {
            let destroy = DatasetChange::DestroyDataset { dataset: name(wrong) };
            let refused = commands.change(&destroy).unwrap_err().to_string();
            assert!(refused.contains("invalid name"), "{wrong}: {refused}");
        }
        for wrong in [&[][..], &["tank/a@s", "pool/a@s"], &["tank/a@s", "tank/a@s"], &["tank/a@s", "tank/b"]]
        {
            let names = wrong.iter().map(|text| name(text)).collect();
            let refused = commands.change(&DatasetChange::SnapshotAll { names }).unwrap_err().to_string();
            assert!(refused.contains("invalid name"), "{wrong:?}: {refused}");
        }
        let set = DatasetChange::Set { dataset: name("tank@s"), property: name("a"), value: name("b") };
        assert!(commands.change(&set).unwrap_err().to_string().contains("invalid name"));
    }
}
