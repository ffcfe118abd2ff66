//! A failed operation on a file or directory.

use std::io;
use std::path::PathBuf;

use crate::quoted;

/// A failed operation on a file or directory of the host.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {cause}", quoted(path))]
pub struct PathError {
    /// The operation, a verb: `read`.
    pub action: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The host's error.
    #[source]
    pub cause: io::Error,
}

/// Returns a function for `map_err` that adds the operation and the path to an error of the host.
pub fn cannot<C: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(C) -> PathError {
    let path = path.into();
    move |cause| PathError { action, path, cause: cause.into() }
}
