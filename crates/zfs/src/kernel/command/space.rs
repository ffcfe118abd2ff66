//! The space of pools: `zpool list`.

use super::error::MalformedOutput;
use super::number::Row;
use crate::kernel::HealthState;

/// The columns.
pub const COLUMNS: &str = "name,guid,size,allocated,free,fragmentation,capacity,dedupratio,freeing,leaked,checkpoint,expandsize,\
                           health,readonly";

/// The space and the health of a pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSpace {
    /// The pool's name.
    pub name: String,
    /// The size in bytes, without L2ARC and log devices. Like the other fields, `None` if it is unavailable (the pool is faulted).
    pub size: Option<u64>,
    /// Allocated bytes, redundancy included.
    pub allocated: Option<u64>,
    /// Free bytes.
    pub free: Option<u64>,
    /// Fragmentation of the free space, in percent. `None` if the feature `spacemap_histogram` is off.
    pub fragmentation: Option<u64>,
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
    Row::all(text, COLUMNS.split(',').count()).map(|row| parse_pool(&row?)).collect()
}

fn parse_pool(row: &Row<'_>) -> Result<PoolSpace, MalformedOutput> {
    Ok(PoolSpace {
        name: row.text(0).to_owned(),
        size: row.number(2)?,
        allocated: row.number(3)?,
        free: row.number(4)?,
        fragmentation: row.number(5)?,
        dedup_ratio: row.ratio(7)?,
        freeing: row.number(8)?,
        leaked: row.number(9)?,
        checkpoint: row.number(10)?,
        expand_size: row.number(11)?,
        health: HealthState::parse(row.text(12)),
        is_readonly: row.text(13) == "on",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_online_and_a_faulted_pool() {
        let text = "tank\t17\t100\t60\t40\t3\t60\t1.25\t0\t0\t-\t-\tONLINE\toff\n\
                    gone\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\t-\tFAULTED\t-\n";
        let pools = parse_space(text).unwrap();
        assert_eq!((pools[0].allocated, pools[0].dedup_ratio), (Some(60), Some(1.25)));
        assert_eq!((pools[0].expand_size, pools[0].is_readonly), (None, false));
        assert_eq!((pools[1].size, &pools[1].health), (None, &HealthState::Faulted));
        assert!(parse_space("tank\t1\n").is_err());
        assert_eq!(parse_space(""), Ok(Vec::new()));
    }
}
