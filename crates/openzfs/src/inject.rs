//! Injected I/O errors of the host, for tests. Exists only with the cargo feature `fault-injection`.
//!
//! There is one [`Injection`] at a time. Matching calls are counted from 1, so that a test can let each of them fail in turn.

use std::ffi::{CString, c_int};
use std::path::Path;

use crate::error::check;
use crate::{Result, ffi};

/// A kind of request to a vdev's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this errno.
    Error(i32),
    /// A read returns half of the requested bytes.
    Short,
    /// A bit of the data read is flipped.
    Damage,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Injection<'a> {
    /// Only calls to this file, by its absolute path; otherwise calls to all files.
    pub file: Option<&'a Path>,
    /// The kind of call.
    pub call: Call,
    /// How they fail.
    pub fault: Fault,
    /// The first call that fails, counted from now; 1 is the next. With [`u64::MAX`], calls are only counted.
    pub first: u64,
    /// The number of calls that fail; 0: all from `first` on.
    pub times: u64,
}

/// Starts an injection, which replaces the current one.
///
/// # Errors
/// [`crate::Error::Invalid`] if the path contains a NUL byte; [`crate::Error::Engine`] if there is no memory.
pub fn start(injection: &Injection<'_>) -> Result<()> {
    let file = injection.file.map(|file| crate::c_text::c_paths(&[file.to_owned()])).transpose()?;
    let (how, error) = match injection.fault {
        Fault::Error(errno) => (ffi::PW_INJECT_ERROR, errno),
        Fault::Short => (ffi::PW_INJECT_SHORT, 0),
        Fault::Damage => (ffi::PW_INJECT_DAMAGE, 0),
    };
    let raw = ffi::pw_injection {
        path: file.as_ref().map_or(std::ptr::null(), |file: &Vec<CString>| file[0].as_ptr()),
        after: injection.first,
        times: injection.times,
        op: injection.call as c_int,
        how: how as c_int,
        error,
    };
    // SAFETY: the struct and its path outlive the call, which copies both.
    check("injecting faults into", "the pool files", unsafe { ffi::pw_inject(&raw) })
}

/// Returns the number of matching calls since the injection started.
pub fn calls() -> u64 {
    // SAFETY: the callee locks.
    unsafe { ffi::pw_inject_calls() }
}

/// Ends the injection.
pub fn stop() {
    // SAFETY: the callee locks.
    unsafe { ffi::pw_inject_stop() }
}
