//! The errors of access to datasets.

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
    /// A name that would mean something else in a request.
    #[error("{0} is not a snapshot")]
    NotSnapshot(String),
    /// A name that would mean something else in a request.
    #[error("{0} is not a dataset below the root of its pool")]
    NotDataset(String),
    /// A change that the user-space engine cannot make.
    #[error("the user-space engine has no bookmarks: {0}")]
    NoBookmarks(String),
    /// A change that the user-space engine cannot make.
    #[error("the user-space engine cannot rename {0}")]
    NoRename(String),
    /// A change that the user-space engine cannot make.
    #[error("{0} has no mount point of its own: the user-space engine has no such property")]
    NoMountPoint(String),
}

impl Error {
    /// Whether this is a refusal for safety.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Error::NotMounted(_)
                | Error::NotSnapshot(_)
                | Error::NotDataset(_)
                | Error::NoBookmarks(_)
                | Error::NoRename(_)
                | Error::NoMountPoint(_)
        )
    }
}
