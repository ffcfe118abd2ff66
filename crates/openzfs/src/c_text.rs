//! Strings and paths for C.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use poolwright_base::quoted;

use crate::{Error, Result};

/// Returns `text` as a C string.
///
/// # Errors
/// [`Error::Invalid`] if it contains a NUL byte.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Invalid(format!("{text:?} contains a NUL byte")))
}

/// Returns the paths as C strings.
///
/// # Errors
/// [`Error::Invalid`] if a path contains a NUL byte.
pub(crate) fn c_paths(paths: &[PathBuf]) -> Result<Vec<CString>> {
    let one = |p: &PathBuf| CString::new(p.as_os_str().as_bytes());
    paths
        .iter()
        .map(|p| one(p).map_err(|_| Error::Invalid(format!("{} contains a NUL byte", quoted(&p)))))
        .collect()
}
