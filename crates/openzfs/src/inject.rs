//! Faults of the host, injected at the seam between vdevs and their files: a testing facility, which exists only with the
//! cargo feature `fault-injection`.
//!
//! One [`Injection`] at a time. Its calls are counted from 1, so that a test can try each of them in turn.

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

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this errno.
    Error(i32),
    /// A read returns half of its bytes.
    Short,
    /// A bit of what was read is wrong.
    Damage,
}

/// Which calls fail, and how.
#[derive(Clone, Copy, Debug)]
pub struct Injection<'a> {
    /// Only those of this file, by its absolute path.
    pub file: Option<&'a Path>,
    /// Their kind.
    pub call: Call,
    /// How they fail.
    pub fault: Fault,
    /// The first that fails, counted from now; 1 is the next. [`u64::MAX`]: none, calls are only counted.
    pub first: u64,
    /// How many fail; 0: all from there on.
    pub times: u64,
}

/// Replaces the injection that there was.
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
    // SAFETY: the struct and its path live over the call, which copies both.
    check("injecting faults", "the seam", unsafe { ffi::pw_inject(&raw) })
}

/// Calls of the injection's kind, to its files, since it was set.
pub fn calls() -> u64 {
    // SAFETY: takes its own lock.
    unsafe { ffi::pw_inject_calls() }
}

/// From now on nothing fails.
pub fn stop() {
    // SAFETY: takes its own lock.
    unsafe { ffi::pw_inject_stop() }
}
