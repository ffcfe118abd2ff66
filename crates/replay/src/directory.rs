//! A plain directory as a target: the baseline on ext4, XFS, btrfs or another file system.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::RwLock;

use poolwright_host::{Scratch, Transient, private, scratch};
use poolwright_openzfs::VdevStats;
use rustix::fs::{FallocateFlags, OFlags, fallocate, major, minor};

use crate::clock::cpu_seconds;
use crate::error::host;
use crate::{Counters, Result, Target};

const PREFIX: &str = "poolwright-trial-";

/// Files `fileN` in a scratch directory, which is removed when the target is dropped.
#[derive(Debug)]
pub struct Directory {
    root: Scratch,
    device: Option<String>,
    files: Vec<RwLock<Option<Open>>>,
}

/// An open file, and a descriptor for direct I/O if the file system supports it.
#[derive(Debug)]
struct Open {
    cached: fs::File,
    direct: Option<fs::File>,
}

impl Directory {
    /// Creates a scratch directory below `parent` for `files` files.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory cannot be created.
    pub fn create(parent: &Path, files: usize) -> Result<Directory> {
        let root = Scratch::create(parent, PREFIX).map_err(host("create a scratch directory in", parent))?;
        let dev = fs::metadata(root.path()).map_err(host("inspect", root.path()))?.dev();
        let device = format!("{}:{}", major(dev), minor(dev));
        let known = Path::new("/sys/dev/block").join(&device).exists();
        let files = (0..files).map(|_| RwLock::new(None)).collect();
        Ok(Directory { root, device: known.then_some(device), files })
    }

    /// Removes the directories of killed trials below `parent`.
    pub(crate) fn remove_dead(parent: &Path) {
        scratch::sweep(parent, PREFIX);
    }

    /// Removes them also if this process ends without running its destructors.
    pub(crate) fn transient(parent: &Path) -> Transient {
        Transient::scratch(parent, PREFIX)
    }

    fn path(&self, file: u32) -> PathBuf {
        self.root.path().join(format!("file{file}"))
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
            *slot = Some(Open::create(&path).map_err(host("create", &path))?);
        }
        work(slot.as_ref().expect("just filled")).map_err(host(what, path))
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

impl Target for Directory {
    fn create(&self, file: u32) -> Result<()> {
        self.with(file, "create", |_| Ok(()))
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize> {
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

    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()> {
        self.with(file, "write", |open| open.choose(direct, offset, buf).write_all_at(buf, offset))?;
        if sync { self.sync(file) } else { Ok(()) }
    }

    fn sync(&self, file: u32) -> Result<()> {
        self.with(file, "sync", |open| open.cached.sync_data())
    }

    fn truncate(&self, file: u32, size: u64) -> Result<()> {
        self.with(file, "truncate", |open| open.cached.set_len(size))
    }

    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.with(file, "punch a hole in", |open| Ok(fallocate(&open.cached, flags, offset, len)?))
    }

    fn unlink(&self, file: u32) -> Result<()> {
        if self.files[file as usize].write().expect("lock is not poisoned").take().is_some() {
            let path = self.path(file);
            fs::remove_file(&path).map_err(host("remove", path))?;
        }
        Ok(())
    }

    fn kick(&self) -> Result<()> {
        Ok(()) // left to the kernel's writeback
    }

    fn settle(&self) -> Result<()> {
        for file in 0..self.files.len() as u32 {
            let open = self.files[file as usize].read().expect("lock is not poisoned");
            if let Some(open) = open.as_ref() {
                open.cached.sync_all().map_err(host("sync", self.path(file)))?;
            }
        }
        Ok(())
    }

    fn counters(&self) -> Result<Counters> {
        let vdev = self.device.as_deref().and_then(disk_stats).unwrap_or_default();
        Ok(Counters { vdev, cpu_seconds: cpu_seconds(), ..Counters::default() })
    }

    fn logical_bytes(&self) -> Result<u64> {
        // A plain file system is assumed not to compress, so logical and allocated size are equal.
        self.allocated_bytes()
    }

    fn allocated_bytes(&self) -> Result<u64> {
        let entries = fs::read_dir(self.root.path()).map_err(host("list", self.root.path()))?;
        Ok(entries.flatten().filter_map(|e| e.metadata().ok()).map(|m| m.blocks() * 512).sum())
    }
}

/// Reads the counters of the whole device from `/sys/dev/block/M:N/stat`; they include other users of the device.
fn disk_stats(device: &str) -> Option<VdevStats> {
    let text = fs::read_to_string(format!("/sys/dev/block/{device}/stat")).ok()?;
    let field: Vec<u64> = text.split_whitespace().map_while(|f| f.parse().ok()).collect();
    let at = |i: usize| field.get(i).copied().unwrap_or(0);
    Some(VdevStats {
        read_ops: at(0),
        read_bytes: at(2) * 512,
        read_ns: at(3) * 1_000_000,
        write_ops: at(4),
        write_bytes: at(6) * 512,
        write_ns: at(7) * 1_000_000,
        flushes: at(15),
        flush_ns: at(16) * 1_000_000,
    })
}
