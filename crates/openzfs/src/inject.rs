//! Faults of the host, injected at the seam between vdevs and their files: a testing facility, which exists only with the
//! cargo feature `fault-injection`.
//!
//! One [`Injection`] at a time. Its calls are counted from 1, so that a test can try each of them in turn.

use std::ffi::{CString, c_char, c_int};
use std::path::Path;

use crate::Result;
use crate::error::check;

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
        Fault::Error(errno) => (0, errno),
        Fault::Short => (1, 0),
        Fault::Damage => (2, 0),
    };
    let raw = Raw {
        path: file.as_ref().map_or(std::ptr::null(), |file: &Vec<CString>| file[0].as_ptr()),
        after: injection.first,
        times: injection.times,
        op: injection.call as c_int,
        how,
        error,
    };
    // SAFETY: the struct and its path live over the call, which copies both.
    check("injecting faults", "the seam", unsafe { pw_inject(&raw) })
}

/// Calls of the injection's kind, to its files, since it was set.
pub fn calls() -> u64 {
    // SAFETY: takes its own lock.
    unsafe { pw_inject_calls() }
}

/// From now on nothing fails.
pub fn stop() {
    // SAFETY: takes its own lock.
    unsafe { pw_inject_stop() }
}

#[repr(C)]
struct Raw {
    path: *const c_char,
    after: u64,
    times: u64,
    op: c_int,
    how: c_int,
    error: c_int,
}

// `csrc/inject.h`.
unsafe extern "C" {
    fn pw_inject(injection: *const Raw) -> c_int;
    fn pw_inject_calls() -> u64;
    fn pw_inject_stop();
}
