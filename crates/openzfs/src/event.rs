//! Events that no call can return as an error, because they happen in libzpool's threads or in a destructor.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

use crate::Error;

/// An event. Its text ends without a period and says what becomes of the pool or the process.
#[derive(Debug)]
pub enum Event {
    /// The host refused a write or a flush of a pool file.
    HostRefused {
        /// The pool file.
        file: String,
        /// Whether a flush was refused; otherwise a write.
        flush: bool,
        /// The host's reason.
        why: std::io::Error,
        /// Whether the pool cannot continue without the file. If so, the process ends; otherwise the file is faulted.
        needed: bool,
    },
    /// All copies of a block failed. The pool would suspend for ever, so the process ends.
    PoolFailed {
        /// The pool.
        pool: String,
    },
    /// The intent log of a pool that is being imported names a transaction group so far in the future that the import would
    /// not finish. The process ends.
    FarFutureLog {
        /// The pool.
        pool: String,
    },
    /// A pool could not be exported when its last handle was dropped. [`crate::Pool::export`] returns this error instead.
    ExportFailed(Error),
}

impl Event {
    /// Whether the process ends, with exit code 1, when the handler returns.
    pub fn is_fatal(&self) -> bool {
        match self {
            Event::HostRefused { needed, .. } => *needed,
            Event::PoolFailed { .. } | Event::FarFutureLog { .. } => true,
            Event::ExportFailed(_) => false,
        }
    }

    /// From the arguments of the hook of `pw_fault_on_host_error` (`csrc/engine.h`).
    fn from_c(path: &CStr, op: c_int, err: c_int, needed: c_int) -> Event {
        let name = path.to_string_lossy().into_owned();
        match op {
            1 | 2 => Event::HostRefused {
                file: name,
                flush: op == 2,
                why: std::io::Error::from_raw_os_error(err),
                needed: needed != 0,
            },
            3 => Event::PoolFailed { pool: name },
            _ => Event::FarFutureLog { pool: name },
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::HostRefused { file, flush, why, needed } => {
                let request = if *flush { "flush" } else { "write to" };
                let outcome = if *needed {
                    "the process ends, because the pool needs that file; the pool keeps every acknowledged change"
                } else {
                    "the pool continues without that file"
                };
                write!(f, "cannot {request} the pool file {file}: {why}; {outcome}")
            }
            Event::PoolFailed { pool } => write!(
                f,
                "the pool {pool} cannot be read or written: all copies of a block failed; the process ends, and the pool \
                 keeps every acknowledged change"
            ),
            Event::FarFutureLog { pool } => write!(
                f,
                "cannot import the pool {pool}: its intent log names a transaction group of the far future, so its files are \
                 damaged or malicious; the process ends, because the import would not finish"
            ),
            Event::ExportFailed(error) => error.fmt(f),
        }
    }
}

static HANDLER: Mutex<fn(&Event)> = Mutex::new(report_end);

/// Registers the function that reports events. It replaces the previous one. It may be called in any thread, must not
/// call the engine, and should return soon: a thread of libzpool waits for it.
///
/// Without a handler, an event that ends the process is written to standard error, and others are not reported.
pub fn set_handler(handler: fn(&Event)) {
    *HANDLER.lock().unwrap_or_else(PoisonError::into_inner) = handler;
}

/// The handler until a program registers its own. No other function of this crate prints: a process must not end without its
/// reason.
fn report_end(event: &Event) {
    if event.is_fatal() {
        let _ = writeln!(std::io::stderr(), "poolwright: {event}");
    }
}

/// Calls the handler.
pub(crate) fn report(event: &Event) {
    let handler = *HANDLER.lock().unwrap_or_else(PoisonError::into_inner);
    handler(event);
}

/// The hook of `pw_fault_on_host_error`: reports the event, and ends the process if the pool cannot continue. The pool would
/// suspend and wait for ever; on disk, it has every acknowledged change.
pub(crate) extern "C" fn host_refused(path: *const c_char, op: c_int, err: c_int, needed: c_int) {
    // SAFETY: the C side passes the path of an open vdev file, or the pool's name, as a C string.
    let event = Event::from_c(unsafe { CStr::from_ptr(path) }, op, err, needed);
    report(&event);
    if event.is_fatal() {
        // SAFETY: ends the process without exit handlers, which would wait for the pool.
        unsafe { libc::_exit(1) }
    }
}
