//! The errors of access to datasets.

use poolwright_base::{Exit, ReportedError};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a pool could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A command of the kernel's OpenZFS failed.
    #[error(transparent)]
    Command(#[from] crate::kernel::CommandError),
    /// A request to the owner of a pool of the user-space engine failed.
    #[error(transparent)]
    UserPool(#[from] crate::user::Error),
    /// No process has the pool of the user-space engine mounted.
    #[error("the pool {0} is not mounted any more")]
    NotMounted(String),
    /// A dataset could not be unmounted.
    #[error("cannot unmount {dataset}: {why}")]
    Unmount {
        /// The dataset.
        dataset: String,
        /// The cause.
        why: String,
    },
    /// The table of mounts cannot be read.
    #[error("cannot read the table of mounts: {0}")]
    Mounts(std::io::Error),
    /// A name that would mean something else in a request, or a change that the user-space engine cannot make.
    #[error("{0}")]
    Refused(String),
}

impl ReportedError for Error {
    // A pool or a command that refuses a request in the middle of a run is a failure of the run.
    fn exit(&self) -> Exit {
        match self {
            Error::NotMounted(_) | Error::Refused(_) => Exit::Refused,
            Error::Command(_) | Error::UserPool(_) | Error::Unmount { .. } | Error::Mounts(_) => Exit::Failed,
        }
    }
}
