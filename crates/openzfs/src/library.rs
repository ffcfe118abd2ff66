//! Compares the loaded libzpool with the one that the engine was compiled for.

use std::ffi::{CStr, c_char};

use crate::{Error, Result, ffi};

/// Returns the loaded library's build id in hexadecimal, and whether the engine was compiled for it.
fn loaded() -> (String, bool) {
    let mut out: [c_char; 129] = [0; 129];
    // SAFETY: `out` is writable for its length, and the callee writes a NUL.
    let errno = unsafe { ffi::pw_library_build_id(out.as_mut_ptr(), out.len()) };
    // SAFETY: the callee wrote a NUL.
    let id = unsafe { CStr::from_ptr(out.as_ptr()) }.to_string_lossy().into_owned();
    (id, errno == 0)
}

fn constant(text: *const c_char) -> String {
    // SAFETY: the callers pass static C strings.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Checks that the engine was compiled for the loaded library.
///
/// # Errors
/// [`Error::OtherLibrary`] if it was compiled for another one.
pub(crate) fn check() -> Result<()> {
    let (loaded, same) = loaded();
    if same {
        return Ok(());
    }
    // SAFETY: no arguments, static strings.
    let (built_for, version) = unsafe { (ffi::pw_library_built_for(), ffi::pw_library_version()) };
    Err(Error::OtherLibrary { loaded, built_for: constant(built_for), version: constant(version) })
}

/// Returns the OpenZFS version of the loaded library, or its build id if the engine was compiled for another library, because a
/// library does not contain its version.
pub(crate) fn version() -> String {
    match loaded() {
        // SAFETY: a static string.
        (_, true) => constant(unsafe { ffi::pw_library_version() }),
        (id, false) => format!("unknown version, build id {id}"),
    }
}
