//! Why a mount could not be made, kept or ended.

use std::io;
use std::path::PathBuf;

/// What can go wrong with a mount as a whole. Single requests fail with an errno, which goes to whoever made them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No FUSE on this machine, or no permission.
    #[error(
        "opening /dev/fuse failed: {0}. Load the kernel's fuse module (`modprobe fuse`), or give this container the \
         device"
    )]
    NoDevice(#[source] io::Error),
    /// The mount point cannot be used.
    #[error("the mount point {path} cannot be used: {why}")]
    MountPoint {
        /// As given.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// The system needs what is there.
    #[error("cannot mount on {}: {why}\nhint: {hint}", path.display())]
    Unsafe {
        /// Its real path.
        path: PathBuf,
        /// What it is.
        why: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// A mount would hide files.
    #[error(
        "cannot mount on {}: it is not empty (it holds {first:?})\n\
         hint: name an empty directory, or mount over it with -O", path.display()
    )]
    NotEmpty {
        /// Its real path.
        path: PathBuf,
        /// The first name in it.
        first: String,
    },
    /// A mount would hide another one, or a directory that the caller works in.
    #[error("cannot mount on {}: {why}\nhint: {hint}", path.display())]
    Covered {
        /// Its real path.
        path: PathBuf,
        /// What it is.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// A server that is gone left its mount behind.
    #[error(
        "{path} is a dead mount (\"Transport endpoint is not connected\"): its server has ended without unmounting. \
         Clear it with `umount {path}` or `fusermount3 -u {path}`, then mount again"
    )]
    DeadMount {
        /// Where.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("mounting {source_name} on {path} was refused: {why}")]
    Refused {
        /// Dataset.
        source_name: String,
        /// Where.
        path: PathBuf,
        /// The kernel's or the helper program's words.
        why: String,
    },
    /// The kernel's FUSE is older than what is spoken here.
    #[error("the kernel speaks FUSE {major}.{minor}; 7.31 (Linux 5.4) is the least that works")]
    OldKernel {
        /// Major version it offered.
        major: u32,
        /// Minor version it offered.
        minor: u32,
    },
    /// Somebody has a file open there or works in it.
    #[error(
        "{path} is in use and stays mounted; `fuser -vm {path}` shows by whom. End those programs and unmount again"
    )]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// Unmounting failed otherwise.
    #[error("unmounting {path} failed: {why}")]
    Unmount {
        /// Where.
        path: PathBuf,
        /// The kernel's or the helper program's words.
        why: String,
    },
    /// Talking to the kernel failed.
    #[error("{doing} failed: {why}")]
    Device {
        /// What was tried.
        doing: &'static str,
        /// The kernel's word.
        #[source]
        why: io::Error,
    },
    /// The engine refused.
    #[error("{doing} the dataset {dataset} failed: {why}")]
    Engine {
        /// What was tried.
        doing: &'static str,
        /// Which.
        dataset: String,
        /// Its errno.
        why: poolwright_openzfs::Errno,
    },
}

/// What this crate's calls give.
pub type Result<T> = std::result::Result<T, Error>;
