//! Text and paths for C.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use crate::{Error, Result};

/// `text` with a NUL at its end.
///
/// # Errors
/// If it holds a NUL byte.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Invalid(format!("{text:?} holds a NUL byte")))
}

/// Each path with a NUL at its end.
///
/// # Errors
/// If one holds a NUL byte.
pub(crate) fn c_paths(paths: &[PathBuf]) -> Result<Vec<CString>> {
    let one = |p: &PathBuf| CString::new(p.as_os_str().as_bytes());
    paths
        .iter()
        .map(|p| one(p).map_err(|_| Error::Invalid(format!("{} holds a NUL byte", p.display()))))
        .collect()
}
