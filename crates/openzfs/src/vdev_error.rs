//! The causes for which a change of a pool's vdevs is refused.

use std::path::PathBuf;

use poolwright_base::quoted;

/// Why vdevs of a pool cannot be added, attached, detached, removed or replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VdevError {
    /// The pool was imported read-only.
    #[error("the pool is open read-only")]
    ReadOnly,
    /// The pool has no such device.
    #[error("no vdev of the pool is {}\nhint: its files are {}", quoted(device), list(known))]
    NoSuchDevice {
        /// The device as the caller named it.
        device: PathBuf,
        /// The files of the pool.
        known: Vec<PathBuf>,
    },
    /// New data vdevs have another redundancy than the pool's.
    #[error(
        "mismatched redundancy: the pool's data is on {present}, and the new vdev is {new}; the pool would be only as safe as \
         the weaker of them\n\
         hint: add {present}"
    )]
    MismatchedRedundancy {
        /// The present data vdevs: `mirrors of 2 files`.
        present: String,
        /// The first new one that differs.
        new: String,
    },
    /// A new file is too small.
    #[error(
        "{} would have {bytes} bytes, and {} needs at least {least}\n\
         hint: without :SIZE, the new file is as large as the present one",
        quoted(file),
        quoted(device)
    )]
    TooSmall {
        /// The new file.
        file: PathBuf,
        /// Its size in bytes.
        bytes: u64,
        /// The vdev to mirror or to replace.
        device: PathBuf,
        /// The least size in bytes.
        least: u64,
    },
    /// A new file is a vdev of the pool already.
    #[error("{} is a vdev of the pool already\nhint: name another file", quoted(.0))]
    InUse(PathBuf),
    /// The vdev is of a kind that cannot be mirrored or replaced.
    #[error("{} is {kind}, which cannot be {action}", quoted(device))]
    Unsuitable {
        /// The vdev.
        device: PathBuf,
        /// Its kind: `a cache vdev`.
        kind: &'static str,
        /// The refused action: `mirrored`.
        action: &'static str,
    },
    /// The vdev is being replaced, or replaces another one.
    #[error("{} is being replaced, or replaces another vdev\nhint: wait for the end of the resilver", quoted(.0))]
    BeingReplaced(PathBuf),
    /// The vdev is a spare in use, or the one that a spare replaces.
    #[error("{} is a spare in use, or is replaced by one\nhint: detach one of the two first", quoted(.0))]
    Spared(PathBuf),
    /// The vdev to detach has no data of the pool.
    #[error(
        "{} is {kind}, which cannot be detached\nhint: `poolwright pool remove` removes it",
        quoted(device)
    )]
    NotDetachable {
        /// The vdev.
        device: PathBuf,
        /// Its kind: `an available spare`, `a cache vdev`.
        kind: &'static str,
    },
    /// A spare that cannot be opened.
    #[error(
        "the spare {} cannot be opened, or has no valid label\n\
         hint: name a new file; `poolwright pool remove` removes the spare",
        quoted(.0)
    )]
    UnavailableSpare(PathBuf),
    /// A spare is too small for the vdev that it is to replace.
    #[error(
        "the spare {} is too small: {} needs at least {least} bytes\nhint: name a new file",
        quoted(spare),
        quoted(device)
    )]
    SmallSpare {
        /// The spare.
        spare: PathBuf,
        /// The vdev to replace.
        device: PathBuf,
        /// The least size in bytes.
        least: u64,
    },
    /// The log to remove holds changes that no dataset has replayed since a crash.
    #[error(
        "the log {} holds changes that were not replayed since the pool's last user was killed\n\
         hint: mount the pool's datasets first, which replays them",
        quoted(.0)
    )]
    UnreplayedLog(PathBuf),
    /// The log to remove may hold changes of an encrypted dataset whose key is not loaded.
    #[error(
        "the log {} may hold changes of an encrypted dataset whose key is not loaded\n\
         hint: import the pool into the kernel, load the key (`zfs load-key`), and remove the log there (`zpool remove`)",
        quoted(.0)
    )]
    LockedLog(PathBuf),
    /// The vdev to remove holds data, or is a spare in use.
    #[error(
        "{} holds data of the pool: only available spares, cache vdevs and logs can be removed\n\
         hint: `poolwright pool detach` removes a file from its mirror, or ends the use of a spare",
        quoted(.0)
    )]
    NotRemovable(PathBuf),
    /// A vdev to detach is not a part of a mirror.
    #[error("{} is not part of a mirror, and no other file has its data", quoted(.0))]
    NotMirrored(PathBuf),
    /// No other vdev has all data of the one to detach.
    #[error(
        "{} has data of which no other vdev has a complete copy\nhint: wait for the end of the resilver, and check the pool's state",
        quoted(.0)
    )]
    OnlyCopy(PathBuf),
}

impl VdevError {
    /// Returns the error number of Linux.
    pub fn errno(&self) -> i32 {
        match self {
            VdevError::ReadOnly => libc::EROFS,
            VdevError::NoSuchDevice { .. } | VdevError::UnavailableSpare(_) => libc::ENODEV,
            VdevError::MismatchedRedundancy { .. } => libc::EPERM,
            VdevError::TooSmall { .. } | VdevError::SmallSpare { .. } => libc::EOVERFLOW,
            VdevError::InUse(_)
            | VdevError::BeingReplaced(_)
            | VdevError::Spared(_)
            | VdevError::UnreplayedLog(_)
            | VdevError::LockedLog(_)
            | VdevError::OnlyCopy(_) => libc::EBUSY,
            VdevError::Unsuitable { .. }
            | VdevError::NotDetachable { .. }
            | VdevError::NotRemovable(_)
            | VdevError::NotMirrored(_) => libc::ENOTSUP,
        }
    }
}

fn list(files: &[PathBuf]) -> String {
    files.iter().map(|file| quoted(file).to_string()).collect::<Vec<_>>().join(", ")
}
