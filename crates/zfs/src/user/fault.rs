//! The failure of a request.

use poolwright_base::{Exit, ReportedError, quoted};
use poolwright_openzfs::FileChange;
use serde::{Deserialize, Serialize};

use crate::user::FileFault;

/// The failure of a request, as sent through the socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Fault {
    /// A Linux errno. `EBUSY`: refused because a program uses the object; `ENOENT`: the object does not exist.
    pub errno: i32,
    /// The message: operation, object and cause. A line that begins with `hint: ` is advice to the user.
    pub message: String,
    /// The kind, if there is a hint for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Box<FaultKind>>,
}

/// The kind of a fault, from which the client derives its hint.
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
    /// Some mounts were unmounted before one of the others turned out to be in use.
    PartlyUnmounted,
    /// A kind that a later version added.
    #[serde(other)]
    Unknown,
}

impl FaultKind {
    /// Advice to the user, without `hint: `.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            FaultKind::NotFound { pool } => {
                format!("`poolwright dataset list -t all -r {pool}` lists datasets and snapshots")
            }
            FaultKind::NoParent => "-p creates parents".to_owned(),
            FaultKind::HasDependents { count: 1 } => "-r destroys it too".to_owned(),
            FaultKind::HasDependents { .. } => "-r destroys them too".to_owned(),
            FaultKind::HasClone { clone } => {
                format!("destroy the clone first, or promote it: `poolwright dataset promote {clone}`")
            }
            FaultKind::RootDataset { pool } => format!("`poolwright pool destroy {pool}` destroys a pool"),
            FaultKind::NewerSnapshots { snapshot } => {
                format!("-r destroys all snapshots newer than {snapshot}")
            }
            FaultKind::NotInheritable { property, dataset } => {
                format!("`poolwright dataset set {property}=none {dataset}` clears it")
            }
            FaultKind::ScrubRunning => "wait until it ends with -w, or stop it with -s".to_owned(),
            FaultKind::ChangedFile { pool, file } => changed_file(pool, file),
            FaultKind::UnenforcedAcls { dataset } => {
                format!("-o ignore-acls mounts {dataset} read-only and enforces modes, not ACLs")
            }
            FaultKind::HiddenFiles => "name an empty directory, or mount over it with -O".to_owned(),
            FaultKind::MountedOver => "unmount that first, or mount over it with -O".to_owned(),
            FaultKind::WorkingDirectory => {
                "change to another directory first, or mount over it with -O".to_owned()
            }
            FaultKind::PartlyUnmounted => "mount these again with `poolwright mount DATASET DIR`".to_owned(),
            FaultKind::Unknown => return None,
        })
    }
}

/// Advice on saving the data of a file that changed while its pool was open.
fn changed_file(pool: &str, file: &FileFault) -> String {
    let (path, content, pid) = (quoted(&file.path), quoted(&file.content), file.owner());
    if file.moved_to.is_some() {
        return "move it back, or import the pool from its new path next time".to_owned();
    }
    if !file.lost {
        return format!(
            "before the next mount, import the pool from the remaining files: `poolwright pool import {pool} FILE…`"
        );
    }
    match file.change {
        FileChange::Truncated => {
            format!("end process {pid} with `kill {pid}` and restore the file from a backup")
        }
        FileChange::Replaced => {
            let saved = format!("{}.saved", file.path.display());
            format!(
                "save it with `cp --sparse=always {content} {}`, end the process with `kill {pid}`, then import the pool \
                 with the saved file in place of {path}: `poolwright pool import {pool} FILE…`",
                quoted(&saved)
            )
        }
        _ => format!(
            "save it with `cp --sparse=always {content} {path}`, end the process with `kill {pid}`, then mount again"
        ),
    }
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

    /// An invalid request.
    pub fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(libc::EINVAL, message)
    }

    /// The answer to every request while the owner is closing its pool: the client should retry when that process has ended.
    pub fn ending(pool: &str, pid: u32) -> Fault {
        Fault::new(
            libc::ESHUTDOWN,
            format!(
                "process {pid} is closing {pool} and no longer accepts requests\nhint: try again when it has exited"
            ),
        )
    }

    /// Whether the request was refused because a program uses the object.
    pub fn is_busy(&self) -> bool {
        self.errno == libc::EBUSY
    }

    /// Whether the owner is closing the pool: see [`Fault::ending`].
    pub fn is_ending(&self) -> bool {
        self.errno == libc::ESHUTDOWN
    }
}

impl ReportedError for Fault {
    fn exit(&self) -> Exit {
        match self.errno {
            libc::EINVAL => Exit::Usage,
            // In use, a mount point that must not be covered, or a file that must not be overwritten.
            libc::EBUSY | libc::EPERM | libc::ENOTEMPTY | libc::EROFS => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        self.kind.as_deref().and_then(FaultKind::hint)
    }
}

impl From<poolwright_openzfs::Error> for Fault {
    fn from(error: poolwright_openzfs::Error) -> Fault {
        use poolwright_openzfs::Error as E;
        let errno = match &error {
            E::Locked(_) | E::Busy(_) => libc::EBUSY,
            // Not EEXIST, which tells that a dataset exists: this is a refusal to overwrite a file.
            E::Exists(_) => libc::ENOTEMPTY,
            refusal if refusal.exit() == Exit::Refused => libc::EPERM,
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
