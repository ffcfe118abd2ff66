//! Files of a dataset.

use std::ffi::c_void;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::engine::c_text;
use crate::error::check;
use crate::{Dataset, Result, dataset, ffi};

/// An open file. Offsets and lengths are bytes; calls from several threads are ordered by range locks as in a kernel.
#[derive(Clone, Debug)]
pub struct File {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    raw: *mut ffi::pw_node,
    name: String,
    _dataset: Arc<dataset::Inner>,
}

// SAFETY: the C side orders access by the node's range lock; the pointer itself never changes.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once, while its dataset is held open.
        unsafe { ffi::pw_file_close(self.raw) }
    }
}

/// What a file's blocks take on disk, after a [`crate::Pool::sync`]. Sizes are bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Data blocks that are not holes.
    pub count: u64,
    /// Their size before compression.
    pub lsize: u64,
    /// Their size after compression, embedded ones left out.
    pub psize: u64,
    /// What is allocated for them, as `zdb` counts `asize` at level 0.
    pub asize: u64,
    /// Holes that have a block pointer.
    pub holes: u64,
    /// Blocks that live inside their block pointer.
    pub embedded: u64,
    /// Indirect blocks.
    pub indirect_count: u64,
    /// What is allocated for them.
    pub indirect_asize: u64,
    /// The file's record size.
    pub block_size: u64,
    /// The file's length.
    pub size: u64,
}

impl File {
    pub(crate) fn create(dataset: &Dataset, name: &str) -> Result<File> {
        let c = c_text(name)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: an open dataset, a C string, and a place for the pointer that is only used on success.
        let errno = unsafe { ffi::pw_file_create(dataset.inner.raw, c.as_ptr(), 0o644, &mut raw) };
        check("creating the file", name, errno)?;
        Ok(File::wrap(dataset, name, raw))
    }

    pub(crate) fn open(dataset: &Dataset, name: &str) -> Result<File> {
        let c = c_text(name)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: as above.
        check("opening the file", name, unsafe {
            ffi::pw_file_open(dataset.inner.raw, c.as_ptr(), &mut raw)
        })?;
        Ok(File::wrap(dataset, name, raw))
    }

    fn wrap(dataset: &Dataset, name: &str, raw: *mut ffi::pw_node) -> File {
        File { inner: Arc::new(Inner { raw, name: name.to_owned(), _dataset: dataset.inner.clone() }) }
    }

    /// Its name in the root directory.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        // SAFETY: `buf` is writable for its length; the node is open.
        let errno = unsafe {
            ffi::pw_file_read(
                self.inner.raw,
                offset,
                buf.as_mut_ptr().cast::<c_void>(),
                buf.len() as u64,
                &mut done,
            )
        };
        check("reading", self.name(), errno)?;
        Ok(done as usize)
    }

    /// Writes all of `buf`. It is in a transaction group afterwards, not on disk.
    pub fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write(offset, buf, false)
    }

    /// Writes all of `buf` and returns when it is on disk, in the intent log or in its place (`O_DSYNC`).
    pub fn write_sync_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        self.write(offset, buf, true)
    }

    fn write(&self, offset: u64, buf: &[u8], sync: bool) -> Result<()> {
        // SAFETY: `buf` is readable for its length; the data is copied before the call returns.
        let errno = unsafe {
            let from = buf.as_ptr().cast::<c_void>();
            ffi::pw_file_write(self.inner.raw, offset, from, buf.len() as u64, i32::from(sync))
        };
        check("writing", self.name(), errno)
    }

    /// Sets the length.
    pub fn truncate(&self, size: u64) -> Result<()> {
        // SAFETY: an open node, as in the calls below.
        check("truncating", self.name(), unsafe { ffi::pw_file_truncate(self.inner.raw, size) })
    }

    /// Makes a hole.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        // SAFETY: see `truncate`.
        check("punching a hole in", self.name(), unsafe { ffi::pw_file_punch(self.inner.raw, offset, len) })
    }

    /// Makes all acknowledged writes durable through the intent log (`fsync`).
    pub fn sync(&self) -> Result<()> {
        // SAFETY: see `truncate`.
        check("syncing", self.name(), unsafe { ffi::pw_file_sync(self.inner.raw) })
    }

    /// Length in bytes.
    pub fn size(&self) -> u64 {
        // SAFETY: see `truncate`.
        unsafe { ffi::pw_file_size(self.inner.raw) }
    }

    /// Object number in its dataset, as `zdb` shows it.
    pub fn object(&self) -> u64 {
        // SAFETY: see `truncate`.
        unsafe { ffi::pw_file_object(self.inner.raw) }
    }

    /// The file's record size now.
    pub fn block_size(&self) -> u64 {
        // SAFETY: see `truncate`.
        unsafe { ffi::pw_file_block_size(self.inner.raw) }
    }

    /// What its blocks take. Walks the dataset's block tree: for files, not for hot paths.
    pub fn blocks(&self) -> Result<Blocks> {
        let mut raw = ffi::pw_blocks::default();
        // SAFETY: an open node and a writable struct.
        check("walking the blocks of", self.name(), unsafe {
            ffi::pw_file_blocks(self.inner.raw, &mut raw)
        })?;
        Ok(Blocks {
            count: raw.l0_count,
            lsize: raw.l0_lsize,
            psize: raw.l0_psize,
            asize: raw.l0_asize,
            holes: raw.l0_holes,
            embedded: raw.l0_embedded,
            indirect_count: raw.indirect_count,
            indirect_asize: raw.indirect_asize,
            block_size: raw.block_size,
            size: raw.size,
        })
    }
}
