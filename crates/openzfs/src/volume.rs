//! Volumes (zvols): datasets that contain the data of one block device.

use std::sync::Arc;

use crate::dataset::{Inner, full, set_raw};
use crate::error::check;
use crate::property::{self, Settings};
use crate::{DatasetStats, Error, Pool, Result, ZilStats, ffi};

/// An open volume. It is closed when the last handle to it is dropped.
///
/// Requests are served as a kernel serves those of the block layer: all of them through the ARC.
#[derive(Clone, Debug)]
pub struct Volume {
    inner: Arc<Inner>,
}

const BLOCK_SIZE: &str = "volblocksize";

impl Volume {
    fn create(pool: &Pool, name: &str, size: u64, settings: &Settings) -> Result<Volume> {
        let c = full(pool, name)?;
        if let Some(why) = settings.keys().find_map(|name| property::misplaced(name, true)) {
            return Err(Error::Invalid(why));
        }
        let block = settings.get(BLOCK_SIZE).map_or(property::find(BLOCK_SIZE)?.default, String::as_str);
        property::check(BLOCK_SIZE, block)?;
        let block = property::parse_size(block)?;
        let size = size.next_multiple_of(block);
        // SAFETY: a C string, the name of a dataset in an imported pool.
        let errno = unsafe { ffi::pw_volume_create(c.as_ptr(), size, block) };
        check("creating the volume", c.to_string_lossy(), errno)?;
        for (property, value) in settings.iter().filter(|(name, _)| *name != BLOCK_SIZE) {
            set_raw(&c, property, value)?;
        }
        let mut raw = std::ptr::null_mut();
        let _logs = pool.inner.share_logs();
        // SAFETY: a C string, and room for the pointer, which is only used after success.
        let errno = unsafe { ffi::pw_volume_open(c.as_ptr(), &mut raw) };
        check("opening the volume", c.to_string_lossy(), errno)?;
        Ok(Volume { inner: Arc::new(Inner::new(raw, c, pool)) })
    }

    /// Returns the full name, including the pool's.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Fills `buf` with the data at `offset`, in bytes.
    ///
    /// # Errors
    /// [`Error::Engine`] if the range is not inside the volume, or the library refuses.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        // SAFETY: an open volume, and memory that is writable for its length.
        let errno =
            unsafe { ffi::pw_volume_read(self.inner.raw, offset, buf.as_mut_ptr().cast(), buf.len() as u64) };
        check("reading", self.name(), errno)
    }

    /// Writes all of `buf` at `offset`, in bytes. With `sync`, the data is on disk when the call returns (a write with FUA).
    ///
    /// # Errors
    /// As [`Volume::read_at`].
    pub fn write_at(&self, offset: u64, buf: &[u8], sync: bool) -> Result<()> {
        let how = if sync { ffi::PW_IO_SYNC } else { 0 };
        // SAFETY: an open volume, and memory that is readable for its length.
        let errno = unsafe {
            ffi::pw_volume_write(self.inner.raw, offset, buf.as_ptr().cast(), buf.len() as u64, how as i32)
        };
        check("writing", self.name(), errno)
    }

    /// Frees the whole blocks in a range of bytes, which then read as zeros.
    ///
    /// # Errors
    /// As [`Volume::read_at`].
    pub fn discard(&self, offset: u64, len: u64) -> Result<()> {
        // SAFETY: an open volume.
        check("discarding", self.name(), unsafe { ffi::pw_volume_discard(self.inner.raw, offset, len) })
    }

    /// Makes all acknowledged writes durable through the intent log (a flush of the device's cache).
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn flush(&self) -> Result<()> {
        // SAFETY: an open volume.
        check("flushing", self.name(), unsafe { ffi::pw_volume_flush(self.inner.raw) })
    }

    /// Returns space and compression ratios, which are current after [`Pool::sync`].
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn stats(&self) -> Result<DatasetStats> {
        self.inner.stats()
    }

    /// Returns the traffic of the intent log since the volume was opened.
    pub fn zil_stats(&self) -> ZilStats {
        self.inner.zil_stats()
    }
}

impl Pool {
    /// Creates and opens a sparse volume of at least `size` bytes, rounded up to whole blocks. `name` does not include the pool's name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a setting is invalid, or not one of a volume; [`Error::Engine`] if the library refuses.
    pub fn create_volume(&self, name: &str, size: u64, settings: &Settings) -> Result<Volume> {
        Volume::create(self, name, size, settings)
    }
}
