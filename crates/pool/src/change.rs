//! Changes of datasets and snapshots: each is one command of `zfs` or `zpool`.
//!
//! A [`DatasetChange`] can be shown before it is made, written to a journal, and made with [`ZfsCommands::change`].

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::command::{CommandError, ZfsCommands};

/// One change. Names are full names, which include the pool's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case")]
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
    /// Creates a file system.
    Create {
        /// The dataset.
        dataset: String,
        /// Its local properties and their values.
        properties: Vec<(String, String)>,
    },
    /// Takes a snapshot, also of all datasets below if `recursive`.
    Snapshot {
        /// `DATASET@SNAPSHOT`.
        name: String,
        /// Whether to include all datasets below.
        recursive: bool,
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
        /// Whether to destroy the snapshots with this name of all datasets below too.
        recursive: bool,
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
        let flag = |flag: &str, is_set: &bool| is_set.then(|| flag.to_owned());
        let zfs = |verb: &str, options: Vec<Option<String>>, name: &str| {
            let options = options.into_iter().flatten();
            ("zfs", std::iter::once(verb.to_owned()).chain(options).chain([name.to_owned()]).collect())
        };
        match self {
            DatasetChange::Set { dataset, property, value } => {
                zfs("set", vec![Some(format!("{property}={value}"))], dataset)
            }
            DatasetChange::Inherit { dataset, property, received } => {
                zfs("inherit", vec![flag("-S", received), Some(property.clone())], dataset)
            }
            DatasetChange::Create { dataset, properties } => {
                let options = properties.iter().flat_map(|(property, value)| {
                    [Some("-o".to_owned()), Some(format!("{property}={value}"))]
                });
                zfs("create", options.collect(), dataset)
            }
            DatasetChange::Snapshot { name, recursive } => zfs("snapshot", vec![flag("-r", recursive)], name),
            DatasetChange::Rollback { name } => zfs("rollback", Vec::new(), name),
            DatasetChange::DestroySnapshot { name, recursive } => {
                zfs("destroy", vec![flag("-r", recursive)], name)
            }
            DatasetChange::Sync { pool } => ("zpool", vec!["sync".to_owned(), pool.clone()]),
        }
    }

    /// Whether the command could mean something else: a name without the character that makes it a snapshot would destroy a
    /// dataset, and a name with a leading hyphen would be an option.
    fn is_malformed(&self) -> bool {
        let (name, is_snapshot) = match self {
            DatasetChange::Set { dataset, .. }
            | DatasetChange::Inherit { dataset, .. }
            | DatasetChange::Create { dataset, .. } => (dataset, false),
            DatasetChange::Snapshot { name, .. }
            | DatasetChange::Rollback { name }
            | DatasetChange::DestroySnapshot { name, .. } => (name, true),
            DatasetChange::Sync { pool } => (pool, false),
        };
        let parts: Vec<&str> = name.split('@').collect();
        parts.len() != 1 + usize::from(is_snapshot)
            || parts
                .iter()
                .any(|part| part.is_empty() || part.starts_with('-') || part.contains([',', '%', '#']))
    }
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
        let destroy = DatasetChange::DestroySnapshot { name: name("tank@s"), recursive: true };
        let create =
            DatasetChange::Create { dataset: name("tank/n"), properties: vec![(name("a"), name("b"))] };
        let expected = [
            (set("16K"), "zfs set recordsize=16K tank/db"),
            (inherit(false), "zfs inherit sync 'tank/a b'"),
            (inherit(true), "zfs inherit -S sync 'tank/a b'"),
            (create, "zfs create -o a=b tank/n"),
            (DatasetChange::Snapshot { name: name("tank@s"), recursive: true }, "zfs snapshot -r tank@s"),
            (DatasetChange::Rollback { name: name("tank@s") }, "zfs rollback tank@s"),
            (destroy, "zfs destroy -r tank@s"),
            (DatasetChange::Sync { pool: name("tank") }, "zpool sync tank"),
        ];
        for (change, text) in expected {
            assert_eq!(change.to_string(), text);
            assert!(!change.is_malformed(), "{text}");
            let json = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<DatasetChange>(&json).unwrap(), change);
        }
    }

    #[test]
    fn a_name_that_would_mean_something_else_is_not_run() {
        let commands = ZfsCommands::default();
        for wrong in ["tank/db", "tank/db@", "@s", "tank@a@b", "-r@s", "tank@-s", "tank@a,b", "tank@a%b", ""]
        {
            let destroy = DatasetChange::DestroySnapshot { name: name(wrong), recursive: false };
            let refused = commands.change(&destroy).unwrap_err().to_string();
            assert!(refused.contains("invalid name"), "{wrong}: {refused}");
        }
        let set = DatasetChange::Set { dataset: name("tank@s"), property: name("a"), value: name("b") };
        assert!(commands.change(&set).unwrap_err().to_string().contains("invalid name"));
    }
}
