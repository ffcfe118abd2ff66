//! Readers for the counters that the kernel module shows in `/proc/spl/kstat/zfs`.
//!
//! A missing file is `None`: modules differ between versions, and a pool can be exported between two reads. A file that cannot
//! be parsed is an error that names the file and the line. At most [`MAX_FILE`] bytes of a file are read.

mod error;
mod named;
mod pool;
mod txgs;

use std::path::PathBuf;

pub use error::{KstatError, MalformedKstat};
pub use named::{NamedKstat, parse_named};
pub use pool::PoolKstats;
pub use txgs::{TxgRecord, parse_txgs};

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

    /// Whether the directory exists, that is, whether the kernel module is loaded.
    pub fn is_present(&self) -> bool {
        self.root.is_dir()
    }

    /// Reads the named kstat in the file `name` of the directory, such as `arcstats` (the ARC and the L2ARC), `dbufstats` (the cache of
    /// decompressed blocks), `zfetchstats` (the prefetcher of files), `dmu_tx` (why transactions had to wait) or `fm` (fault management).
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn named(&self, name: &str) -> Result<Option<NamedKstat>, KstatError> {
        error::read_with(&self.root.join(name), parse_named)
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
