//! The interface for recording or measuring operations as they happen.

use std::ffi::CStr;
use std::time::Instant;

use crate::proto::Opcode;

/// One operation, which has been executed but not yet answered.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// The time at which its request was read.
    pub start: Instant,
    /// Nanoseconds from `start` until its answer was ready.
    pub latency: u64,
    /// Its kind.
    pub op: Opcode,
    /// The object it was applied to; for an operation on a name, the directory.
    pub object: u64,
    /// The object that it created, found, opened or copied into; 0 for other kinds.
    pub result: u64,
    /// Position in the file, in bytes, if it has one.
    pub offset: u64,
    /// Of a copy: the position in the destination file, in bytes.
    pub to_offset: u64,
    /// Bytes read, written, copied, punched or allocated; of a SETATTR that sets it, the file's new length.
    pub length: u64,
    /// Flags of an open or a write (`O_…`), of a rename (`RENAME_…`) or an allocation (`FALLOC_FL_…`).
    pub flags: u32,
    /// The name it was applied to.
    pub name: Option<&'a CStr>,
    /// Of a rename: the new directory and name.
    pub new_name: Option<(u64, &'a CStr)>,
    /// Its errno; 0 on success.
    pub errno: i32,
    /// The process that issued the request.
    pub pid: u32,
    /// The thread that served it, numbered from 0.
    pub worker: usize,
}

/// Receives every operation. Runs in the thread that serves the request, so time spent here delays the answer.
pub trait Observer: Send + Sync {
    /// Receives one operation.
    fn operation(&self, operation: &Operation<'_>);
}
