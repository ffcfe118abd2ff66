//! The I/O counters of vdevs: `zpool get … all-vdevs` (2.2 and later).

use super::error::MalformedOutput;

/// The requested properties. `guid` must be the first: it begins a vdev.
pub const PROPERTIES: &str = "guid,read_ops,write_ops,trim_ops,read_bytes,write_bytes,trim_bytes,read_errors,write_errors,\
                              checksum_errors,ashift,allocated,size";

/// The I/O of one vdev since the pool was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VdevCounters {
    /// The name as `zpool get` prints it: `root-0`, `mirror-0`, `sda`.
    pub name: String,
    /// The vdev's GUID.
    pub guid: Option<u64>,
    /// Reads. As the others, `None` if the vdev has no such counter.
    pub read_ops: Option<u64>,
    /// Writes.
    pub write_ops: Option<u64>,
    /// Trims.
    pub trim_ops: Option<u64>,
    /// Bytes read.
    pub read_bytes: Option<u64>,
    /// Bytes written.
    pub write_bytes: Option<u64>,
    /// Bytes trimmed.
    pub trim_bytes: Option<u64>,
    /// Failed reads.
    pub read_errors: Option<u64>,
    /// Failed writes.
    pub write_errors: Option<u64>,
    /// Blocks with a wrong checksum.
    pub checksum_errors: Option<u64>,
    /// The exponent of the sector size: 12 for 4096 bytes.
    pub ashift: Option<u64>,
    /// Allocated bytes.
    pub allocated: Option<u64>,
    /// The size in bytes.
    pub size: Option<u64>,
}

/// Parses the output of `zpool get -Hp -o name,property,value` [`PROPERTIES`] `POOL all-vdevs`.
///
/// # Errors
/// If a line has another number of columns, or a value is malformed.
pub fn parse_vdev_counters(text: &str) -> Result<Vec<VdevCounters>, MalformedOutput> {
    todo!("{text}")
}
