//! Errors of this crate.

use std::net::SocketAddr;
use std::path::PathBuf;

use poolwright_host::{Exit, PathError, ReportedError, quoted};

/// The result of a fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a source or of the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A source of user-space pools failed.
    #[error(transparent)]
    Userpool(#[from] poolwright_zfs::user::Error),
    /// A kstat cannot be read.
    #[error(transparent)]
    Kstat(#[from] poolwright_zfs::kernel::KstatError),
    /// `zpool` or `zfs` gave no usable answer.
    #[error(transparent)]
    Command(#[from] poolwright_zfs::kernel::CommandError),
    /// A plan cannot be read.
    #[error(transparent)]
    PlanFile(#[from] poolwright_plan::PlanFileError),
    /// The summary of a dataset of backups cannot be read.
    #[error(transparent)]
    Backups(#[from] poolwright_backup::Error),
    /// The table of mounts cannot be read.
    #[error(transparent)]
    Mounts(#[from] PathError),
    /// The pool was exported or destroyed.
    #[error("no such pool: {pool}")]
    NoSuchPool {
        /// The pool.
        pool: String,
    },
    /// The server cannot listen on an address.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The address can be reached from other hosts, and the connection would not be encrypted or authenticated.
    #[error("refusing to listen on {address}: other hosts can reach it, and {missing}")]
    Exposed {
        /// The address.
        address: SocketAddr,
        /// What is missing: TLS, or authentication.
        missing: &'static str,
    },
    /// A certificate, a key or a token cannot be read or used.
    #[error("cannot use {}: {cause}", quoted(path))]
    Credential {
        /// The file.
        path: PathBuf,
        /// The reason.
        cause: String,
    },
    /// A thread or the asynchronous runtime cannot be started.
    #[error("cannot start {what}: {cause}")]
    Start {
        /// The thread or the runtime.
        what: &'static str,
        /// The error of the system.
        cause: std::io::Error,
    },
}

impl ReportedError for Error {
    fn exit(&self) -> Exit {
        match self {
            Error::Exposed { .. } => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Error::Exposed { .. } => {
                "use --tls-cert and --tls-key with --token-file or --client-ca, or listen on 127.0.0.1"
            }
            Error::Listen { .. } => "name another address or port with --listen",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}
