//! Nodes of a dataset: files, directories, symbolic links and devices, by object number and by name.
//!
//! This is the interface for a file system. Names are C strings, as the kernel passes them, and an error is an [`Errno`], which
//! the file system returns to the program that made the system call.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;

use crate::dataset;
use crate::{Dataset, ffi};

mod attr;
pub use attr::{Attr, New, SetAttr, Time};

/// The error number of Linux for a failed call. A checksum error of the engine is `EIO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", std::io::Error::from_raw_os_error(*.0))]
pub struct Errno(pub i32);

/// The result of a call on a node.
pub type NodeResult<T> = Result<T, Errno>;

fn checked(errno: c_int) -> NodeResult<()> {
    match errno {
        0 => Ok(()),
        // ECKSUM of the engine, which is EBADE on Linux: the reader gets EIO and no data, as from a kernel.
        libc::EBADE => Err(Errno(libc::EIO)),
        other => Err(Errno(other)),
    }
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The name. `.` and `..` are listed first.
    pub name: &'a CStr,
    /// The object number of its node.
    pub object: u64,
    /// `DT_REG`, `DT_DIR`, … as in `readdir(3)`.
    pub kind: u8,
    /// The position from which a listing continues after this entry.
    pub next: u64,
}

/// The space of a dataset, as `statfs` reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStats {
    /// Bytes that the dataset references.
    pub referenced: u64,
    /// Bytes available within the quota and the pool.
    pub available: u64,
    /// Objects in use.
    pub objects_used: u64,
    /// Objects available.
    pub objects_free: u64,
}

/// A reference to a node. Its object stays allocated until the last reference is dropped, even without a name.
#[derive(Clone)]
pub struct Node {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) raw: *mut ffi::pw_node,
    _dataset: Arc<dataset::Inner>,
}

// SAFETY: the C side locks the node, and the pointer never changes.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: opened and closed once, while the dataset is open.
        unsafe { ffi::pw_node_close(self.raw) }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.object())
    }
}

impl Dataset {
    /// Returns the root directory.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn root(&self) -> NodeResult<Node> {
        self.node(0)
    }

    /// Returns a node by its object number; 0 is the root directory.
    ///
    /// # Errors
    /// `ESTALE` if there is no such node; otherwise the [`Errno`] of the failed call.
    pub fn node(&self, object: u64) -> NodeResult<Node> {
        // SAFETY: an open dataset, and room for the pointer, which is only used after success.
        Node::wrap(&self.inner, |out| unsafe { ffi::pw_node_open(self.inner.raw, object, out) })
    }

    /// Makes all acknowledged changes durable, including those of names (`syncfs`).
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn commit(&self) -> NodeResult<()> {
        // SAFETY: an open dataset.
        checked(unsafe { ffi::pw_dataset_commit(self.inner.raw) })
    }

    /// Returns the used and available space.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn fs_stats(&self) -> NodeResult<FsStats> {
        let mut raw = ffi::pw_space::default();
        // SAFETY: an open dataset and a writable struct.
        checked(unsafe { ffi::pw_dataset_space(self.inner.raw, &mut raw) })?;
        Ok(FsStats {
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

    /// Returns the object number, as `zdb` shows it.
    pub fn object(&self) -> u64 {
        // SAFETY: an open node, as in all calls below.
        unsafe { ffi::pw_node_object(self.raw()) }
    }

    /// Returns the transaction group in which the node was created.
    pub fn generation(&self) -> u64 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_node_gen(self.raw()) }
    }

    /// Returns type and permissions, as `st_mode`.
    pub fn mode(&self) -> u32 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_node_mode(self.raw()) }
    }

    /// Returns all attributes.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn attr(&self) -> NodeResult<Attr> {
        let mut raw = ffi::pw_attr::default();
        // SAFETY: a writable struct.
        checked(unsafe { ffi::pw_node_attr(self.raw(), &mut raw) })?;
        Ok(Attr::from(&raw))
    }

    /// Changes attributes, and returns all of them.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn set_attr(&self, set: &SetAttr) -> NodeResult<Attr> {
        let mut raw = ffi::pw_attr::default();
        // SAFETY: a readable and a writable struct.
        checked(unsafe { ffi::pw_node_set(self.raw(), &set.raw(), &mut raw) })?;
        Ok(Attr::from(&raw))
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` if the node is not a symbolic link; otherwise the [`Errno`] of the failed call.
    pub fn target(&self) -> NodeResult<Vec<u8>> {
        let mut out = vec![0u8; libc::PATH_MAX as usize];
        let mut len = 0;
        // SAFETY: `out` is writable for its length.
        checked(unsafe { ffi::pw_node_target(self.raw(), out.as_mut_ptr().cast(), out.len(), &mut len) })?;
        out.truncate(len);
        Ok(out)
    }

    /// Looks up a name in this directory, which may be `.` or `..`.
    ///
    /// # Errors
    /// `ENOENT` if there is no such name; otherwise the [`Errno`] of the failed call.
    pub fn lookup(&self, name: &CStr) -> NodeResult<Node> {
        // SAFETY: a C string, and room for the pointer, which is only used after success.
        Node::wrap(&self.inner._dataset, |out| unsafe { ffi::pw_dir_lookup(self.raw(), name.as_ptr(), out) })
    }

    /// Makes a node of any type in this directory.
    ///
    /// # Errors
    /// `EEXIST` if the name exists; otherwise the [`Errno`] of the failed call.
    pub fn make(&self, name: &CStr, new: &New<'_>) -> NodeResult<Node> {
        let raw = new.raw();
        // SAFETY: a C string and a struct whose target outlives the call.
        Node::wrap(&self.inner._dataset, |out| unsafe {
            ffi::pw_dir_make(self.raw(), name.as_ptr(), &raw, out)
        })
    }

    /// Makes a file without a name (`O_TMPFILE`), to which [`Node::link`] can give one.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn make_unnamed(&self, new: &New<'_>) -> NodeResult<Node> {
        let raw = new.raw();
        // SAFETY: as above.
        Node::wrap(&self.inner._dataset, |out| unsafe { ffi::pw_dir_make_unnamed(self.raw(), &raw, out) })
    }

    /// Lists this directory from a position (0: the start) until `each` returns false.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn read_dir(&self, from: u64, each: &mut dyn FnMut(Entry<'_>) -> bool) -> NodeResult<()> {
        extern "C" fn one(name: *const c_char, object: u64, kind: u32, next: u64, arg: *mut c_void) -> c_int {
            // SAFETY: pw_dir_read() calls this with a C string and the closure passed below.
            let (each, name) =
                unsafe { (&mut *arg.cast::<&mut dyn FnMut(Entry<'_>) -> bool>(), CStr::from_ptr(name)) };
            c_int::from(!each(Entry { name, object, kind: kind as u8, next }))
        }
        let mut each = each;
        // SAFETY: the closure outlives the call.
        checked(unsafe { ffi::pw_dir_read(self.raw(), from, Some(one), (&raw mut each).cast::<c_void>()) })
    }

    /// Removes a name of a node that is not a directory. Returns the object number if this was its last name.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn unlink(&self, name: &CStr) -> NodeResult<Option<u64>> {
        self.remove(name, false)
    }

    /// Removes an empty directory. Returns its object number.
    ///
    /// # Errors
    /// `ENOTEMPTY` if it has entries; otherwise the [`Errno`] of the failed call.
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

    /// Adds a name for a node to this directory.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn link(&self, name: &CStr, node: &Node) -> NodeResult<()> {
        // SAFETY: two open nodes; the C side returns EXDEV for nodes of two datasets.
        checked(unsafe { ffi::pw_name_link(self.raw(), name.as_ptr(), node.raw()) })
    }

    /// Renames an entry of this directory. `flags` are those of `renameat2(2)`. Returns the object number of a replaced target
    /// that has no other name.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn rename(&self, name: &CStr, to: &Node, new_name: &CStr, flags: u32) -> NodeResult<Option<u64>> {
        let mut gone = 0;
        // SAFETY: two open directories, two C strings, a writable number.
        checked(unsafe {
            ffi::pw_name_rename(self.raw(), name.as_ptr(), to.raw(), new_name.as_ptr(), flags, &mut gone)
        })?;
        Ok((gone != 0).then_some(gone))
    }

    /// Returns the value of an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is no such attribute; otherwise the [`Errno`] of the failed call.
    pub fn xattr(&self, name: &CStr) -> NodeResult<Vec<u8>> {
        fill(|out, room, len| {
            // SAFETY: `out` is writable for `room` bytes.
            unsafe { ffi::pw_xattr_get(self.raw(), name.as_ptr(), out, room, len) }
        })
    }

    /// Sets an extended attribute. `flags` are those of `setxattr(2)`.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn set_xattr(&self, name: &CStr, value: &[u8], flags: u32) -> NodeResult<()> {
        // SAFETY: `value` is readable for its length, and the callee copies it.
        checked(unsafe {
            ffi::pw_xattr_set(self.raw(), name.as_ptr(), value.as_ptr().cast(), value.len(), flags)
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `ENODATA` if there is no such attribute; otherwise the [`Errno`] of the failed call.
    pub fn remove_xattr(&self, name: &CStr) -> NodeResult<()> {
        // SAFETY: a C string.
        checked(unsafe { ffi::pw_xattr_remove(self.raw(), name.as_ptr()) })
    }

    /// Returns the names of all extended attributes, each followed by a NUL, as `listxattr(2)` does.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn xattr_names(&self) -> NodeResult<Vec<u8>> {
        // SAFETY: `out` is writable for `room` bytes.
        fill(|out, room, len| unsafe { ffi::pw_xattr_list(self.raw(), out.cast(), room, len) })
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file. Returns their number.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> NodeResult<usize> {
        self.read_with(offset, buf, IoFlags::default())
    }

    /// Reads as [`Node::read_at`] does, with the flags of the open file.
    ///
    /// # Errors
    /// `EINVAL` before OpenZFS 2.4 if the request is direct and not aligned to pages; otherwise the [`Errno`] of the failed call.
    pub fn read_with(&self, offset: u64, buf: &mut [u8], flags: IoFlags) -> NodeResult<usize> {
        let mut done = 0;
        let (to, len) = (buf.as_mut_ptr().cast(), buf.len() as u64);
        // SAFETY: `buf` is writable for its length.
        checked(unsafe { ffi::pw_file_read(self.raw(), offset, to, len, flags.raw(), &mut done) })?;
        Ok(done as usize)
    }

    /// Writes all of `buf`. With `sync`, the data is durable when this returns (`O_DSYNC`).
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn write_at(&self, offset: u64, buf: &[u8], sync: bool) -> NodeResult<()> {
        self.write_with(offset, buf, IoFlags { sync, direct: false })
    }

    /// Writes all of `buf` with the flags of the open file.
    ///
    /// # Errors
    /// `EINVAL` before OpenZFS 2.4 if the request is direct and not aligned to pages; otherwise the [`Errno`] of the failed call.
    pub fn write_with(&self, offset: u64, buf: &[u8], flags: IoFlags) -> NodeResult<()> {
        let (from, len) = (buf.as_ptr().cast(), buf.len() as u64);
        // SAFETY: `buf` is readable for its length, and the callee has copied or written it when it returns.
        checked(unsafe { ffi::pw_file_write(self.raw(), offset, from, len, flags.raw()) })
    }

    /// Appends to the file. Returns the offset of the data.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn append(&self, buf: &[u8], sync: bool) -> NodeResult<u64> {
        let mut offset = 0;
        let flags = IoFlags { sync, direct: false };
        // SAFETY: as above.
        checked(unsafe {
            let from = buf.as_ptr().cast();
            ffi::pw_file_append(self.raw(), from, buf.len() as u64, flags.raw(), &mut offset)
        })?;
        Ok(offset)
    }

    /// Sets the length in bytes.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn truncate(&self, size: u64) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_truncate(self.raw(), size) })
    }

    /// Extends the file to at least `size` bytes.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn extend(&self, size: u64) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_extend(self.raw(), size) })
    }

    /// Frees a range, which then reads as zeros. The length does not change.
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn punch(&self, offset: u64, len: u64) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_punch(self.raw(), offset, len) })
    }

    /// Copies up to `len` bytes from `at` to `to_offset` in a file of the same pool, by cloning blocks where possible. Returns the
    /// number of bytes, which may be less than `len`, and is 0 if the file ends at `at`.
    ///
    /// # Errors
    /// `EINVAL` if the ranges are in the same file and overlap; otherwise the [`Errno`] of the failed call.
    pub fn copy_to(&self, at: u64, to: &Node, to_offset: u64, len: u64, sync: bool) -> NodeResult<u64> {
        let mut done = 0;
        // SAFETY: two open nodes, which may be the same, and a writable number.
        checked(unsafe {
            ffi::pw_file_copy(self.raw(), at, to.raw(), to_offset, len, c_int::from(sync), &mut done)
        })?;
        Ok(done)
    }

    /// Returns the offset of the next hole or the next data from `offset`.
    ///
    /// # Errors
    /// `ENXIO` if there is none; otherwise the [`Errno`] of the failed call.
    pub fn seek(&self, offset: u64, hole: bool) -> NodeResult<u64> {
        let mut out = 0;
        // SAFETY: a writable number.
        checked(unsafe { ffi::pw_file_seek(self.raw(), offset, c_int::from(hole), &mut out) })?;
        Ok(out)
    }

    /// Makes this node's acknowledged changes durable through the intent log (`fsync`).
    ///
    /// # Errors
    /// The [`Errno`] of the failed call.
    pub fn sync(&self) -> NodeResult<()> {
        // SAFETY: see `object`.
        checked(unsafe { ffi::pw_file_sync(self.raw()) })
    }

    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_file_size(self.raw()) }
    }

    /// Returns the current record size in bytes.
    pub fn block_size(&self) -> u64 {
        // SAFETY: see `object`.
        unsafe { ffi::pw_file_block_size(self.raw()) }
    }
}

/// The flags of an open file that decide how it is read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoFlags {
    /// `O_DSYNC`: a write is durable when it returns.
    pub sync: bool,
    /// `O_DIRECT`: requests bypass the ARC where the dataset's property `direct` and their alignment allow it. The alignment of the
    /// memory does not matter, unlike in a kernel.
    pub direct: bool,
}

impl IoFlags {
    fn raw(self) -> c_int {
        let bit = |on, bit: u32| if on { bit as c_int } else { 0 };
        bit(self.sync, ffi::PW_IO_SYNC) | bit(self.direct, ffi::PW_IO_DIRECT)
    }
}

/// Repeats the call with a larger buffer until the value fits.
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

/// Makes a name for calls on nodes.
///
/// # Errors
/// `EINVAL` if it contains a NUL byte.
pub fn name(text: impl Into<Vec<u8>>) -> NodeResult<CString> {
    CString::new(text).map_err(|_| Errno(libc::EINVAL))
}
