//! Extended attributes.

use std::ffi::CStr;
use std::sync::atomic::Ordering::Relaxed;

use poolwright_openzfs::{Errno, NodeResult};

use super::data::CAPABILITIES;
use super::node_id::NodeId;
use super::{FileSystem, answer, answer_bytes};
use crate::proto::SetXattr;
use crate::proto::wire::{InHeader, XattrOut};

/// The largest value in bytes that Linux passes to a file system.
const MOST: usize = 65_536;

/// Whether an attribute is not supported: access control lists (`acltype=off` is the default) and the rest of `system.`.
fn unsupported(name: &CStr) -> bool {
    name.to_bytes().starts_with(b"system.")
}

impl FileSystem {
    pub(super) fn getxattr(&self, nodeid: u64, name: &CStr, room: u32, out: &mut [u8]) -> NodeResult<usize> {
        if unsupported(name) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if !matches!(self.decode(nodeid), NodeId::Object { .. }) {
            return Err(Errno(libc::ENODATA));
        }
        sized(&self.node(nodeid)?.1.xattr(name)?, room, out)
    }

    pub(super) fn listxattr(&self, header: &InHeader, room: u32, out: &mut [u8]) -> NodeResult<usize> {
        if !matches!(self.decode(header.nodeid), NodeId::Object { .. }) {
            return sized(&[], room, out);
        }
        let all = self.node(header.nodeid)?.1.xattr_names()?;
        let privileged = header.uid == 0;
        let mut shown = Vec::with_capacity(all.len());
        for name in all.split_inclusive(|b| *b == 0) {
            let hidden = name.starts_with(b"system.") || !privileged && name.starts_with(b"trusted.");
            if !hidden {
                shown.extend_from_slice(name);
            }
        }
        sized(&shown, room, out)
    }

    pub(super) fn setxattr(&self, nodeid: u64, set: &SetXattr<'_>) -> NodeResult<usize> {
        if unsupported(set.name) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        if set.value.len() > MOST {
            return Err(Errno(libc::E2BIG));
        }
        self.writable(nodeid)?.set_xattr(set.name, set.value, set.flags)?;
        if set.name == CAPABILITIES {
            self.capabilities.fetch_add(1, Relaxed);
        }
        Ok(0)
    }

    pub(super) fn removexattr(&self, nodeid: u64, name: &CStr) -> NodeResult<usize> {
        if unsupported(name) {
            return Err(Errno(libc::EOPNOTSUPP));
        }
        self.writable(nodeid)?.remove_xattr(name).map(|()| 0)
    }
}

/// Answers with a value, or with its length if the caller's buffer size is 0.
fn sized(value: &[u8], room: u32, out: &mut [u8]) -> NodeResult<usize> {
    match room as usize {
        0 => answer(out, &XattrOut { size: value.len() as u32, padding: 0 }),
        room if value.len() > room => Err(Errno(libc::ERANGE)),
        _ => answer_bytes(out, value),
    }
}
