//! The observer of a recorded mount, which only queues a copy of each operation.

use std::ffi::{CStr, CString};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use crate::proto::Opcode;
use crate::{Observer, Operation};

/// A copy of the recorded fields of an [`Operation`].
pub(super) struct RecordedOperation {
    pub start: Instant,
    /// Nanoseconds.
    pub latency: u64,
    pub op: Opcode,
    pub object: u64,
    pub result: u64,
    pub offset: u64,
    pub to_offset: u64,
    pub length: u64,
    pub flags: u32,
    /// The kernel passes the ID of the thread to a FUSE server, not that of its process.
    pub tid: u32,
    pub name: Option<CString>,
    pub new_name: Option<(u64, CString)>,
}

/// Queues operations for the recorder. The queue ends when the last reference is dropped, with the mount.
pub(super) struct QueueObserver(pub SyncSender<RecordedOperation>);

impl Observer for QueueObserver {
    fn operation(&self, o: &Operation<'_>) {
        if o.errno != 0 || !is_recorded(o.op) {
            return;
        }
        let operation = RecordedOperation {
            start: o.start,
            latency: o.latency,
            op: o.op,
            object: o.object,
            result: o.result,
            offset: o.offset,
            to_offset: o.to_offset,
            length: o.length,
            flags: o.flags,
            tid: o.pid,
            name: o.name.map(CStr::to_owned),
            new_name: o.new_name.map(|(directory, name)| (directory, name.to_owned())),
        };
        // Fails only if the recorder has failed; `TraceRecorder::finish` returns that error.
        let _ = self.0.send(operation);
    }
}

/// Whether operations of this kind make an event or contain a name that the recorder needs.
fn is_recorded(op: Opcode) -> bool {
    use Opcode as O;
    matches!(
        op,
        O::Read
            | O::Write
            | O::CopyFileRange
            | O::Fsync
            | O::Open
            | O::Release
            | O::Create
            | O::Tmpfile
            | O::Mknod
            | O::Setattr
            | O::Fallocate
    ) || matches!(op, O::Unlink | O::Rename | O::Rename2 | O::Link | O::Lookup | O::Mkdir)
}
