//! `/dev/fuse`: reading requests, writing answers and notifications.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::proto::wire::{self, InvalEntryOut, InvalInodeOut, OutHeader};
use crate::{Error, Result};

const PATH: &str = "/dev/fuse";

/// `_IOR(229, 0, uint32_t)`: attaches a new descriptor to the mount of an existing one.
const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;

/// Opens the device.
pub(crate) fn open() -> Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).open(PATH).map_err(Error::NoDevice)?;
    Ok(file.into())
}

/// Opens another descriptor of the mount that `of` belongs to. It has its own queue: a request read from it is answered
/// through it.
#[allow(unsafe_code)]
pub(crate) fn another(of: &OwnedFd) -> Result<OwnedFd> {
    let fd = open()?;
    let old = of.as_raw_fd() as u32;
    // SAFETY: the call reads one u32 through the pointer and keeps nothing; both descriptors are open.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), FUSE_DEV_IOC_CLONE, &raw const old) };
    match done {
        0 => Ok(fd),
        _ => {
            Err(Error::Device { doing: "cloning a descriptor of the mount", why: io::Error::last_os_error() })
        }
    }
}

/// The result of reading from the device.
pub(crate) enum Read {
    /// A request of this length in bytes.
    Request(usize),
    /// No request; read again.
    Again,
    /// The file system is unmounted.
    Unmounted,
}

/// Waits for a request.
pub(crate) fn read(fd: &OwnedFd, into: &mut [u8]) -> Result<Read> {
    match rustix::io::read(fd, into) {
        Ok(n) => Ok(Read::Request(n)),
        // ENOENT: the request was interrupted while it was being read.
        Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Read::Again),
        // ECONNABORTED: the connection was aborted.
        Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Read::Unmounted),
        Err(why) => Err(Error::Device { doing: "reading a request from the kernel", why: why.into() }),
    }
}

/// Sends an answer. Returns false if no caller waits for it any more.
pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> Result<bool> {
    match rustix::io::write(fd, bytes) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::NODEV) => Ok(false),
        Err(why) => Err(Error::Device { doing: "answering the kernel", why: why.into() }),
    }
}

/// Drops a file's attributes from the kernel's cache, and its data from `offset` on (`length` 0: to the end; a negative
/// offset: no data).
pub(crate) fn forget_inode(fd: impl AsFd, nodeid: u64, offset: i64, length: i64) -> Result<()> {
    let body = InvalInodeOut { ino: nodeid, off: offset, len: length };
    notify(fd, wire::NOTIFY_INVAL_INODE, &[body.as_bytes()])
}

/// Drops a name from the kernel's cache.
pub(crate) fn forget_entry(fd: impl AsFd, parent: u64, name: &std::ffi::CStr) -> Result<()> {
    let body = InvalEntryOut { parent, namelen: name.count_bytes() as u32, flags: 0 };
    notify(fd, wire::NOTIFY_INVAL_ENTRY, &[body.as_bytes(), name.to_bytes_with_nul()])
}

fn notify(fd: impl AsFd, code: i32, parts: &[&[u8]]) -> Result<()> {
    let len = size_of::<OutHeader>() + parts.iter().map(|p| p.len()).sum::<usize>();
    let header = OutHeader { len: len as u32, error: code, unique: 0 };
    let mut message = Vec::with_capacity(len);
    message.extend_from_slice(header.as_bytes());
    parts.iter().for_each(|part| message.extend_from_slice(part));
    // `write` returns false for ENOENT: the kernel does not know the node or name, so nothing is cached.
    write(fd, &message).map(drop)
}
