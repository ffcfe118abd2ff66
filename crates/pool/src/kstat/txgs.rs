//! The history of transaction groups.

use super::error::MalformedKstat;

/// How far a transaction group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxgState {
    /// `B`: it is being set up.
    Birth,
    /// `O`: it accepts changes.
    Open,
    /// `Q`: closed; waits until the changes under way have ended.
    Quiescing,
    /// `W`: waits for the previous group to be written.
    WaitingForSync,
    /// `S`: it is being written.
    Syncing,
    /// `C`: on stable storage.
    Committed,
}

/// One transaction group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxgRecord {
    /// The number of the group.
    pub txg: u64,
    /// When the group was opened, in nanoseconds since boot.
    pub birth_ns: u64,
    /// How far the group is.
    pub state: TxgState,
    /// The bytes that were dirty when the group was closed.
    pub dirty_bytes: u64,
    /// The bytes read from the vdevs while the group was written.
    pub read_bytes: u64,
    /// The bytes written to the vdevs while the group was written.
    pub written_bytes: u64,
    /// The number of reads.
    pub reads: u64,
    /// The number of writes.
    pub writes: u64,
    /// How long the group was open, in nanoseconds. As the three following, it is 0 until the phase has ended.
    pub open_ns: u64,
    /// How long the group was quiescing, in nanoseconds.
    pub quiesce_ns: u64,
    /// How long the group waited for the previous one, in nanoseconds.
    pub wait_ns: u64,
    /// How long it took to write the group, in nanoseconds.
    pub sync_ns: u64,
}

/// Parses the table `txgs`, which consists of the names of its columns alone if the history is off.
///
/// # Errors
/// If a line has another number of columns, or a value is not a number.
pub fn parse_txgs(text: &str) -> Result<Vec<TxgRecord>, MalformedKstat> {
    todo!("{text}")
}
