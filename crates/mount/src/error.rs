//! Errors of mounting, serving and unmounting.

use std::io;
use std::path::PathBuf;

use poolwright_base::{Exit, ReportedError, quoted};
use poolwright_zfs::user::FaultKind;

/// An error of a mount as a whole. A single request fails with an errno, which the requesting program receives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `/dev/fuse` cannot be opened: it does not exist, or permission is missing.
    #[error(
        "cannot open /dev/fuse: {0}\nhint: load the kernel's fuse module (`modprobe fuse`), or give this container the \
         device"
    )]
    NoDevice(#[source] io::Error),
    /// The mount point cannot be used.
    #[error("cannot mount on {}: {why}", quoted(path))]
    MountPoint {
        /// The path as given.
        path: PathBuf,
        /// The cause, and a hint.
        why: String,
    },
    /// The mount point is a directory that the system needs.
    #[error("cannot mount on {}: it is a system directory", quoted(.0))]
    System(PathBuf),
    /// The mount point is a directory that must not be covered even if the caller wants that.
    #[error(
        "cannot mount on {}: the system needs its contents to run\nhint: name an empty directory",
        quoted(.0)
    )]
    Vital(PathBuf),
    /// The mount point is not empty: a mount would hide files.
    #[error("cannot mount on {}: it is not empty (it contains {first:?})", quoted(path))]
    NotEmpty {
        /// Its real path.
        path: PathBuf,
        /// The first name in it.
        first: String,
    },
    /// The mount would hide another mount.
    #[error("cannot mount on {}: {other} is already mounted there", quoted(path))]
    Covered {
        /// Its real path.
        path: PathBuf,
        /// The other mount.
        other: String,
    },
    /// The mount point is the working directory of the caller or of one of its ancestors.
    #[error("cannot mount on {}: it is the working directory of process {pid} ({name})", quoted(path))]
    WorkingDirectory {
        /// Its real path.
        path: PathBuf,
        /// The process.
        pid: i32,
        /// Its name.
        name: String,
    },
    /// The directory is a mount whose server has ended without unmounting it.
    #[error(
        "{path} is a dead mount (\"Transport endpoint is not connected\"): its server exited without unmounting it\n\
         hint: remove it with `umount {path}` or `fusermount3 -u {path}`, then mount again",
        path = quoted(.0)
    )]
    DeadMount(PathBuf),
    /// The kernel or fusermount3 refused to mount.
    #[error("cannot mount {source_name} on {}: {why}", quoted(path))]
    Refused {
        /// The dataset's name.
        source_name: String,
        /// The mount point.
        path: PathBuf,
        /// The message of the kernel or of fusermount3.
        why: String,
    },
    /// The kernel's FUSE protocol is too old.
    #[error("the kernel's FUSE protocol is {major}.{minor}, but Poolwright needs 7.31 (Linux 5.4) or later")]
    OldKernel {
        /// The major version that the kernel offered.
        major: u32,
        /// The minor version that the kernel offered.
        minor: u32,
    },
    /// A program has a file open on the mount, or its working directory in it.
    #[error(
        "{path} is in use and stays mounted\nhint: end the programs that `fuser -vm {path}` lists, then unmount again",
        path = quoted(.0)
    )]
    Busy(PathBuf),
    /// Unmounting failed for another reason.
    #[error("cannot unmount {}: {why}", quoted(path))]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The message of the kernel or of fusermount3.
        why: String,
    },
    /// Communication with the kernel failed.
    #[error("{doing} failed: {why}")]
    Device {
        /// The attempted operation.
        doing: &'static str,
        /// The kernel's error.
        #[source]
        why: io::Error,
    },
    /// An operation of the engine failed.
    #[error("{doing} the dataset {dataset} failed: {why}")]
    Engine {
        /// The attempted operation.
        doing: &'static str,
        /// The dataset's name.
        dataset: String,
        /// The engine's errno.
        why: poolwright_openzfs::Errno,
    },
}

impl Error {
    /// Its kind in the answer to another process.
    pub(crate) fn kind(&self) -> Option<FaultKind> {
        match self {
            Error::System(_) | Error::NotEmpty { .. } => Some(FaultKind::HiddenFiles),
            Error::Covered { .. } => Some(FaultKind::MountedOver),
            Error::WorkingDirectory { .. } => Some(FaultKind::WorkingDirectory),
            _ => None,
        }
    }
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::System(_)
            | Error::Vital(_)
            | Error::NotEmpty { .. }
            | Error::Covered { .. }
            | Error::WorkingDirectory { .. } => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        self.kind()?.hint()
    }
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
