//! Decoding of requests. Never panics, whatever the input.

use std::ffi::CStr;

use zerocopy::{FromBytes, Immutable, KnownLayout};

use super::wire::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, FallocateIn, FlushIn, ForgetIn, ForgetOne, FsyncIn, GetattrIn,
    GetxattrIn, InHeader, InitIn, InitInExt, InterruptIn, LinkIn, LseekIn, MkdirIn, MknodIn, OpenIn, ReadIn,
    ReleaseIn, Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, WriteIn,
};
use super::{Opcode, wire};

/// A request that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {opcode:?} request of {len} bytes: {why}")]
pub struct Malformed {
    /// Its opcode.
    pub opcode: Opcode,
    /// Its length in bytes.
    pub len: usize,
    /// The missing part.
    pub why: &'static str,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The header: caller, opcode and node.
    pub header: InHeader,
    /// The operation's kind, if it is known.
    pub opcode: Option<Opcode>,
    /// The operation with its arguments.
    pub op: Op<'a>,
}

/// Arguments of SETXATTR.
#[derive(Clone, Copy, Debug)]
pub struct SetXattr<'a> {
    /// The flags of `setxattr(2)`.
    pub flags: u32,
    /// The attribute's name, namespace included.
    pub name: &'a CStr,
    /// Its value.
    pub value: &'a [u8],
}

/// The operations that are served, with their arguments.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the kernel's names
pub enum Op<'a> {
    Lookup(&'a CStr),
    Forget(u64),
    /// Pairs of node and count, see [`Op::forgets`].
    BatchForget(&'a [u8]),
    Getattr(GetattrIn),
    Statx(StatxIn),
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a CStr,
        target: &'a CStr,
    },
    Mknod(MknodIn, &'a CStr),
    Mkdir(MkdirIn, &'a CStr),
    Unlink(&'a CStr),
    Rmdir(&'a CStr),
    Rename {
        to: u64,
        flags: u32,
        name: &'a CStr,
        new_name: &'a CStr,
    },
    Link {
        node: u64,
        name: &'a CStr,
    },
    Open(OpenIn),
    Read(ReadIn),
    Write(WriteIn, &'a [u8]),
    Statfs,
    Release(ReleaseIn),
    Fsync(FsyncIn),
    Setxattr(SetXattr<'a>),
    Getxattr {
        room: u32,
        name: &'a CStr,
    },
    Listxattr {
        room: u32,
    },
    Removexattr(&'a CStr),
    Flush(FlushIn),
    Init(InitIn, u32),
    Opendir(OpenIn),
    Readdir(ReadIn),
    Releasedir(ReleaseIn),
    Fsyncdir(FsyncIn),
    Create(CreateIn, &'a CStr),
    Interrupt(InterruptIn),
    Destroy,
    Fallocate(FallocateIn),
    Readdirplus(ReadIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    Syncfs,
    Tmpfile(CreateIn),
    /// An operation that is not served, known or not: answered with `ENOSYS`.
    Unserved,
}

impl Op<'_> {
    /// Node and count of each entry of a `BATCH_FORGET`.
    pub fn forgets(bytes: &[u8]) -> impl Iterator<Item = ForgetOne> + '_ {
        bytes.chunks_exact(size_of::<ForgetOne>()).filter_map(|one| ForgetOne::read_from_bytes(one).ok())
    }
}

/// The bytes after a request's header.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The operation's structure, if the transport delivers it separately.
    pub head: Option<&'a [u8]>,
    /// All other bytes.
    pub rest: &'a [u8],
}

/// [`Parts`] while they are being decoded.
struct Body<'a> {
    parts: Parts<'a>,
    opcode: Opcode,
    len: usize,
}

impl<'a> Body<'a> {
    fn wrong(&self, why: &'static str) -> Malformed {
        Malformed { opcode: self.opcode, len: self.len, why }
    }

    /// Reads the operation's structure. Must be called once, before the other functions.
    fn head<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Malformed> {
        if let Some(head) = self.parts.head {
            return match T::read_from_prefix(head) {
                Ok((value, _)) => Ok(value),
                Err(_) => Err(self.wrong("truncated structure")),
            };
        }
        self.next()
    }

    /// Reads another structure.
    fn next<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Result<T, Malformed> {
        match T::read_from_prefix(self.parts.rest) {
            Ok((value, rest)) => {
                self.parts.rest = rest;
                Ok(value)
            }
            Err(_) => Err(self.wrong("truncated structure")),
        }
    }

    /// Reads a name, up to its NUL byte.
    fn name(&mut self) -> Result<&'a CStr, Malformed> {
        let name =
            CStr::from_bytes_until_nul(self.parts.rest).map_err(|_| self.wrong("unterminated name"))?;
        self.parts.rest = &self.parts.rest[name.to_bytes_with_nul().len()..];
        Ok(name)
    }

    /// Reads this many bytes.
    fn bytes(&mut self, len: u32) -> Result<&'a [u8], Malformed> {
        match self.parts.rest.split_at_checked(len as usize) {
            Some((bytes, rest)) => {
                self.parts.rest = rest;
                Ok(bytes)
            }
            None => Err(self.wrong("truncated data")),
        }
    }
}

impl<'a> Request<'a> {
    /// Decodes a request as `/dev/fuse` delivers it, in one buffer. Returns `None` if the header is incomplete.
    pub fn parse(bytes: &'a [u8]) -> Option<(InHeader, Result<Request<'a>, Malformed>)> {
        let (header, rest) = InHeader::read_from_prefix(bytes).ok()?;
        let extensions = usize::from(header.total_extlen) * 8;
        // Extensions are at the end. None was requested, but one must not be taken for a name.
        let rest = &rest[..rest.len().saturating_sub(extensions)];
        Some((header, decode(header, Parts { head: None, rest })))
    }
}

/// Decodes a request from its header and the bytes after it.
///
/// # Errors
/// [`Malformed`] if the bytes are too short for the operation.
pub fn decode<'a>(header: InHeader, parts: Parts<'a>) -> Result<Request<'a>, Malformed> {
    let Some(opcode) = Opcode::from_number(header.opcode) else {
        return Ok(Request { header, opcode: None, op: Op::Unserved });
    };
    let len = parts.rest.len() + parts.head.map_or(0, <[u8]>::len) + size_of::<InHeader>();
    let op = operation(opcode, Body { parts, opcode, len })?;
    Ok(Request { header, opcode: Some(opcode), op })
}

fn operation<'a>(opcode: Opcode, mut b: Body<'a>) -> Result<Op<'a>, Malformed> {
    Ok(match opcode {
        Opcode::Lookup => Op::Lookup(b.name()?),
        Opcode::Forget => Op::Forget(b.head::<ForgetIn>()?.nlookup),
        Opcode::BatchForget => {
            let count = b.head::<BatchForgetIn>()?.count;
            let len = count.checked_mul(size_of::<ForgetOne>() as u32);
            Op::BatchForget(b.bytes(len.unwrap_or(u32::MAX))?)
        }
        Opcode::Getattr => Op::Getattr(b.head()?),
        Opcode::Statx => Op::Statx(b.head()?),
        Opcode::Setattr => Op::Setattr(b.head()?),
        Opcode::Readlink => Op::Readlink,
        Opcode::Symlink => Op::Symlink { name: b.name()?, target: b.name()? },
        Opcode::Mknod => Op::Mknod(b.head()?, b.name()?),
        Opcode::Mkdir => Op::Mkdir(b.head()?, b.name()?),
        Opcode::Unlink => Op::Unlink(b.name()?),
        Opcode::Rmdir => Op::Rmdir(b.name()?),
        Opcode::Rename => {
            let fixed: RenameIn = b.head()?;
            Op::Rename { to: fixed.newdir, flags: 0, name: b.name()?, new_name: b.name()? }
        }
        Opcode::Rename2 => {
            let fixed: Rename2In = b.head()?;
            Op::Rename { to: fixed.newdir, flags: fixed.flags, name: b.name()?, new_name: b.name()? }
        }
        Opcode::Link => Op::Link { node: b.head::<LinkIn>()?.oldnodeid, name: b.name()? },
        Opcode::Create => Op::Create(b.head()?, b.name()?),
        Opcode::Tmpfile => Op::Tmpfile(b.head()?), // a made-up name follows
        Opcode::Removexattr => Op::Removexattr(b.name()?),
        Opcode::Setxattr => {
            let fixed: SetxattrIn = b.head()?;
            Op::Setxattr(SetXattr { flags: fixed.flags, name: b.name()?, value: b.bytes(fixed.size)? })
        }
        Opcode::Getxattr => {
            let fixed: GetxattrIn = b.head()?;
            Op::Getxattr { room: fixed.size, name: b.name()? }
        }
        Opcode::Listxattr => Op::Listxattr { room: b.head::<GetxattrIn>()?.size },
        _ => return on_handle(opcode, b),
    })
}

/// Decodes operations on open files and directories, and on the file system as a whole.
fn on_handle<'a>(opcode: Opcode, mut b: Body<'a>) -> Result<Op<'a>, Malformed> {
    Ok(match opcode {
        Opcode::Open => Op::Open(b.head()?),
        Opcode::Read => Op::Read(b.head()?),
        Opcode::Write => {
            let fixed: WriteIn = b.head()?;
            Op::Write(fixed, b.bytes(fixed.size)?)
        }
        Opcode::Release => Op::Release(b.head()?),
        Opcode::Fsync => Op::Fsync(b.head()?),
        Opcode::Flush => Op::Flush(b.head()?),
        Opcode::Opendir => Op::Opendir(b.head()?),
        Opcode::Readdir => Op::Readdir(b.head()?),
        Opcode::Readdirplus => Op::Readdirplus(b.head()?),
        Opcode::Releasedir => Op::Releasedir(b.head()?),
        Opcode::Fsyncdir => Op::Fsyncdir(b.head()?),
        Opcode::Fallocate => Op::Fallocate(b.head()?),
        Opcode::Lseek => Op::Lseek(b.head()?),
        Opcode::CopyFileRange => Op::CopyFileRange(b.head()?),
        Opcode::Interrupt => Op::Interrupt(b.head()?),
        Opcode::Statfs => Op::Statfs,
        Opcode::Syncfs => Op::Syncfs,
        Opcode::Destroy => Op::Destroy,
        Opcode::Init => {
            let fixed: InitIn = b.head()?;
            let extended = u64::from(fixed.flags) & wire::init::INIT_EXT != 0;
            let flags2 = if extended { b.next::<InitInExt>()?.flags2 } else { 0 };
            Op::Init(fixed, flags2)
        }
        _ => Op::Unserved,
    })
}
