//! The space of pools: `zpool list`.

use super::error::MalformedOutput;
use crate::HealthState;

/// The columns, in the order of [`PoolSpace`]'s fields.
pub const COLUMNS: &str = "name,guid,size,allocated,free,fragmentation,capacity,dedupratio,freeing,leaked,checkpoint,expandsize,\
                           health,readonly";

/// The space and the health of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSpace {
    /// The pool's name.
    pub name: String,
    /// The pool's GUID.
    pub guid: Option<u64>,
    /// The size in bytes, without L2ARC and log devices. As the others, `None` if the pool cannot say (it is faulted).
    pub size: Option<u64>,
    /// Allocated bytes, redundancy included.
    pub allocated: Option<u64>,
    /// Free bytes.
    pub free: Option<u64>,
    /// Fragmentation of the free space, in percent. `None` if the feature `spacemap_histogram` is off.
    pub fragmentation: Option<u64>,
    /// Allocated space, in percent of the size.
    pub capacity: Option<u64>,
    /// The ratio by which deduplication reduces the space; 1 without deduplication.
    pub dedup_ratio: Option<f64>,
    /// Bytes that wait to be freed after a file system or snapshot was destroyed.
    pub freeing: Option<u64>,
    /// Bytes that were lost when corrupt data was freed.
    pub leaked: Option<u64>,
    /// Bytes that only the checkpoint refers to. `None` if the pool has no checkpoint.
    pub checkpoint: Option<u64>,
    /// Bytes by which the pool could grow, because its devices have grown. `None` if they have not.
    pub expand_size: Option<u64>,
    /// The pool's state.
    pub health: HealthState,
    /// Whether the pool is imported read-only.
    pub is_readonly: bool,
}

/// Parses the output of `zpool list -Hp -o` [`COLUMNS`].
///
/// # Errors
/// If a line has another number of columns, or a value is malformed.
pub fn parse_space(text: &str) -> Result<Vec<PoolSpace>, MalformedOutput> {
    todo!("{text}")
}
