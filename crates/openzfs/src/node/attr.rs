//! Attributes of a node: read, changed, or given to a new node.

use std::ffi::CStr;

use crate::ffi;

/// Seconds and nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

impl Time {
    fn raw(self) -> [u64; 2] {
        [self.seconds as u64, u64::from(self.nanoseconds)]
    }

    fn from_raw(raw: [u64; 2]) -> Time {
        Time { seconds: raw[0] as i64, nanoseconds: raw[1] as u32 }
    }
}

/// A node's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// The object number. Together with `generation`, it is unique in the dataset for ever.
    pub object: u64,
    /// The transaction group in which it was created.
    pub generation: u64,
    /// The directory in which it last got a name.
    pub parent: u64,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// The number of its names. 0: unlinked, and still open.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The major and minor number of a device.
    pub device: (u32, u32),
    /// The length in bytes; for a directory, the number of entries, including `.` and `..`.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// The current record size in bytes.
    pub block_size: u64,
    /// Last access. Not updated with `atime=off`, the default of this engine.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of data or attributes.
    pub ctime: Time,
    /// Creation.
    pub crtime: Time,
}

impl From<&ffi::pw_attr> for Attr {
    fn from(raw: &ffi::pw_attr) -> Attr {
        Attr {
            object: raw.object,
            generation: raw.gen_,
            parent: raw.parent,
            mode: raw.mode as u32,
            links: raw.links as u32,
            uid: raw.uid as u32,
            gid: raw.gid as u32,
            device: ((raw.rdev >> 20) as u32, (raw.rdev & 0xf_ffff) as u32),
            size: raw.size,
            blocks: raw.blocks,
            block_size: raw.block_size,
            atime: Time::from_raw(raw.atime),
            mtime: Time::from_raw(raw.mtime),
            ctime: Time::from_raw(raw.ctime),
            crtime: Time::from_raw(raw.crtime),
        }
    }
}

/// A change of a node's attributes. `None` leaves an attribute unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permissions, set-id bits and sticky bit. The type does not change.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Time>,
    /// Last change of content.
    pub mtime: Option<Time>,
}

impl SetAttr {
    pub(super) fn raw(&self) -> ffi::pw_set {
        let mut raw = ffi::pw_set::default();
        let mut bit = |set: bool, bit: u32| raw.mask |= if set { u64::from(bit) } else { 0 };
        bit(self.mode.is_some(), ffi::PW_SET_MODE);
        bit(self.uid.is_some(), ffi::PW_SET_UID);
        bit(self.gid.is_some(), ffi::PW_SET_GID);
        bit(self.size.is_some(), ffi::PW_SET_SIZE);
        bit(self.atime.is_some(), ffi::PW_SET_ATIME);
        bit(self.mtime.is_some(), ffi::PW_SET_MTIME);
        raw.mode = u64::from(self.mode.unwrap_or(0));
        raw.uid = u64::from(self.uid.unwrap_or(0));
        raw.gid = u64::from(self.gid.unwrap_or(0));
        raw.size = self.size.unwrap_or(0);
        raw.atime = self.atime.unwrap_or_default().raw();
        raw.mtime = self.mtime.unwrap_or_default().raw();
        raw
    }
}

/// The attributes of a new node.
#[derive(Clone, Copy, Debug, Default)]
pub struct New<'a> {
    /// Type (`S_IFREG`, `S_IFDIR`, …) and permissions, with the umask applied. In a set-group-id directory, the node gets the
    /// directory's group instead of `gid`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// The major and minor number of a device.
    pub device: (u32, u32),
    /// The target of a symbolic link.
    pub target: Option<&'a CStr>,
}

impl New<'_> {
    /// Returns empty attributes with the user and group of this process.
    pub fn owned() -> Self {
        // SAFETY: these functions never fail and access no memory.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        New { uid, gid, ..New::default() }
    }

    pub(super) fn raw(&self) -> ffi::pw_new {
        ffi::pw_new {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            rdev: self.device.0 << 20 | self.device.1 & 0xf_ffff,
            target: self.target.map_or(std::ptr::null(), CStr::as_ptr),
        }
    }
}
