//! The state of pools: `zpool status`.

mod json;
mod scan_text;
mod text;
mod vdev_text;

pub use json::parse_status_json;
pub use text::{assign_guids, parse_status_text};

use crate::kernel::HealthState;
use crate::walk::walk;

/// A pool as `zpool status` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelPool {
    /// The pool's name.
    pub name: String,
    /// The pool's state.
    pub state: HealthState,
    /// The last scrub or resilver. `None` if there was none.
    pub scan: Option<PoolScan>,
    /// The last sequential resilver of a vdev. `None` if there was none.
    pub rebuild: Option<PoolScan>,
    /// The vdevs: first the root with the normal vdevs below it, then the top-level vdevs of the other classes.
    pub vdevs: Vec<VdevNode>,
    /// The number of data errors: blocks that could not be read or repaired. `None` if the output does not contain it.
    pub data_errors: Option<u64>,
}

impl KernelPool {
    /// The top-level vdevs of a class.
    pub fn vdevs_of(&self, class: VdevClass) -> impl Iterator<Item = &VdevNode> {
        // The normal vdevs are below the root, which has the pool's name.
        fn top(vdev: &VdevNode) -> &[VdevNode] {
            if vdev.kind == "root" { &vdev.children } else { std::slice::from_ref(vdev) }
        }
        self.vdevs.iter().flat_map(top).filter(move |vdev| vdev.class == class)
    }
}

/// The class of a vdev.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VdevClass {
    /// Normal data.
    Data,
    /// The intent log.
    Log,
    /// The L2ARC.
    Cache,
    /// A hot spare.
    Spare,
    /// Metadata and small blocks.
    Special,
    /// The tables of deduplication.
    Dedup,
}

impl VdevClass {
    /// The name of the class: `data`, `log`, `cache`, `spare`, `special` or `dedup`.
    pub fn as_str(self) -> &'static str {
        match self {
            VdevClass::Data => "data",
            VdevClass::Log => "log",
            VdevClass::Cache => "cache",
            VdevClass::Spare => "spare",
            VdevClass::Special => "special",
            VdevClass::Dedup => "dedup",
        }
    }
}

/// A vdev and the vdevs below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevNode {
    /// The name as `zpool` prints it: the pool's name for the root, `mirror-0`, `sda`, or the path of a file.
    pub name: String,
    /// The type: `root`, `mirror`, `raidz`, `draid`, `replacing`, `spare`, `disk`, `file`, … The text output (before 2.3) has
    /// no types; they are derived from the names there.
    pub kind: String,
    /// The class of the vdev.
    pub class: VdevClass,
    /// The vdev's GUID. `None` if the output has none.
    pub guid: Option<u64>,
    /// The state.
    pub state: HealthState,
    /// Failed reads. As the two following, `None` for spares, which have no counters.
    pub read_errors: Option<u64>,
    /// Failed writes.
    pub write_errors: Option<u64>,
    /// Blocks with a wrong checksum.
    pub checksum_errors: Option<u64>,
    /// I/Os that took longer than `zio_slow_io_ms`. Only leaves have this counter.
    pub slow_ios: Option<u64>,
    /// The vdevs below this one.
    pub children: Vec<VdevNode>,
}

/// The function of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanFunction {
    /// Verifies all data.
    Scrub,
    /// Reads only the blocks in the error log (2.2). It has times, but no numbers of bytes.
    ErrorScrub,
    /// Copies data to a device that was replaced or was away.
    Resilver,
    /// Copies data to a device in the order of the device (a sequential resilver).
    Rebuild,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanPhase {
    /// In progress.
    Scanning,
    /// Paused by the administrator.
    Paused,
    /// Complete.
    Finished,
    /// Stopped before its end.
    Canceled,
}

/// A scrub or resilver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolScan {
    /// Its function.
    pub function: ScanFunction,
    /// How far it is.
    pub phase: ScanPhase,
    /// When it started, in seconds since 1970. The text output (before 2.3) lacks it for a finished or canceled scan.
    pub start_time: Option<u64>,
    /// When it ended, in seconds since 1970. `None` while it runs.
    pub end_time: Option<u64>,
    /// The bytes read. As the following number, `None` in the text output of a scan that has ended, and rounded to three digits
    /// in the text output of another one.
    pub issued: Option<u64>,
    /// The bytes to read.
    pub total: Option<u64>,
    /// The bytes that a scrub repaired or a resilver copied.
    pub repaired: Option<u64>,
    /// Blocks that could not be repaired. `None` in the text output of a scan that has not ended.
    pub errors: Option<u64>,
}

impl PoolScan {
    /// A scan of which only this is known.
    fn new(function: ScanFunction, phase: ScanPhase) -> PoolScan {
        PoolScan {
            function,
            phase,
            start_time: None,
            end_time: None,
            issued: None,
            total: None,
            repaired: None,
            errors: None,
        }
    }
}

impl KernelPool {
    /// All vdevs with their depths: each before the vdevs below it.
    pub fn walk(&self) -> impl Iterator<Item = (usize, &VdevNode)> {
        walk(&self.vdevs, |vdev| &vdev.children)
    }
}
