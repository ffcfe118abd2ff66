//! What a node is: read, to be changed, to be made.

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
    /// Object number; with `generation`, never given twice in a dataset.
    pub object: u64,
    /// Transaction group of its creation.
    pub generation: u64,
    /// The directory it was last entered in.
    pub parent: u64,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// Names it has; 0: unlinked, and still open somewhere.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device: major and minor number.
    pub device: (u32, u32),
    /// Bytes; of a directory: entries, `.` and `..` included.
    pub size: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Its record size now.
    pub block_size: u64,
    /// Last access, as far as it is kept (`atime=off` is the default here).
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of anything.
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

/// What to change of a node's attributes; what is `None` stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// Permissions, set-id bits and sticky bit; the type stays.
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

/// A node to be made.
#[derive(Clone, Copy, Debug, Default)]
pub struct New<'a> {
    /// Type (`S_IFREG`, `S_IFDIR`, …) and permissions, with the umask applied. A set-group-id directory hands on its
    /// group whatever `gid` says.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device: major and minor number.
    pub device: (u32, u32),
    /// Of a symbolic link: where it leads.
    pub target: Option<&'a CStr>,
}

impl New<'_> {
    /// Nothing yet, owned by this process's user.
    pub fn owned() -> Self {
        // SAFETY: these two never fail and touch no memory.
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
