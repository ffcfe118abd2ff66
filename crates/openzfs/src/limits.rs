//! The engine's limits on memory.

use poolwright_base::memory;

use crate::{Error, Result};

/// The smallest ARC in bytes: four of the largest records.
pub const MIN_ARC: u64 = 64 << 20;

/// The default ARC limit in bytes: half of the available memory.
pub fn default_arc_bytes() -> u64 {
    (memory::available().unwrap_or(0) / 2).max(MIN_ARC)
}

/// The default of `zfs_dirty_data_max` in the kernel (zfs(4)), in bytes: a tenth of the memory, at most 4 GiB.
pub fn default_dirty_bytes() -> u64 {
    (memory::total().unwrap_or(0) / 10).clamp(64 << 20, 4 << 30)
}

/// Checks an ARC limit against the memory of the machine; both are in bytes, and 0 means that the memory is unknown.
///
/// # Errors
/// [`Error::Invalid`] if the limit is too small for the engine or larger than the memory.
pub fn check_arc(bytes: u64, memory: u64) -> Result<u64> {
    if bytes < MIN_ARC {
        return Err(Error::Invalid("the smallest ARC is 64M".into()));
    }
    if memory != 0 && bytes > memory {
        let gib = memory as f64 / f64::from(1 << 30);
        return Err(Error::Invalid(format!("the machine has only {gib:.1} GiB of memory")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arc_fits_the_machine() {
        let memory = 24 << 30;
        for good in [MIN_ARC, 10 << 30, memory] {
            assert!(check_arc(good, memory).is_ok(), "{good}");
        }
        for bad in [MIN_ARC - 1, memory + 1, 1_000_000 << 40] {
            assert!(check_arc(bad, memory).is_err(), "{bad}");
        }
        assert!(check_arc(memory, 0).is_ok());
        assert!(default_arc_bytes() >= MIN_ARC && default_dirty_bytes() <= 4 << 30);
    }
}
