//! What an observer is told of an operation.

use std::time::Instant;

use zerocopy::FromBytes;

use super::place::Place;
use super::{Answer, FileSystem};
use crate::observe::Operation;
use crate::proto::wire::{EntryOut, WriteOut, fattr};
use crate::proto::{Op, Request};

impl FileSystem {
    /// `None` for what is no operation of a program: forgetting, interruptions, requests of unknown kind.
    pub(super) fn told<'a>(
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
        let mut told = Operation {
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
        self.detail(request, answer, &mut told);
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
            told.result = if entry.nodeid == 0 { 0 } else { self.object(entry.nodeid) };
        }
        if let (Op::CopyFileRange(_), 0, Ok((copied, _))) =
            (request.op, errno, WriteOut::read_from_prefix(out))
        {
            told.length = u64::from(copied.size);
        }
        Some(told)
    }

    fn detail<'a>(&self, request: &Request<'a>, answer: Answer, told: &mut Operation<'a>) {
        match request.op {
            Op::Read(read) => {
                told.offset = read.offset;
                told.length = if let Answer::Bytes(n) = answer { n as u64 } else { u64::from(read.size) };
                told.flags = read.flags;
            }
            Op::Write(write, _) => {
                (told.offset, told.length, told.flags) = (write.offset, u64::from(write.size), write.flags);
            }
            Op::CopyFileRange(copy) => {
                (told.offset, told.to_offset, told.length) = (copy.off_in, copy.off_out, copy.len);
                told.result = self.object(copy.nodeid_out);
            }
            Op::Fallocate(f) => (told.offset, told.length, told.flags) = (f.offset, f.length, f.mode),
            Op::Setattr(set) if set.valid & fattr::SIZE != 0 => told.length = set.size,
            Op::Open(open) | Op::Opendir(open) => told.flags = open.flags,
            Op::Create(create, name) => (told.flags, told.name) = (create.flags, Some(name)),
            Op::Tmpfile(create) => told.flags = create.flags,
            Op::Fsync(sync) | Op::Fsyncdir(sync) => told.flags = sync.fsync_flags,
            Op::Rename { to, flags, name, new_name } => {
                (told.flags, told.name) = (flags, Some(name));
                told.new_name = Some((self.object(to), new_name));
            }
            Op::Lookup(name)
            | Op::Mknod(_, name)
            | Op::Mkdir(_, name)
            | Op::Unlink(name)
            | Op::Rmdir(name)
            | Op::Symlink { name, .. }
            | Op::Link { name, .. } => told.name = Some(name),
            _ => {}
        }
    }

    fn object(&self, nodeid: u64) -> u64 {
        match self.place(nodeid) {
            Place::Object { object, .. } => object,
            _ => nodeid,
        }
    }
}
