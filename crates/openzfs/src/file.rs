//! Files in the root directory of a dataset: the simple interface for replays.

use serde::{Deserialize, Serialize};

use crate::error::check;
use crate::node::{self, Entry, IoFlags, New, Node, NodeResult};
use crate::{Dataset, Result, ffi};

/// An open file. Offsets and lengths are in bytes. Range locks order the calls of several threads, as in a kernel.
#[derive(Clone, Debug)]
pub struct File {
    node: Node,
    name: String,
    direct: bool,
}

/// The space of a file's blocks on disk, current after a [`crate::Pool::sync`]. Sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Data blocks that are not holes.
    pub count: u64,
    /// Their size before compression.
    pub lsize: u64,
    /// Their size after compression, without embedded blocks.
    pub psize: u64,
    /// Their allocated size, as `zdb` counts `asize` at level 0.
    pub asize: u64,
    /// Holes that have a block pointer.
    pub holes: u64,
    /// Blocks embedded in their block pointer.
    pub embedded: u64,
    /// Indirect blocks.
    pub indirect_count: u64,
    /// Their allocated size.
    pub indirect_asize: u64,
    /// The file's record size.
    pub block_size: u64,
    /// The file's length.
    pub size: u64,
}

/// Adds the operation and the file to an error of a node.
fn named<T>(what: &'static str, name: &str, result: NodeResult<T>) -> Result<T> {
    result.map_err(|errno| check(what, name, errno.0).expect_err("an errno is not zero"))
}

impl Dataset {
    /// Creates a file in the root directory.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn create_file(&self, name: &str) -> Result<File> {
        File::create(self, name)
    }

    /// Opens a file in the root directory.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn open_file(&self, name: &str) -> Result<File> {
        File::open(self, name)
    }

    /// Removes a file's name. Its space is freed when its last handle is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn remove_file(&self, name: &str) -> Result<()> {
        File::remove(self, name)
    }

    /// Returns the names in the root directory, in the order of the directory.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn files(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut each = |entry: Entry<'_>| {
            let name = entry.name.to_string_lossy();
            if name != "." && name != ".." {
                names.push(name.into_owned());
            }
            true
        };
        let listed = self.root().and_then(|root| root.read_dir(0, &mut each));
        listed.map_err(|errno| check("listing", self.name(), errno.0).expect_err("an errno is not zero"))?;
        Ok(names)
    }
}

impl File {
    pub(crate) fn create(dataset: &Dataset, name: &str) -> Result<File> {
        let new = New { mode: libc::S_IFREG | 0o644, ..New::owned() };
        let made = dataset.root().and_then(|root| root.make(&node::name(name)?, &new));
        Ok(File { node: named("creating the file", name, made)?, name: name.to_owned(), direct: false })
    }

    pub(crate) fn open(dataset: &Dataset, name: &str) -> Result<File> {
        let found = dataset.root().and_then(|root| root.lookup(&node::name(name)?));
        Ok(File { node: named("opening the file", name, found)?, name: name.to_owned(), direct: false })
    }

    pub(crate) fn remove(dataset: &Dataset, name: &str) -> Result<()> {
        let removed = dataset.root().and_then(|root| root.unlink(&node::name(name)?));
        named("removing the file", name, removed).map(|_| ())
    }

    /// Returns the file as opened with `O_DIRECT`: see [`IoFlags::direct`]. Before OpenZFS 2.4, reads and writes that are not aligned to
    /// pages then fail with `EINVAL`, unless the dataset has `direct=disabled` or `direct=always`.
    pub fn into_direct(mut self) -> File {
        self.direct = true;
        self
    }

    /// Returns the name in the root directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the file's node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    fn flags(&self, sync: bool) -> IoFlags {
        IoFlags { sync, direct: self.direct }
    }

    /// Reads up to `buf.len()` bytes; fewer only at the end of the file. Returns their number.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        named("reading", &self.name, self.node.read_with(offset, buf, self.flags(false)))
    }

    /// Writes all of `buf` to the open transaction group, which is not yet on disk.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn write_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        named("writing", &self.name, self.node.write_with(offset, buf, self.flags(false)))
    }

    /// Writes all of `buf`, and returns when it is on disk, in the intent log or at its final place (`O_DSYNC`).
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn write_sync_at(&self, offset: u64, buf: &[u8]) -> Result<()> {
        named("writing", &self.name, self.node.write_with(offset, buf, self.flags(true)))
    }

    /// Sets the length.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn truncate(&self, size: u64) -> Result<()> {
        named("truncating", &self.name, self.node.truncate(size))
    }

    /// Frees a range, which then reads as zeros.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn punch(&self, offset: u64, len: u64) -> Result<()> {
        named("punching a hole in", &self.name, self.node.punch(offset, len))
    }

    /// Makes all acknowledged writes durable through the intent log (`fsync`).
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn sync(&self) -> Result<()> {
        named("syncing", &self.name, self.node.sync())
    }

    /// Returns the length.
    pub fn size(&self) -> u64 {
        self.node.size()
    }

    /// Returns the object number, as `zdb` shows it.
    pub fn object(&self) -> u64 {
        self.node.object()
    }

    /// Returns the current record size.
    pub fn block_size(&self) -> u64 {
        self.node.block_size()
    }

    /// Returns the space of the file's blocks. Slow, because it walks the block tree.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn blocks(&self) -> Result<Blocks> {
        let mut raw = ffi::pw_blocks::default();
        // SAFETY: an open node and a writable struct.
        check("walking the blocks of", &self.name, unsafe {
            ffi::pw_file_blocks(self.node.inner.raw, &mut raw)
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
