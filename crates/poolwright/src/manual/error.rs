//! Errors of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A file or directory cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct Error {
    /// The file or directory.
    pub path: PathBuf,
    /// The host's error.
    pub source: io::Error,
}

/// Returns a function that adds the path to an I/O error.
pub(crate) fn cannot_write(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error { path, source }
}
