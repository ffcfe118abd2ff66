//! Errors of running `zpool` and `zfs`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A run of `zpool` or `zfs` without a usable result.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program is not installed.
    #[error("{0} is not installed")]
    NotInstalled(PathBuf),
    /// The kernel module is not loaded. Nothing was run, because `zpool` would try to load it.
    #[error("the kernel module of OpenZFS is not loaded ({} is missing)", .0.display())]
    ModuleNotLoaded(PathBuf),
    /// This user may not run the program, or may not open `/dev/zfs`.
    #[error("permission denied: {command}{}", if message.is_empty() { String::new() } else { format!(": {message}") })]
    PermissionDenied {
        /// The command line.
        command: String,
        /// The program's message; empty if it could not be started.
        message: String,
    },
    /// The host could not start the program.
    #[error("cannot run {command}: {cause}")]
    Start {
        /// The command line.
        command: String,
        /// The host's error.
        #[source]
        cause: io::Error,
    },
    /// The program did not end before the deadline. It has been killed, or will be when it leaves the kernel.
    #[error("{command} did not end within {} s", deadline.as_secs_f64())]
    TimedOut {
        /// The command line.
        command: String,
        /// The deadline.
        deadline: Duration,
    },
    /// Nothing was run, because earlier runs that timed out have not ended.
    #[error("{command} was not run: {count} earlier commands have not ended")]
    Stuck {
        /// The command line.
        command: String,
        /// The number of commands that are stuck.
        count: usize,
    },
    /// The program printed more than the limit. It has been killed.
    #[error("{command} printed more than {} MiB", limit >> 20)]
    TooLarge {
        /// The command line.
        command: String,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The named pool does not exist: it was exported or destroyed.
    #[error("no such pool: {pool}")]
    NoSuchPool {
        /// The pool's name.
        pool: String,
    },
    /// The program failed.
    #[error("{command} failed ({}): {message}", code.map_or_else(|| "killed by a signal".to_owned(), |code| format!("exit status {code}")))]
    Failed {
        /// The command line.
        command: String,
        /// The exit status; `None` if a signal ended the program.
        code: Option<i32>,
        /// The first lines of the program's message.
        message: String,
    },
    /// The output cannot be parsed.
    #[error("unexpected output of {command}: {cause}")]
    Malformed {
        /// The command line.
        command: String,
        /// The defect.
        #[source]
        cause: MalformedOutput,
    },
}

/// Output that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct MalformedOutput {
    /// The line, counted from 1.
    pub line: usize,
    /// The defect.
    pub cause: String,
}

impl MalformedOutput {
    pub(super) fn new(line: usize, cause: impl Into<String>) -> MalformedOutput {
        MalformedOutput { line, cause: cause.into() }
    }
}
