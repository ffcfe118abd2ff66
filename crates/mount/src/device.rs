//! `/dev/fuse`: the descriptor that requests come from and answers go to.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::proto::wire::{self, InvalEntryOut, InvalInodeOut, OutHeader};
use crate::{Error, Result};

const PATH: &str = "/dev/fuse";

/// `_IOR(229, 0, uint32_t)`: makes a fresh descriptor one more of a mount that another belongs to.
const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;

/// Opens the device.
pub(crate) fn open() -> Result<OwnedFd> {
    let file = OpenOptions::new().read(true).write(true).open(PATH).map_err(Error::NoDevice)?;
    Ok(file.into())
}

/// One more descriptor of the mount that `of` belongs to: what is read from it is answered through it, on a queue of
/// its own.
#[allow(unsafe_code)]
pub(crate) fn another(of: &OwnedFd) -> Result<OwnedFd> {
    let fd = open()?;
    let old = of.as_raw_fd() as u32;
    // SAFETY: the call reads one u32 through the pointer and keeps nothing; both descriptors are open.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), FUSE_DEV_IOC_CLONE, &raw const old) };
    match done {
        0 => Ok(fd),
        _ => {
            Err(Error::Device { doing: "one more descriptor of the mount", why: io::Error::last_os_error() })
        }
    }
}

/// What reading gave.
pub(crate) enum Read {
    /// A request of so many bytes.
    Request(usize),
    /// Nothing this time.
    Again,
    /// It is unmounted.
    Unmounted,
}

/// Waits for a request.
pub(crate) fn read(fd: &OwnedFd, into: &mut [u8]) -> Result<Read> {
    match rustix::io::read(fd, into) {
        Ok(n) => Ok(Read::Request(n)),
        // ENOENT: the request was taken back while it was being read
        Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => Ok(Read::Again),
        // ECONNABORTED: the same, of a connection that somebody has aborted
        Err(Errno::NODEV | Errno::CONNABORTED) => Ok(Read::Unmounted),
        Err(why) => Err(Error::Device { doing: "reading a request of the kernel", why: why.into() }),
    }
}

/// Answers. False: nobody waits for this answer any more.
pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> Result<bool> {
    match rustix::io::write(fd, bytes) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::NODEV) => Ok(false),
        Err(why) => Err(Error::Device { doing: "answering the kernel", why: why.into() }),
    }
}

/// Tells the kernel that what it knows of a file is no longer so: attributes, and data from `offset` on (`length` 0: to
/// the end; a negative offset: no data).
pub(crate) fn forget_inode(fd: impl AsFd, nodeid: u64, offset: i64, length: i64) -> Result<()> {
    let body = InvalInodeOut { ino: nodeid, off: offset, len: length };
    notify(fd, wire::NOTIFY_INVAL_INODE, &[body.as_bytes()])
}

/// Tells the kernel that what it knows of a name is no longer so.
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
    // ENOENT, given as false: the kernel does not know it, so there is nothing to forget.
    write(fd, &message).map(drop)
}
