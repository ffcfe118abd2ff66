//! The engine's compressors on single records, and the space of a compressed record on disk.
//!
//! The rules are those of the write pipeline (`zio_write_compress` in OpenZFS 2.3). With any codec except `off`, a record of
//! zeros is a hole. Up to 112 bytes are embedded in the block pointer. A record that compression does not shrink by an eighth
//! and by a sector is stored raw. Sizes are rounded up to the vdev's allocation unit. The tests of `crates/estimate` compare
//! the results with pools and with `zdb`.

use std::ffi::c_void;
use std::fmt;

use crate::error::check;
use crate::{Engine, Error, Result, ffi, property};

/// The largest number of bytes that a block pointer can embed (`BPE_PAYLOAD_SIZE`).
pub const EMBEDDED_BYTES: usize = 112;

/// A value of the property `compression`, checked with the library's table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Compression {
    name: String,
    property: u64,
}

impl Compression {
    /// Parses one of [`property::compressions`]. An alias compresses as the value that it stands for.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the library does not know the value, or the engine was not started.
    pub fn parse(name: &str) -> Result<Compression> {
        let number = property::number("compression", name).filter(|_| name != "inherit");
        let property = number.ok_or_else(|| {
            let known = property::find("compression").map_or("", |p| p.values);
            Error::Invalid(format!("compression={name}: expected {known}"))
        })?;
        Ok(Compression { name: name.to_owned(), property })
    }

    /// Returns the value as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// How a record is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As a hole in the block tree.
    Hole,
    /// Embedded in the block pointer; the compressed size in bytes.
    Embedded(usize),
    /// Compressed to this many bytes, rounded up to the allocation unit (`psize`).
    Compressed(usize),
    /// Uncompressed; the size in bytes.
    Raw(usize),
}

/// The geometry of a pool's top-level vdevs, which determines `asize` from `psize`. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Sector size as a power of two.
    pub ashift: u32,
    /// Parity disks of raidz. 0 for single disks, stripes and mirrors, whose `asize` counts one copy.
    pub parity: u32,
    /// Disks of a raidz vdev, including parity.
    pub disks: u32,
}

impl Geometry {
    /// Returns the geometry of a single disk, stripe or mirror.
    pub fn plain(ashift: u32) -> Geometry {
        Geometry { ashift, parity: 0, disks: 1 }
    }

    /// Returns the geometry of a raidz vdev of `disks` disks, of which `parity` hold parity.
    pub fn raidz(ashift: u32, disks: u32, parity: u32) -> Geometry {
        Geometry { ashift, parity, disks }
    }

    /// Returns the sector size in bytes.
    pub fn sector(&self) -> u64 {
        1 << self.ashift
    }

    /// Returns the bytes allocated for a block of `psize` bytes (`vdev_default_asize`, `vdev_raidz_asize`): whole sectors and, on
    /// raidz, parity for each row and padding to a multiple of parity + 1 sectors.
    pub fn asize(&self, psize: u64) -> u64 {
        let mut sectors = psize.div_ceil(self.sector());
        if self.parity > 0 {
            let parity = u64::from(self.parity);
            let data = u64::from(self.disks) - parity;
            sectors += parity * sectors.div_ceil(data);
            sectors = sectors.next_multiple_of(parity + 1);
        }
        sectors << self.ashift
    }
}

/// A compressor with its output buffer. Each thread needs its own.
#[derive(Debug)]
pub struct Codec {
    compression: Compression,
    out: Vec<u8>,
    filled: usize,
}

impl Codec {
    /// Makes a compressor. `max_record` is the size in bytes of the largest record to expect.
    pub fn new(_engine: Engine, compression: &Compression, max_record: usize) -> Codec {
        Codec { compression: compression.clone(), out: vec![0; max_record], filled: 0 }
    }

    /// Returns how the engine would store `record`, whose length is a multiple of 512 bytes, on `geometry`.
    ///
    /// The result of lzjb depends on the record's address modulo 1K; the engine's own buffers start at a page boundary.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the length is not a multiple of 512 bytes; [`Error::Engine`] if the codec fails.
    pub fn store(&mut self, record: &[u8], geometry: &Geometry) -> Result<Stored> {
        let len = record.len();
        if len == 0 || !len.is_multiple_of(512) {
            // The library asserts this, and a failed assertion ends the process.
            return Err(Error::Invalid(format!(
                "a record of {len} bytes: the size must be a multiple of 512 bytes"
            )));
        }
        if self.out.len() < len {
            self.out.resize(len, 0);
        }
        let unit = geometry.sector() as u32;
        let mut psize = 0;
        // SAFETY: `record` is readable and `out` writable for `len` bytes, and both outlive the call.
        let errno = unsafe {
            ffi::pw_codec_compress(
                self.compression.property,
                unit,
                unit,
                record.as_ptr().cast::<c_void>(),
                len,
                self.out.as_mut_ptr().cast::<c_void>(),
                &mut psize,
            )
        };
        check("compressing a record with", &self.compression, errno)?;
        self.filled = if psize < len { psize } else { 0 };
        Ok(classify(psize, len, geometry))
    }

    /// Returns the output of the last [`Codec::store`]. Empty for holes and raw records.
    pub fn compressed(&self) -> &[u8] {
        &self.out[..self.filled]
    }

    /// Decompresses `from`, the output of [`Codec::compressed`], to `record`, which has the length of the record.
    ///
    /// # Errors
    /// [`Error::Engine`] if `from` is damaged.
    pub fn load(&self, from: &[u8], record: &mut [u8]) -> Result<()> {
        // SAFETY: both slices are valid for their lengths; the codec checks that the output fits.
        let errno = unsafe {
            ffi::pw_codec_decompress(
                self.compression.property,
                from.as_ptr().cast::<c_void>(),
                from.len(),
                record.as_mut_ptr().cast::<c_void>(),
                record.len(),
            )
        };
        check("decompressing a record with", &self.compression, errno)
    }
}

fn classify(psize: usize, len: usize, geometry: &Geometry) -> Stored {
    if psize == 0 {
        return Stored::Hole;
    }
    if psize >= len {
        return Stored::Raw(len);
    }
    if psize <= EMBEDDED_BYTES {
        return Stored::Embedded(psize);
    }
    let rounded = psize.next_multiple_of(geometry.sector() as usize);
    if rounded >= len { Stored::Raw(len) } else { Stored::Compressed(rounded) }
}

impl Stored {
    /// Returns the bytes allocated on `geometry`.
    pub fn asize(self, geometry: &Geometry) -> u64 {
        match self {
            Stored::Hole | Stored::Embedded(_) => 0,
            Stored::Compressed(psize) | Stored::Raw(psize) => geometry.asize(psize as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raidz_asize_matches_the_published_examples() {
        // From "ZFS RAIDZ stripe width" (Delphix): raidz1 of 5, 4K sectors: 8K takes 3 sectors padded to 4.
        assert_eq!(Geometry::raidz(12, 5, 1).asize(8192), 16384);
        assert_eq!(Geometry::raidz(12, 5, 1).asize(131072), (32 + 8) * 4096);
        assert_eq!(Geometry::raidz(12, 3, 2).asize(4096), 3 * 4096);
        assert_eq!(Geometry::plain(12).asize(4097), 8192);
        assert_eq!(Geometry::plain(9).asize(513), 1024);
    }
}
