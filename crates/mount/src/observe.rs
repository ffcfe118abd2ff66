//! Operations as they happen, for whoever wants to record or measure them.

use std::ffi::CStr;
use std::time::Instant;

use crate::proto::Opcode;

/// One operation, after it was done and before it is answered.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// When its request was read.
    pub start: Instant,
    /// Nanoseconds until its answer was ready.
    pub latency: u64,
    /// What it was.
    pub op: Opcode,
    /// The object it was about; of an operation on a name, the directory.
    pub object: u64,
    /// What it made, found or opened, or copied into; 0 if that is not its kind.
    pub result: u64,
    /// Position in the file, in bytes, where it has one.
    pub offset: u64,
    /// Of a copy: the position in the file that it copied into.
    pub to_offset: u64,
    /// Bytes read, written, copied, punched or allocated; of a SETATTR that sets it, the file's new length.
    pub length: u64,
    /// Flags of an open or a write (`O_…`), of a rename (`RENAME_…`) or an allocation (`FALLOC_FL_…`).
    pub flags: u32,
    /// The name it was about.
    pub name: Option<&'a CStr>,
    /// Of a rename: the other directory and name.
    pub new_name: Option<(u64, &'a CStr)>,
    /// Its errno; 0: it succeeded.
    pub errno: i32,
    /// The process that asked.
    pub pid: u32,
    /// The thread that served it, counted from 0.
    pub worker: usize,
}

/// Is told of every operation, in the thread that serves it: what takes time here delays the answer.
pub trait Observer: Send + Sync {
    /// One operation.
    fn operation(&self, operation: &Operation<'_>);
}
