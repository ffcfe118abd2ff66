//! The files of a trace as files of the host, opened when they are first used.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use poolwright_base::private;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::Result;
use crate::error::host;

/// The files, by their number in the trace. Many threads use them at once.
#[derive(Debug)]
pub(crate) struct HostFiles {
    paths: Vec<PathBuf>,
    files: Vec<RwLock<Option<Open>>>,
}

/// An open file, and a descriptor for direct I/O if the file system supports it.
#[derive(Debug)]
struct Open {
    cached: fs::File,
    direct: Option<fs::File>,
}

impl HostFiles {
    /// Files `fileN`, each in the directory with its number.
    pub fn new<'a>(directories: impl Iterator<Item = &'a Path>) -> HostFiles {
        let paths: Vec<PathBuf> =
            directories.enumerate().map(|(file, dir)| dir.join(format!("file{file}"))).collect();
        let files = paths.iter().map(|_| RwLock::new(None)).collect();
        HostFiles { paths, files }
    }

    fn path(&self, file: u32) -> &Path {
        &self.paths[file as usize]
    }

    fn with<T>(
        &self,
        file: u32,
        what: &'static str,
        work: impl FnOnce(&Open) -> std::io::Result<T>,
    ) -> Result<T> {
        let path = self.path(file);
        {
            let open = self.files[file as usize].read().expect("lock is not poisoned");
            if let Some(open) = open.as_ref() {
                return work(open).map_err(host(what, path));
            }
        }
        let mut slot = self.files[file as usize].write().expect("lock is not poisoned");
        if slot.is_none() {
            *slot = Some(Open::create(path).map_err(host("create", path))?);
        }
        work(slot.as_ref().expect("just filled")).map_err(host(what, path))
    }

    /// Creates an empty file; does nothing if it exists.
    pub fn create(&self, file: u32) -> Result<()> {
        self.with(file, "create", |_| Ok(()))
    }

    /// Reads, as [`crate::Target::read`].
    pub fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize> {
        self.with(file, "read", |open| {
            let through = open.choose(direct, offset, buf);
            let mut done = 0;
            while done < buf.len() {
                match through.read_at(&mut buf[done..], offset + done as u64)? {
                    0 => break,
                    n => done += n,
                }
                if direct && done < buf.len() {
                    break; // a short direct read is the end of the file
                }
            }
            Ok(done)
        })
    }

    /// Writes, as [`crate::Target::write`].
    pub fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()> {
        self.with(file, "write", |open| open.choose(direct, offset, buf).write_all_at(buf, offset))?;
        if sync { self.sync(file) } else { Ok(()) }
    }

    /// Makes the writes of a file durable.
    pub fn sync(&self, file: u32) -> Result<()> {
        self.with(file, "sync", |open| open.cached.sync_data())
    }

    /// Sets the length.
    pub fn truncate(&self, file: u32, size: u64) -> Result<()> {
        self.with(file, "truncate", |open| open.cached.set_len(size))
    }

    /// Frees a range.
    pub fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.with(file, "punch a hole in", |open| Ok(fallocate(&open.cached, flags, offset, len)?))
    }

    /// Removes a file; does nothing if it does not exist.
    pub fn unlink(&self, file: u32) -> Result<()> {
        if self.files[file as usize].write().expect("lock is not poisoned").take().is_some() {
            let path = self.path(file);
            fs::remove_file(path).map_err(host("remove", path))?;
        }
        Ok(())
    }

    /// Makes all writes durable.
    pub fn settle(&self) -> Result<()> {
        for file in 0..self.files.len() as u32 {
            let open = self.files[file as usize].read().expect("lock is not poisoned");
            if let Some(open) = open.as_ref() {
                open.cached.sync_all().map_err(host("sync", self.path(file)))?;
            }
        }
        Ok(())
    }
}

impl Open {
    fn create(path: &Path) -> std::io::Result<Open> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(private::FILE);
        let cached = options.open(path)?;
        Ok(Open { cached, direct: options.custom_flags(OFlags::DIRECT.bits() as i32).open(path).ok() })
    }

    /// Returns the descriptor to use: requests that direct I/O does not support (unaligned offset, length or memory)
    /// use the page cache.
    fn choose(&self, direct: bool, offset: u64, buf: &[u8]) -> &fs::File {
        match &self.direct {
            Some(file) if direct && aligned(offset, buf) => file,
            _ => &self.cached,
        }
    }
}

fn aligned(offset: u64, buf: &[u8]) -> bool {
    const UNIT: u64 = 4096;
    offset.is_multiple_of(UNIT)
        && (buf.len() as u64).is_multiple_of(UNIT)
        && (buf.as_ptr() as u64).is_multiple_of(UNIT)
}
