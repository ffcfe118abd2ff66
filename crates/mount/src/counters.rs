//! Counters of served requests, which can be read while requests are being served.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::proto::{LIMIT, Opcode};

/// One thread's counters, on their own cache lines.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Tally {
    ops: [AtomicU64; LIMIT],
    failed: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        Tally {
            ops: [const { AtomicU64::new(0) }; LIMIT],
            failed: AtomicU64::new(0),
            read: AtomicU64::new(0),
            written: AtomicU64::new(0),
        }
    }

    pub(crate) fn count(&self, op: Option<Opcode>, failed: bool) {
        // The protocol has no operation 0; its slot counts unknown opcodes.
        add(&self.ops[op.map_or(0, |op| op as usize)], 1);
        if failed {
            add(&self.failed, 1);
        }
    }

    pub(crate) fn read(&self, bytes: usize) {
        add(&self.read, bytes as u64);
    }

    pub(crate) fn written(&self, bytes: usize) {
        add(&self.written, bytes as u64);
    }
}

/// Adds without a locked instruction, because only one thread writes.
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Relaxed) + n, Relaxed);
}

/// Requests and bytes that a mount has served since it was mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counters {
    ops: [u64; LIMIT],
    /// Requests answered with an error, including lookups of names that do not exist.
    pub failed: u64,
    /// Bytes returned by READ.
    pub read_bytes: u64,
    /// Bytes accepted by WRITE.
    pub written_bytes: u64,
}

impl Counters {
    pub(crate) fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Counters {
        let mut sum = Counters { ops: [0; LIMIT], failed: 0, read_bytes: 0, written_bytes: 0 };
        for tally in tallies {
            for (to, from) in sum.ops.iter_mut().zip(&tally.ops) {
                *to += from.load(Relaxed);
            }
            sum.failed += tally.failed.load(Relaxed);
            sum.read_bytes += tally.read.load(Relaxed);
            sum.written_bytes += tally.written.load(Relaxed);
        }
        sum
    }

    /// Number of requests of this kind.
    pub fn ops(&self, op: Opcode) -> u64 {
        self.ops[op as usize]
    }

    /// Number of all requests, including those of unknown kind.
    pub fn total(&self) -> u64 {
        self.ops.iter().sum()
    }

    /// The kinds of requests served, with their numbers.
    pub fn by_kind(&self) -> impl Iterator<Item = (Opcode, u64)> + '_ {
        Opcode::ALL.iter().map(|op| (*op, self.ops(*op))).filter(|(_, n)| *n > 0)
    }
}
