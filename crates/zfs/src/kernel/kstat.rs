//! Readers for the counters that the kernel module shows in `/proc/spl/kstat/zfs`.
//!
//! A missing file is `None`: modules differ between versions, and a pool can be exported between two reads. A file that cannot
//! be parsed is an error that names the file and the line. At most [`MAX_FILE`] bytes of a file are read.

mod error;
mod named;
mod pool;
mod txgs;

use std::path::{Path, PathBuf};

pub use error::{KstatError, MalformedKstat};
pub use named::{KstatValue, NamedKstat, parse_named};
pub use pool::{ObjsetKstat, PoolKstats, parse_objset};
pub use txgs::{TxgRecord, TxgState, parse_txgs};

/// The directory that the kernel module fills.
pub const DEFAULT_ROOT: &str = "/proc/spl/kstat/zfs";

/// The limit for the size of one file, in bytes.
pub const MAX_FILE: u64 = 16 << 20;

/// A kstat directory: [`DEFAULT_ROOT`], or a captured copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kstats {
    root: PathBuf,
}

impl Default for Kstats {
    /// The running kernel's counters.
    fn default() -> Kstats {
        Kstats::new(DEFAULT_ROOT)
    }
}

impl Kstats {
    /// The counters below this directory, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Kstats {
        Kstats { root: root.into() }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the directory exists, that is, whether the kernel module is loaded.
    pub fn is_present(&self) -> bool {
        self.root.is_dir()
    }

    /// Reads the named kstat in the file `name` of the directory, such as `arcstats`.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn named(&self, name: &str) -> Result<Option<NamedKstat>, KstatError> {
        error::read_with(&self.root.join(name), parse_named)
    }

    /// Reads `arcstats`: the ARC and the L2ARC.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn arcstats(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("arcstats")
    }

    /// Reads `dbufstats`: the cache of decompressed blocks.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn dbufstats(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("dbufstats")
    }

    /// Reads `zil`: the intent logs of all pools together.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn zil(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("zil")
    }

    /// Reads `abdstats`: the buffers of the ARC.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn abdstats(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("abdstats")
    }

    /// Reads `zfetchstats`: the prefetcher of files.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn zfetchstats(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("zfetchstats")
    }

    /// Reads `dmu_tx`: why transactions had to wait.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn dmu_tx(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("dmu_tx")
    }

    /// Reads `fm`: counters of fault management, such as dropped error events.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn fm(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("fm")
    }

    /// Reads `vdev_cache_stats` (2.1; later versions have no such cache).
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn vdev_cache_stats(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("vdev_cache_stats")
    }

    /// Reads `vdev_mirror_stats`: how mirrors chose the side to read from.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn vdev_mirror_stats(&self) -> Result<Option<NamedKstat>, KstatError> {
        self.named("vdev_mirror_stats")
    }

    /// The imported pools, sorted by name: the subdirectories that have a file `state` or `guid`. Empty if the directory does
    /// not exist.
    ///
    /// # Errors
    /// If the directory exists and cannot be read.
    pub fn pools(&self) -> Result<Vec<PoolKstats>, KstatError> {
        pool::list(&self.root)
    }
}
