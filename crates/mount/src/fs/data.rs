//! Files: opening, reading, writing, allocation, holes, durability.

use std::sync::atomic::Ordering::Relaxed;

use poolwright_openzfs::node::SetAttr;
use poolwright_openzfs::{Errno, IoFlags, Node, NodeResult};

use super::handles::Handle;
use super::{FileSystem, answer};
use crate::options::Caching;
use crate::proto::wire::{
    CopyFileRangeIn, FallocateIn, InHeader, LseekIn, LseekOut, OPEN_KILL_SUIDGID, OpenIn, OpenOut, ReadIn,
    WRITE_CACHE, WRITE_KILL_SUIDGID, WriteIn, WriteOut, fopen,
};

const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
const ZERO_RANGE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;

/// The most bytes that one request copies: the answer has 32 bits for them, and the waiting program cannot be interrupted.
const MAX_COPIED: u64 = 1 << 30;

/// The extended attribute that holds a program's capabilities.
pub(super) const CAPABILITIES: &std::ffi::CStr = c"security.capability";

impl FileSystem {
    pub(super) fn open(&self, nodeid: u64, open: &OpenIn, out: &mut [u8]) -> NodeResult<usize> {
        let flags = open.flags as i32;
        if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
            self.changeable(nodeid)?;
        }
        let (tree, node) = self.node(nodeid)?;
        self.opening(&node, flags, open.open_flags)?;
        let fh = self.handles.open(tree, node, flags);
        answer(out, &OpenOut { fh, open_flags: self.open_flags(flags), padding: 0 })
    }

    /// Truncates an existing file if it is opened with `O_TRUNC`.
    pub(super) fn opening(&self, node: &Node, flags: i32, open_flags: u32) -> NodeResult<()> {
        if flags & libc::O_TRUNC == 0 {
            return Ok(());
        }
        if open_flags & OPEN_KILL_SUIDGID != 0 {
            self.drop_set_ids(node)?;
        }
        self.drop_capabilities(node)?;
        // Not `truncate`: the times must change even if the length does not.
        node.set_attr(&SetAttr { size: Some(0), ..SetAttr::default() }).map(drop)
    }

    pub(super) fn open_flags(&self, flags: i32) -> u32 {
        let direct = self.options.caching == Caching::Through || flags & libc::O_DIRECT != 0;
        // KEEP_CACHE keeps the pages of mappings; changes that bypass the page cache notify the kernel.
        let direct = if direct { fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES } else { 0 };
        direct | fopen::KEEP_CACHE
    }

    /// Reads from the ARC, or with `O_DIRECT` from the pool, into the answer.
    pub(super) fn read(&self, read: &ReadIn, out: &mut [u8]) -> NodeResult<usize> {
        let handle = self.handles.get(read.fh)?;
        let room = out.len().min(read.size as usize);
        let flags = IoFlags { direct: read.flags as i32 & libc::O_DIRECT != 0, sync: false };
        handle.node.read_with(read.offset, &mut out[..room], flags)
    }

    /// Writes directly from the request into the engine. The kernel determines the offset of an appending write while it
    /// holds the file's lock.
    pub(super) fn write(&self, write: &WriteIn, data: &[u8], out: &mut [u8]) -> NodeResult<usize> {
        let handle = self.handles.get(write.fh)?;
        if write.write_flags & WRITE_CACHE != 0 && self.fenced.load(Relaxed) {
            // The page belongs to the tree that a rollback has discarded, so discard it too.
            return answer(out, &WriteOut { size: write.size, padding: 0 });
        }
        if handle.resized && write.flags as i32 & libc::O_APPEND != 0 {
            return Err(Errno(libc::EIO)); // the kernel's offset is the end of the file before the rollback
        }
        if write.write_flags & WRITE_KILL_SUIDGID != 0 {
            self.drop_set_ids(&handle.node)?;
        }
        self.drop_capabilities_once(&handle)?;
        let flags = IoFlags {
            sync: write.flags as i32 & libc::O_DSYNC != 0, // O_SYNC includes it
            // Pages of a mapped file are in the page cache, however it was opened.
            direct: write.flags as i32 & libc::O_DIRECT != 0 && write.write_flags & WRITE_CACHE == 0,
        };
        handle.node.write_with(write.offset, data, flags)?;
        answer(out, &WriteOut { size: write.size, padding: 0 })
    }

    /// Removes a program's capabilities, because its content changes.
    pub(super) fn drop_capabilities(&self, node: &Node) -> NodeResult<()> {
        if node.mode() & libc::S_IFMT != libc::S_IFREG {
            return Ok(());
        }
        match node.remove_xattr(CAPABILITIES) {
            Err(Errno(libc::ENODATA)) => Ok(()),
            done => done,
        }
    }

    /// Like [`FileSystem::drop_capabilities`], but only once per open file until capabilities are set on some file.
    fn drop_capabilities_once(&self, handle: &Handle) -> NodeResult<()> {
        let now = self.capabilities.load(Relaxed);
        if handle.no_capabilities_at.load(Relaxed) == now {
            return Ok(());
        }
        self.drop_capabilities(&handle.node)?;
        handle.no_capabilities_at.store(now, Relaxed);
        Ok(())
    }

    pub(super) fn fsync(&self, nodeid: u64, fh: u64) -> NodeResult<usize> {
        if self.changeable(nodeid).is_err() {
            return Ok(0); // snapshots and read-only mounts have no dirty data
        }
        self.by_handle(nodeid, Some(fh))?.1.sync().map(|()| 0)
    }

    pub(super) fn fallocate(&self, nodeid: u64, f: &FallocateIn) -> NodeResult<usize> {
        self.changeable(nodeid)?;
        let handle = self.handles.get(f.fh)?;
        let node = &handle.node;
        let end = f.offset.checked_add(f.length).ok_or(Errno(libc::EFBIG))?;
        let size = node.size();
        let hole = |node: &Node| match end.min(size).checked_sub(f.offset) {
            Some(len) if len > 0 => node.punch(f.offset, len),
            _ => Ok(()),
        };
        let keep = f.mode & KEEP_SIZE != 0;
        match f.mode & !KEEP_SIZE {
            // A copy-on-write file system cannot reserve blocks for a file, so only check the free space.
            0 if self.head.fs_stats()?.available < f.length => return Err(Errno(libc::ENOSPC)),
            0 => {}
            PUNCH_HOLE if keep => hole(node)?,
            ZERO_RANGE => hole(node)?,
            _ => return Err(Errno(libc::EOPNOTSUPP)),
        }
        if !keep {
            // Not `truncate`: the kernel's flusher may be writing beyond this end.
            node.extend(end)?;
        }
        self.drop_capabilities_once(&handle)?;
        Ok(0)
    }

    /// Copies within the engine, which shares whole records instead of copying them. Before the request, the kernel writes
    /// back its pages of both ranges; afterwards, it drops those of the target and sends another request for the rest.
    pub(super) fn copy(
        &self,
        header: &InHeader,
        copy: &CopyFileRangeIn,
        out: &mut [u8],
    ) -> NodeResult<usize> {
        self.changeable(copy.nodeid_out)?;
        let (from, to) = (self.handles.get(copy.fh_in)?, self.handles.get(copy.fh_out)?);
        // Unlike a WRITE, the request does not say whether its process may keep set-id bits. Root may.
        if header.uid != 0 {
            self.drop_set_ids(&to.node)?;
        }
        self.drop_capabilities_once(&to)?;
        let len = copy.len.min(MAX_COPIED);
        let done = from.node.copy_to(copy.off_in, &to.node, copy.off_out, len, to.sync)?;
        answer(out, &WriteOut { size: done as u32, padding: 0 })
    }

    pub(super) fn lseek(&self, seek: &LseekIn, out: &mut [u8]) -> NodeResult<usize> {
        if self.options.caching == Caching::Writeback {
            // The kernel does not write its pages back first, so the engine does not know all data. After ENOSYS, the kernel
            // treats the whole file as data.
            return Err(Errno(libc::ENOSYS));
        }
        let handle = self.handles.get(seek.fh)?;
        let hole = match seek.whence as i32 {
            libc::SEEK_HOLE => true,
            libc::SEEK_DATA => false,
            _ => return Err(Errno(libc::EINVAL)),
        };
        let offset = handle.node.seek(seek.offset, hole)?;
        answer(out, &LseekOut { offset })
    }
}
