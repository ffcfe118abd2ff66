//! The failure of a request.

use serde::{Deserialize, Serialize};

use crate::user::FileFault;

/// The failure of a request, as sent through the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// A Linux errno. `EBUSY`: refused because a program uses the object; `ENOENT`: the object does not exist.
    pub errno: i32,
    /// The message: operation, object and cause. A line that begins with `hint: ` says what to do.
    pub message: String,
    /// The kind, if the client can offer a remedy for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<FaultKind>>,
}

/// A fault or an error for which a client can name its own command or option as the remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The pool has no such dataset or snapshot.
    NotFound {
        /// The pool.
        pool: String,
    },
    /// The parent of a new dataset does not exist.
    NoParent,
    /// Snapshots or datasets are below the dataset to destroy.
    HasDependents {
        /// Their number.
        count: usize,
    },
    /// A snapshot to destroy has a clone.
    HasClone {
        /// The clone.
        clone: String,
    },
    /// The dataset to destroy is the pool's root dataset.
    RootDataset {
        /// The pool.
        pool: String,
    },
    /// The dataset has snapshots that are newer than the one to roll back to.
    NewerSnapshots {
        /// The snapshot to roll back to.
        snapshot: String,
    },
    /// The property is not inheritable.
    NotInheritable {
        /// The property.
        property: String,
        /// The dataset.
        dataset: String,
    },
    /// A scrub is running.
    ScrubRunning,
    /// A file of the pool has changed since the pool was opened.
    ChangedFile {
        /// The pool.
        pool: String,
        /// The file and the change.
        file: FileFault,
    },
    /// The files of the dataset may have ACLs, which a mount does not enforce.
    UnenforcedAcls {
        /// The dataset.
        dataset: String,
    },
    /// The mount point is a system directory or not empty.
    HiddenFiles,
    /// Something is mounted on the mount point.
    MountedOver,
    /// The mount point is the working directory of the caller or of one of its ancestors.
    WorkingDirectory,
    /// A part of the mounts was unmounted before one of them turned out to be in use.
    PartlyUnmounted,
    /// The label of a pool's file says that another host has the pool open.
    NotExported,
    /// The registry has no entry for the pool.
    UnknownPool {
        /// The pool.
        pool: String,
    },
    /// Files of the pool do not exist.
    MissingFiles {
        /// The pool.
        pool: String,
        /// Whether the pool has files that exist.
        some_remain: bool,
    },
    /// A new pool has the name of a registered one.
    NameTaken {
        /// The pool.
        pool: String,
    },
    /// The registry has another pool of the name of the one to import.
    OtherRegistered {
        /// The pool.
        pool: String,
    },
    /// The pool to destroy is mounted.
    MountedPool {
        /// The pool.
        pool: String,
    },
    /// The pool to import was destroyed.
    DestroyedPool {
        /// One of its files.
        file: std::path::PathBuf,
    },
    /// A kind that a later version has added.
    #[serde(other)]
    Unknown,
}

impl Fault {
    /// A fault with this errno.
    pub fn new(errno: i32, message: impl Into<String>) -> Fault {
        Fault { errno, message: message.into(), kind: None }
    }

    /// The fault with its kind.
    pub fn of_kind(self, kind: FaultKind) -> Fault {
        Fault { kind: Some(Box::new(kind)), ..self }
    }

    /// The message with a hint for the fault's kind.
    pub fn text(&self, remedy: impl Fn(&FaultKind) -> Option<String>) -> String {
        with_hint(self.message.clone(), self.kind.as_deref().and_then(remedy))
    }

    /// An invalid request.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }

    /// The answer to every request while the owner is closing its pool: the client should retry when that process has ended.
    pub fn ending(pool: &str, pid: u32) -> Fault {
        Fault::new(
            libc::ESHUTDOWN,
            format!(
                "process {pid} is closing {pool} and accepts no more requests\nhint: try again when it has ended"
            ),
        )
    }

    /// Whether the request was refused because a program uses the object.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// Whether the request was refused for safety: the object is in use, a mount point must not be covered, or a file must not
    /// be overwritten.
    pub fn is_refusal(&self) -> bool {
        matches!(self.errno, libc::EBUSY | libc::EPERM | libc::ENOTEMPTY | libc::EROFS)
    }

    /// Whether the owner is closing the pool: see [`Fault::ending`].
    pub fn is_ending(&self) -> bool {
        self.errno == libc::ESHUTDOWN
    }
}

/// Adds the hint as a line of its own.
pub(crate) fn with_hint(message: String, hint: Option<String>) -> String {
    match hint {
        Some(hint) => format!("{message}\nhint: {hint}"),
        None => message,
    }
}

impl From<poolwright_openzfs::Error> for Fault {
    fn from(error: poolwright_openzfs::Error) -> Fault {
        use poolwright_openzfs::Error as E;
        let errno = match &error {
            E::Locked(_) | E::Busy(_) => libc::EBUSY,
            refusal if refusal.is_refusal() => libc::EPERM,
            // Not EEXIST, which tells that a dataset exists: this is a refusal to overwrite a file.
            E::Exists(_) => libc::ENOTEMPTY,
            other => other.errno().unwrap_or(libc::EINVAL),
        };
        Fault::new(errno, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_other_versions_are_tolerated() {
        let fault = Fault::new(libc::EBUSY, "m").of_kind(FaultKind::HasDependents { count: 2 });
        let text = serde_json::to_string(&fault).unwrap();
        assert_eq!(text, r#"{"errno":16,"message":"m","kind":{"name":"has_dependents","count":2}}"#);
        assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
        let older: Fault = serde_json::from_str(r#"{"errno":16,"message":"m"}"#).unwrap();
        assert_eq!(older, Fault::new(libc::EBUSY, "m"));
        let newer = r#"{"errno":16,"message":"m","kind":{"name":"on_fire","where":["here"]}}"#;
        assert_eq!(serde_json::from_str::<Fault>(newer).unwrap().kind, Some(Box::new(FaultKind::Unknown)));
    }
}
