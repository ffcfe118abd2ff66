//! A plain directory as a target: the baseline on ext4, XFS, btrfs or another file system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use poolwright_base::{Scratch, Transient, scratch};
use poolwright_openzfs::VdevStats;
use rustix::fs::{major, minor};

use crate::clock::cpu_seconds;
use crate::error::host;
use crate::host_files::HostFiles;
use crate::{Counters, Result, Target};

const PREFIX: &str = "poolwright-trial-";

/// Files `fileN` in a scratch directory, which is removed when the target is dropped.
#[derive(Debug)]
pub struct Directory {
    root: Scratch,
    device: Option<String>,
    files: HostFiles,
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
        let files = HostFiles::new((0..files).map(|_| root.path()));
        Ok(Directory { root, device: known.then_some(device), files })
    }

    /// Removes the directories of killed trials below `parent`.
    pub(crate) fn remove_dead(parent: &Path) {
        scratch::sweep(parent, PREFIX);
    }

    /// Also removes them if this process ends without running its destructors.
    pub(crate) fn transient(parent: &Path) -> Transient {
        Transient::scratch(parent, PREFIX)
    }
}

impl Target for Directory {
    fn create(&self, file: u32) -> Result<()> {
        self.files.create(file)
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize> {
        self.files.read(file, offset, buf, direct)
    }

    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()> {
        self.files.write(file, offset, buf, sync, direct)
    }

    fn sync(&self, file: u32) -> Result<()> {
        self.files.sync(file)
    }

    fn truncate(&self, file: u32, size: u64) -> Result<()> {
        self.files.truncate(file, size)
    }

    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()> {
        self.files.punch(file, offset, len)
    }

    fn unlink(&self, file: u32) -> Result<()> {
        self.files.unlink(file)
    }

    fn start_txg(&self) -> Result<()> {
        Ok(()) // left to the kernel's writeback
    }

    fn settle(&self) -> Result<()> {
        self.files.settle()
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
