//! Attributes: reading, setting and caching by the kernel; free space.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use poolwright_openzfs::node::{Attr, SetAttr, Time};
use poolwright_openzfs::{Errno, Node, NodeResult};

use super::node_id::{self, HEAD, NodeId};
use super::{FileSystem, answer};
use crate::proto::wire::{
    self, AttrOut, GetattrIn, Kstatfs, SetattrIn, Statx, StatxIn, StatxOut, SxTime, fattr,
};

/// A change updates the allocated space only when its transaction group syncs, some seconds later. For this long after a
/// change, the kernel may cache attributes for [`UNSETTLED_TRUST`] only.
const SETTLED: Duration = Duration::from_secs(30);
const UNSETTLED_TRUST: Duration = Duration::from_secs(1);

/// The smallest block size to report in bytes: a new file's record has 512 bytes, which programs would use as the size of
/// their writes.
const MIN_BLOCK: u64 = 4096;

const S_ISUID: u32 = libc::S_ISUID;
const S_ISGID: u32 = libc::S_ISGID;
const S_IXGRP: u32 = libc::S_IXGRP;

/// Attributes in the kernel's format.
pub(super) fn wire_attr(tree: u16, a: &Attr) -> wire::Attr {
    wire::Attr {
        ino: node_id::inode(tree, a.object),
        size: a.size,
        blocks: a.blocks,
        atime: a.atime.seconds as u64,
        mtime: a.mtime.seconds as u64,
        ctime: a.ctime.seconds as u64,
        atimensec: a.atime.nanoseconds,
        mtimensec: a.mtime.nanoseconds,
        ctimensec: a.ctime.nanoseconds,
        mode: a.mode,
        nlink: a.links,
        uid: a.uid,
        gid: a.gid,
        rdev: encode_device(a.device),
        blksize: a.block_size.max(MIN_BLOCK) as u32,
        flags: 0,
    }
}

fn statx_of(tree: u16, a: &Attr) -> Statx {
    let time = |t: Time| SxTime { sec: t.seconds, nsec: t.nanoseconds, reserved: 0 };
    Statx {
        mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
        blksize: a.block_size.max(MIN_BLOCK) as u32,
        nlink: a.links,
        uid: a.uid,
        gid: a.gid,
        mode: a.mode as u16,
        ino: node_id::inode(tree, a.object),
        size: a.size,
        blocks: a.blocks,
        atime: time(a.atime),
        btime: time(a.crtime),
        ctime: time(a.ctime),
        mtime: time(a.mtime),
        rdev_major: a.device.0,
        rdev_minor: a.device.1,
        ..Statx::default()
    }
}

/// Encodes a device number like the kernel's `new_encode_dev`.
pub(super) fn encode_device((major, minor): (u32, u32)) -> u32 {
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & !0xff) << 12
}

/// Decodes a device number encoded by [`encode_device`].
pub(super) fn decode_device(raw: u32) -> (u32, u32) {
    ((raw & 0xf_ff00) >> 8, (raw & 0xff) | (raw >> 12 & 0xf_ff00))
}

fn time_at(seconds: u64, nanoseconds: u32, now: bool) -> Time {
    if !now {
        return Time { seconds: seconds as i64, nanoseconds: nanoseconds.min(999_999_999) };
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { seconds: since.as_secs() as i64, nanoseconds: since.subsec_nanos() }
}

impl FileSystem {
    pub(super) fn attr_trust(&self, tree: u16, attr: &Attr, now: SystemTime) -> Duration {
        let content = attr.size > 0 && attr.mode & libc::S_IFMT != libc::S_IFLNK;
        if tree != HEAD || self.options.readonly || !content {
            return self.options.trust;
        }
        let changed = UNIX_EPOCH + Duration::from_secs(attr.ctime.seconds.max(0) as u64);
        match now.duration_since(changed) {
            Ok(ago) if ago > SETTLED => self.options.trust,
            _ => UNSETTLED_TRUST.min(self.options.trust),
        }
    }

    fn attr_out(&self, tree: u16, attr: &Attr) -> AttrOut {
        let valid = self.attr_trust(tree, attr, SystemTime::now());
        AttrOut {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            dummy: 0,
            attr: wire_attr(tree, attr),
        }
    }

    /// The node of a request, by its handle if it has one.
    pub(super) fn by_handle(&self, nodeid: u64, fh: Option<u64>) -> NodeResult<(u16, Node)> {
        match fh {
            Some(fh) if fh != 0 => Ok((node_id::tree(nodeid), self.handles.get(fh)?.node.clone())),
            _ => self.node(nodeid),
        }
    }

    pub(super) fn getattr(&self, nodeid: u64, get: &GetattrIn, out: &mut [u8]) -> NodeResult<usize> {
        if let Some(attr) = self.control_attr(nodeid)? {
            let attr = AttrOut { attr_valid: 1, attr_valid_nsec: 0, dummy: 0, attr };
            return answer(out, &attr);
        }
        let (tree, node) =
            self.by_handle(nodeid, (get.getattr_flags & wire::GETATTR_FH != 0).then_some(get.fh))?;
        answer(out, &self.attr_out(tree, &node.attr()?))
    }

    pub(super) fn statx(&self, nodeid: u64, get: &StatxIn, out: &mut [u8]) -> NodeResult<usize> {
        if !matches!(self.decode(nodeid), NodeId::Object { .. }) {
            return Err(Errno(libc::ENOSYS));
        }
        let (tree, node) =
            self.by_handle(nodeid, (get.getattr_flags & wire::GETATTR_FH != 0).then_some(get.fh))?;
        let attr = node.attr()?;
        let valid = self.attr_trust(tree, &attr, SystemTime::now());
        let full = StatxOut {
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            stat: statx_of(tree, &attr),
            ..StatxOut::default()
        };
        answer(out, &full)
    }

    pub(super) fn setattr(&self, nodeid: u64, set: &SetattrIn, out: &mut [u8]) -> NodeResult<usize> {
        self.changeable(nodeid)?;
        let has = |bit: u32| set.valid & bit != 0;
        let (tree, node) = self.by_handle(nodeid, has(fattr::FH).then_some(set.fh))?;
        let mut change = SetAttr {
            mode: has(fattr::MODE).then_some(set.mode & 0o7777),
            uid: has(fattr::UID).then_some(set.uid),
            gid: has(fattr::GID).then_some(set.gid),
            size: has(fattr::SIZE).then_some(set.size),
            atime: has(fattr::ATIME).then(|| time_at(set.atime, set.atimensec, has(fattr::ATIME_NOW))),
            mtime: has(fattr::MTIME).then(|| time_at(set.mtime, set.mtimensec, has(fattr::MTIME_NOW))),
        };
        let chown = has(fattr::UID) || has(fattr::GID);
        // `chown(-1, -1)`, and a request of the kernel to clear set-id bits, arrive without any attribute to set.
        let nothing = change.mode.is_none()
            && change.size.is_none()
            && change.atime.is_none()
            && change.mtime.is_none()
            && !chown
            && !has(fattr::CTIME);
        if chown || nothing || has(fattr::KILL_SUIDGID) {
            let mode = change.mode.unwrap_or_else(|| node.mode());
            change.mode = without_set_ids(node.mode() & libc::S_IFMT | mode & 0o7777).or(change.mode);
        }
        if chown || change.size.is_some() {
            self.drop_capabilities(&node)?;
        }
        let attr = node.set_attr(&change)?;
        answer(out, &self.attr_out(tree, &attr))
    }

    /// Clears set-id bits after an unprivileged process has changed the content.
    pub(super) fn drop_set_ids(&self, node: &Node) -> NodeResult<()> {
        match without_set_ids(node.mode()) {
            Some(mode) => node.set_attr(&SetAttr { mode: Some(mode), ..SetAttr::default() }).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn statfs(&self, out: &mut [u8]) -> NodeResult<usize> {
        let stats = self.head.fs_stats()?;
        let block = MIN_BLOCK;
        // `available` is limited by the quota or the pool, whichever is less. The total is used plus available space.
        let free = stats.available / block;
        let full = Kstatfs {
            blocks: stats.referenced.div_ceil(block) + free,
            bfree: free,
            bavail: free,
            files: stats.objects_used.saturating_add(stats.objects_free),
            ffree: stats.objects_free,
            bsize: block as u32,
            namelen: 255,
            frsize: block as u32,
            ..Kstatfs::default()
        };
        answer(out, &full)
    }
}

/// The permissions without the set-id bits that a change of content or owner clears; `None` if it clears none. It does not
/// clear the set-group-id bit of a file that the group may not execute: that bit marks mandatory locking.
fn without_set_ids(mode: u32) -> Option<u32> {
    if mode & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let group = if mode & S_IXGRP != 0 { S_ISGID } else { 0 };
    let gone = mode & (S_ISUID | group);
    (gone != 0).then_some(mode & 0o7777 & !gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_as_the_kernel_has_them() {
        for device in [(0, 0), (1, 3), (8, 17), (259, 1_048_575), (4095, 256)] {
            assert_eq!(decode_device(encode_device(device)), device);
        }
        assert_eq!(encode_device((8, 1)), 0x801);
    }

    #[test]
    fn set_ids_go_from_files_alone() {
        assert_eq!(without_set_ids(0o104_755), Some(0o755));
        assert_eq!(without_set_ids(0o106_755), Some(0o755));
        assert_eq!(without_set_ids(0o102_745), None, "no execution by the group");
        assert_eq!(without_set_ids(0o100_755), None);
        assert_eq!(without_set_ids(0o042_755), None, "a directory");
    }
}
