//! Nodes of a dataset's tree: files, directories, symbolic links and devices, by object number and by name.
//!
//! This is the face for a file system front end: calls are many and mostly small, names are C strings as a kernel
//! hands them over, and an error is a plain [`Errno`] that goes back to whoever made the system call.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;

use crate::dataset;
use crate::{Dataset, ffi};

mod attr;
pub use attr::{Attr, New, SetAttr, Time};

/// Why a call on a node failed, as Linux numbers it. The engine's checksum error comes as `EIO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from_raw_os_error(self.0).fmt(f)
    }
}

impl std::error::Error for Errno {}

/// What a call on a node gives.
pub type NodeResult<T> = Result<T, Errno>;

fn checked(errno: c_int) -> NodeResult<()> {
    match errno {
        0 => Ok(()),
        // ECKSUM of the engine, which is EBADE on Linux: the reader gets no bytes and EIO, as from a kernel
        libc::EBADE => Err(Errno(libc::EIO)),
        other => Err(Errno(other)),
    }
}

/// One entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its name; `.` and `..` are listed first.
    pub name: &'a CStr,
    /// Where it leads.
    pub object: u64,
    /// `DT_REG`, `DT_DIR`, … as in `readdir(3)`.
    pub kind: u8,
    /// Where a listing goes on behind this entry.
    pub next: u64,
}

/// Room of a dataset, as `statfs` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Bytes it refers to.
    pub referenced: u64,
    /// Bytes that can still be written, by quota or pool.
    pub available: u64,
    /// Objects it has.
    pub objects_used: u64,
    /// Objects that could still be made.
    pub objects_free: u64,
}

/// A node that is held: its object stays allocated, even when its last name goes, until the last handle is dropped.
#[derive(Clone)]
pub struct Node {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) raw: *mut ffi::pw_node,
    _dataset: Arc<dataset::Inner>,
}

// SAFETY: the C side orders access by the node's own locks; the pointer itself never changes.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, while its dataset is held open.
        unsafe { ffi::pw_node_close(self.raw) }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.object())
    }
}

impl Dataset {
    /// The root directory.
    pub fn root(&self) -> NodeResult<Node> {
        self.node(0)
    }

    /// A node by its object number; 0 is the root directory. `ESTALE` if there is none.
    pub fn node(&self, object: u64) -> NodeResult<Node> {
        // SAFETY: an open dataset, and a place for the pointer that is only used on success.
        Node::wrap(&self.inner, |out| unsafe { ffi::pw_node_open(self.inner.raw, object, out) })
    }

    /// Makes everything acknowledged so far durable, names included (`syncfs`).
    pub fn commit(&self) -> NodeResult<()> {
        // SAFETY: an open dataset.
        checked(unsafe { ffi::pw_dataset_commit(self.inner.raw) })
    }

    /// Room used and left.
    pub fn room(&self) -> NodeResult<Room> {
        let mut raw = ffi::pw_space::default();
        // SAFETY: an open dataset and a writable struct.
        checked(unsafe { ffi::pw_dataset_space(self.inner.raw, &mut raw) })?;
        Ok(Room {
            referenced: raw.referenced,
            available: raw.available,
            objects_used: raw.objects_used,
            objects_free: raw.objects_free,
        })
    }
}

impl Node {
    fn wrap(
        dataset: &Arc<dataset::Inner>,
        open: impl FnOnce(*mut *mut ffi::pw_node) -> c_int,
    ) -> NodeResult<Node> {
        let mut raw = std::ptr::null_mut();
        checked(open(&raw mut raw))?;
        Ok(Node { inner: Arc::new(Inner { raw, _dataset: dataset.clone() }) })
    }

    fn raw(&self) -> *mut ffi::pw_node {
        self.inner.raw
    }

    /// Its object number, as `zdb` shows it.
    pub fn object(&self) -> u64 {
        // SAFETY: an open node, as in all calls below.
        unsafe { ffi::pw_node_object(self.raw()) }
    }

    /// Transaction group of its creation.
    pub fn generation(&self) -> u64 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_node_gen(self.raw()) }
    }

    /// Type and permissions.
    pub fn mode(&self) -> u32 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_node_mode(self.raw()) }
    }

    /// All attributes.
    pub fn attr(&self) -> NodeResult<Attr> {
        let mut raw = ffi::pw_attr::default();
        // SAFETY: a writable struct.
        checked(unsafe { ffi::pw_node_attr(self.raw(), &mut raw) })?;
        Ok(Attr::from(&raw))
    }

    /// Changes attributes and gives them all back.
    pub fn set_attr(&self, set: &SetAttr) -> NodeResult<Attr> {
        let mut raw = ffi::pw_attr::default();
        // SAFETY: a readable and a writable struct.
        checked(unsafe { ffi::pw_node_set(self.raw(), &set.raw(), &mut raw) })?;
        Ok(Attr::from(&raw))
    }

    /// Where a symbolic link leads.
    pub fn target(&self) -> NodeResult<Vec<u8>> {
        let mut out = vec![0u8; libc::PATH_MAX as usize];
        let mut len = 0;
        // SAFETY: `out` is writable for its length.
        checked(unsafe { ffi::pw_node_target(self.raw(), out.as_mut_ptr().cast(), out.len(), &mut len) })?;
        out.truncate(len);
        Ok(out)
    }

    /// Looks a name up in this directory. `.` and `..` are names too.
    pub fn lookup(&self, name: &CStr) -> NodeResult<Node> {
        // SAFETY: a C string, and a place for the pointer that is only used on success.
        Node::wrap(&self.inner._dataset, |out| unsafe { ffi::pw_dir_lookup(self.raw(), name.as_ptr(), out) })
    }

    /// Makes a node of any type in this directory. `EEXIST` if the name is taken.
    pub fn make(&self, name: &CStr, new: &New<'_>) -> NodeResult<Node> {
        let raw = new.raw();
        // SAFETY: a C string and a struct whose target outlives the call.
        Node::wrap(&self.inner._dataset, |out| unsafe {
            ffi::pw_dir_make(self.raw(), name.as_ptr(), &raw, out)
        })
    }

    /// Makes a file without a name (`O_TMPFILE`); [`Node::link`] may give it one.
    pub fn make_unnamed(&self, new: &New<'_>) -> NodeResult<Node> {
        let raw = new.raw();
        // SAFETY: as above.
        Node::wrap(&self.inner._dataset, |out| unsafe { ffi::pw_dir_make_unnamed(self.raw(), &raw, out) })
    }

    /// Lists this directory from a position on (0: the start) until `each` says no.
    pub fn read_dir(&self, from: u64, each: &mut dyn FnMut(Entry<'_>) -> bool) -> NodeResult<()> {
        extern "C" fn one(name: *const c_char, object: u64, kind: u32, next: u64, arg: *mut c_void) -> c_int {
            // SAFETY: called by pw_dir_read below with the closure it was given and a C string.
            let (each, name) =
                unsafe { (&mut *arg.cast::<&mut dyn FnMut(Entry<'_>) -> bool>(), CStr::from_ptr(name)) };
            c_int::from(!each(Entry { name, object, kind: kind as u8, next }))
        }
        let mut each = each;
        // SAFETY: the callback gets the closure, which outlives the call.
        checked(unsafe { ffi::pw_dir_read(self.raw(), from, Some(one), (&raw mut each).cast::<c_void>()) })
    }

    /// Removes a name that does not lead to a directory. Gives the object if that was its last name.
    pub fn unlink(&self, name: &CStr) -> NodeResult<Option<u64>> {
        self.remove(name, false)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, name: &CStr) -> NodeResult<Option<u64>> {
        self.remove(name, true)
    }

    fn remove(&self, name: &CStr, directory: bool) -> NodeResult<Option<u64>> {
        let mut gone = 0;
        // SAFETY: a C string and a writable number.
        checked(unsafe {
            ffi::pw_name_remove(self.raw(), name.as_ptr(), c_int::from(directory), &mut gone)
        })?;
        Ok((gone != 0).then_some(gone))
    }

    /// Gives a node one more name, in this directory.
    pub fn link(&self, name: &CStr, node: &Node) -> NodeResult<()> {
        // SAFETY: two open nodes of one dataset, or the C side says EXDEV.
        checked(unsafe { ffi::pw_name_link(self.raw(), name.as_ptr(), node.raw()) })
    }

    /// Moves a name from this directory to another place. Flags as `renameat2` has them; gives the object of a replaced
    /// target that has no other name.
    pub fn rename(&self, name: &CStr, to: &Node, new_name: &CStr, flags: u32) -> NodeResult<Option<u64>> {
        let mut gone = 0;
        // SAFETY: two open directories, two C strings, a writable number.
        checked(unsafe {
            ffi::pw_name_rename(self.raw(), name.as_ptr(), to.raw(), new_name.as_ptr(), flags, &mut gone)
        })?;
        Ok((gone != 0).then_some(gone))
    }

    /// An extended attribute's value. `ENODATA` if there is none of that name.
    pub fn xattr(&self, name: &CStr) -> NodeResult<Vec<u8>> {
        fill(|out, room, len| {
            // SAFETY: `out` is writable for `room` bytes.
            unsafe { ffi::pw_xattr_get(self.raw(), name.as_ptr(), out, room, len) }
        })
    }

    /// Sets an extended attribute; flags as `setxattr` has them.
    pub fn set_xattr(&self, name: &CStr, value: &[u8], flags: u32) -> NodeResult<()> {
        // SAFETY: `value` is readable for its length and copied.
        checked(unsafe {
            ffi::pw_xattr_set(self.raw(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
        })
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, name: &CStr) -> NodeResult<()> {
        // SAFETY: a C string.
        checked(unsafe { ffi::pw_xattr_remove(self.raw(), name.as_ptr()) })
    }

    /// Names of all extended attributes, each ended by a zero byte, as `listxattr` gives them.
    pub fn xattr_names(&self) -> NodeResult<Vec<u8>> {
        // SAFETY: `out` is writable for `room` bytes.
        fill(|out, room, len| unsafe { ffi::pw_xattr_list(self.raw(), out.cast(), room, len) })
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> NodeResult<usize> {
        let mut done = 0;
        // SAFETY: `buf` is writable for its length.
        checked(unsafe {
            ffi::pw_file_read(self.raw(), offset, buf.as_mut_ptr().cast(), buf.len() as u64, &mut done)
        })?;
        Ok(done as usize)
    }

    /// Writes all of `buf`; with `sync` it is durable when this returns (`O_DSYNC`).
    pub fn write_at(&self, offset: u64, buf: &[u8], sync: bool) -> NodeResult<()> {
        // SAFETY: `buf` is readable for its length and copied.
        checked(unsafe {
            ffi::pw_file_write(self.raw(), offset, buf.as_ptr().cast(), buf.len() as u64, c_int::from(sync))
        })
    }

    /// Writes behind the end of the file, wherever that is at that moment, and says where it went.
    pub fn append(&self, buf: &[u8], sync: bool) -> NodeResult<u64> {
        let mut offset = 0;
        // SAFETY: as above.
        checked(unsafe {
            let from = buf.as_ptr().cast();
            ffi::pw_file_append(self.raw(), from, buf.len() as u64, c_int::from(sync), &mut offset)
        })?;
        Ok(offset)
    }

    /// Sets the length.
    pub fn truncate(&self, size: u64) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_truncate(self.raw(), size) })
    }

    /// Makes it at least so long; a file that is longer stays as it is.
    pub fn extend(&self, size: u64) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_extend(self.raw(), size) })
    }

    /// Makes a hole; the length stays.
    pub fn punch(&self, offset: u64, len: u64) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_punch(self.raw(), offset, len) })
    }

    /// Copies up to `len` bytes from `at` to `to_offset` in another file of the pool, by cloning blocks where that works.
    /// Gives how many, which may be fewer; 0: there is nothing behind `at`. `EINVAL`: two halves of one file that overlap.
    pub fn copy_to(&self, at: u64, to: &Node, to_offset: u64, len: u64, sync: bool) -> NodeResult<u64> {
        let mut done = 0;
        // SAFETY: two open nodes, maybe the same, and a writable number.
        checked(unsafe {
            ffi::pw_file_copy(self.raw(), at, to.raw(), to_offset, len, c_int::from(sync), &mut done)
        })?;
        Ok(done)
    }

    /// The next hole or the next data at or behind `offset`; `ENXIO` if there is none.
    pub fn seek(&self, offset: u64, hole: bool) -> NodeResult<u64> {
        let mut out = 0;
        // SAFETY: a writable number.
        checked(unsafe { ffi::pw_file_seek(self.raw(), offset, c_int::from(hole), &mut out) })?;
        Ok(out)
    }

    /// Makes this node's acknowledged changes durable through the intent log (`fsync`).
    pub fn sync(&self) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_sync(self.raw()) })
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_file_size(self.raw()) }
    }

    /// Its record size now.
    pub fn block_size(&self) -> u64 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_file_block_size(self.raw()) }
    }
}

/// Asks for a length, then for the content, until both agree.
fn fill(mut call: impl FnMut(*mut c_void, usize, *mut usize) -> c_int) -> NodeResult<Vec<u8>> {
    let mut out = vec![0u8; 256];
    loop {
        let mut len = 0;
        match call(out.as_mut_ptr().cast(), out.len(), &mut len) {
            libc::ERANGE => out.resize(len.max(out.len() + 1), 0),
            errno => {
                checked(errno)?;
                out.truncate(len);
                return Ok(out);
            }
        }
    }
}

/// A name for the calls above; `EINVAL` if it has a zero byte in it.
pub fn name(text: impl Into<Vec<u8>>) -> NodeResult<CString> {
    CString::new(text).map_err(|_| Errno(libc::EINVAL))
}
