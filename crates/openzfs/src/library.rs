//! The libzpool that this process has loaded, and the one that the engine was compiled for.

use std::ffi::{CStr, c_char};

use crate::{Error, Result, ffi};

/// The loaded library's build id, in hexadecimal, and whether it is the one that the engine was compiled for.
fn loaded() -> (String, bool) {
    let mut out: [c_char; 129] = [0; 129];
    // SAFETY: `out` is writable for its length; the callee ends it with a NUL.
    let errno = unsafe { ffi::pw_library_build_id(out.as_mut_ptr(), out.len()) };
    // SAFETY: ended above.
    let id = unsafe { CStr::from_ptr(out.as_ptr()) }.to_string_lossy().into_owned();
    (id, errno == 0)
}

fn constant(text: *const c_char) -> String {
    // SAFETY: the callers pass static C strings of the C side.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Refuses a library that is not the one that the engine was compiled for.
///
/// # Errors
/// [`Error::OtherLibrary`].
pub(crate) fn check() -> Result<()> {
    let (loaded, same) = loaded();
    if same {
        return Ok(());
    }
    // SAFETY: no arguments, static texts.
    let (built_for, version) = unsafe { (ffi::pw_library_built_for(), ffi::pw_library_version()) };
    Err(Error::OtherLibrary { loaded, built_for: constant(built_for), version: constant(version) })
}

/// The OpenZFS version of the loaded library. A library that is not the one that the engine was compiled for does not say
/// its version; then its build id.
pub(crate) fn version() -> String {
    match loaded() {
        // SAFETY: a static text.
        (_, true) => constant(unsafe { ffi::pw_library_version() }),
        (id, false) => format!("of an unknown version, build id {id}"),
    }
}
