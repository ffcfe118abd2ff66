//! The interface to the program that runs a pool server.

use poolwright_zfs::user::Mounted;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Routine: the log of a pool that contains only notes can be removed.
    Note,
    /// Something that the user should know or do.
    Warning,
}

/// The program that runs a pool server.
pub trait Frontend: Send + Sync {
    /// Receives a message, which may have several lines. May be called by any thread.
    fn log(&self, severity: Severity, message: &str);

    /// Called when the requested dataset is mounted by the process `pid`; `is_owner` if that is this process.
    fn mounted(&self, mounted: &Mounted, pid: u32, is_owner: bool);

    /// Number of signals so far that asked this process to end.
    fn signals(&self) -> usize;
}
