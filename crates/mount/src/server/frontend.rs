//! The interface to the program that runs a pool server.

use poolwright_zfs::user::Mounted;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Routine: the log of a pool that contains only notes can be removed.
    Note,
    /// A message that may require the user's attention.
    Warning,
}

/// The program that runs a pool server.
pub trait Frontend: Send + Sync {
    /// Receives a message, which may have several lines. May be called by any thread.
    fn log(&self, severity: Severity, message: &str);

    /// Called when the requested dataset is mounted by the process `pid`; `is_owner` if that is this process.
    fn mounted(&self, mounted: &Mounted, pid: u32, is_owner: bool);

    /// Number of termination signals received so far.
    fn signals(&self) -> usize;
}
