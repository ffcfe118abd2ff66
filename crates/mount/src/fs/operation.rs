//! Builds the [`Operation`] record passed to the observer after each request.

use std::time::Instant;

use zerocopy::FromBytes;

use super::node_id::NodeId;
use super::{Answer, FileSystem};
use crate::observe::Operation;
use crate::proto::wire::{EntryOut, WriteOut, fattr};
use crate::proto::{Op, Request};

impl FileSystem {
    /// Returns `None` for requests no program issued (FORGET, INTERRUPT, unknown opcodes).
    pub(super) fn operation<'a>(
        &self,
        request: &Request<'a>,
        answer: Answer,
        out: &[u8],
        start: Instant,
        worker: usize,
    ) -> Option<Operation<'a>> {
        let errno = match answer {
            Answer::None => return None,
            Answer::Bytes(_) => 0,
            Answer::Error(errno) => errno,
        };
        let mut operation = Operation {
            start,
            latency: start.elapsed().as_nanos() as u64,
            op: request.opcode?,
            object: self.object(request.header.nodeid),
            result: 0,
            offset: 0,
            to_offset: 0,
            length: 0,
            flags: 0,
            name: None,
            new_name: None,
            errno,
            pid: request.header.pid,
            worker,
        };
        self.detail(request, answer, &mut operation);
        let made = matches!(
            request.op,
            Op::Lookup(_)
                | Op::Symlink { .. }
                | Op::Mknod(..)
                | Op::Mkdir(..)
                | Op::Link { .. }
                | Op::Create(..)
                | Op::Tmpfile(_)
        );
        if let (true, 0, Ok((entry, _))) = (made, errno, EntryOut::read_from_prefix(out)) {
            operation.result = if entry.nodeid == 0 { 0 } else { self.object(entry.nodeid) };
        }
        if let (Op::CopyFileRange(_), 0, Ok((copied, _))) =
            (request.op, errno, WriteOut::read_from_prefix(out))
        {
            operation.length = u64::from(copied.size);
        }
        Some(operation)
    }

    fn detail<'a>(&self, request: &Request<'a>, answer: Answer, operation: &mut Operation<'a>) {
        match request.op {
            Op::Read(read) => {
                operation.offset = read.offset;
                operation.length =
                    if let Answer::Bytes(n) = answer { n as u64 } else { u64::from(read.size) };
                operation.flags = read.flags;
            }
            Op::Write(write, _) => {
                (operation.offset, operation.length, operation.flags) =
                    (write.offset, u64::from(write.size), write.flags);
            }
            Op::CopyFileRange(copy) => {
                (operation.offset, operation.to_offset, operation.length) =
                    (copy.off_in, copy.off_out, copy.len);
                operation.result = self.object(copy.nodeid_out);
            }
            Op::Fallocate(f) => {
                (operation.offset, operation.length, operation.flags) = (f.offset, f.length, f.mode)
            }
            Op::Setattr(set) if set.valid & fattr::SIZE != 0 => operation.length = set.size,
            Op::Open(open) | Op::Opendir(open) => operation.flags = open.flags,
            Op::Create(create, name) => (operation.flags, operation.name) = (create.flags, Some(name)),
            Op::Tmpfile(create) => operation.flags = create.flags,
            Op::Fsync(sync) | Op::Fsyncdir(sync) => operation.flags = sync.fsync_flags,
            Op::Rename { to, flags, name, new_name } => {
                (operation.flags, operation.name) = (flags, Some(name));
                operation.new_name = Some((self.object(to), new_name));
            }
            Op::Lookup(name)
            | Op::Mknod(_, name)
            | Op::Mkdir(_, name)
            | Op::Unlink(name)
            | Op::Rmdir(name)
            | Op::Symlink { name, .. }
            | Op::Link { name, .. } => operation.name = Some(name),
            _ => {}
        }
    }

    fn object(&self, nodeid: u64) -> u64 {
        match self.decode(nodeid) {
            NodeId::Object { object, .. } => object,
            _ => nodeid,
        }
    }
}
