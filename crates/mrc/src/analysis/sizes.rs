//! The sizes of the modelled caches: the requested ones, or a choice for the trace.

use poolwright_base::memory;

use super::error::{Error, Result};
use super::model_name::ModelName;
use crate::advice::{GIB, Host};
use crate::footprint::{Footprint, grid};

/// The smallest value of `zfs_arc_max` in bytes (`arc_tuning_update` in arc.c).
pub const MIN_ARC: u64 = 64 << 20;

/// The smallest record of OpenZFS in bytes (`SPA_MINBLOCKSIZE`), as a limit for traces of objects, whose sizes vary.
const SMALLEST_RECORD: u64 = 512;

/// Memory that OpenZFS's ARC uses in addition to the data: for each record (header, share of an indirect block), and once (the
/// pool's own metadata). The values are those of [`crate::openzfs::Options`], rounded up, so that the largest size holds
/// the whole trace.
const BYTES_PER_RECORD: u64 = 320;
const BYTES_PER_POOL: u64 = 4 << 20;

/// Number of sizes if the footprint is unknown. Each is half of the next, and the largest is the host's memory.
const HALVES: u32 = 16;

/// How the cache sizes are chosen.
#[derive(Clone, Debug)]
pub enum CacheSizes {
    /// The requested sizes in bytes, ascending.
    Requested(Vec<u64>),
    /// Sizes up to the footprint of the trace.
    Footprint {
        /// Bytes in the cache of all records that the trace touches.
        bytes: u64,
        /// The number of these records.
        records: u64,
        /// The smallest useful size in bytes: one record.
        least: u64,
    },
    /// Halves of the host's memory, for a recording under way, whose footprint is unknown.
    Halves,
}

impl CacheSizes {
    /// The requested sizes; `None` if there are none.
    pub fn requested(sizes: &[u64]) -> Option<CacheSizes> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        (!sizes.is_empty()).then_some(CacheSizes::Requested(sizes))
    }

    /// Sizes up to a footprint whose records are compressed by `compress_ratio`; `least` is the smallest size in bytes.
    pub fn up_to(footprint: &Footprint, compress_ratio: f64, least: u64) -> CacheSizes {
        let bytes = (footprint.bytes() as f64 / compress_ratio) as u64;
        CacheSizes::Footprint { bytes, records: footprint.records(), least }
    }

    /// Bytes in the cache of all records that the trace touches; `None` if the trace was not measured.
    pub fn footprint_bytes(&self) -> Option<u64> {
        match self {
            CacheSizes::Footprint { bytes, .. } => Some(*bytes),
            CacheSizes::Requested(_) | CacheSizes::Halves => None,
        }
    }

    /// The sizes for one model in bytes, ascending. Requested sizes are returned unchanged.
    pub fn of(&self, model: ModelName) -> Vec<u64> {
        let openzfs = model == ModelName::Openzfs;
        match self {
            CacheSizes::Requested(sizes) => sizes.clone(),
            CacheSizes::Footprint { bytes, records, least } if openzfs => {
                let metadata = records.saturating_mul(BYTES_PER_RECORD).saturating_add(BYTES_PER_POOL);
                with_todays_arc(grid(bytes.saturating_add(metadata), MIN_ARC.max(*least)))
            }
            CacheSizes::Footprint { bytes, least, .. } => with_todays_arc(grid(*bytes, *least)),
            CacheSizes::Halves => {
                let memory = memory::total().unwrap_or(0).max(GIB).next_power_of_two();
                let sizes = (0..HALVES).rev().map(|half| memory >> half);
                sizes.filter(|size| !openzfs || *size >= MIN_ARC).collect()
            }
        }
    }
}

/// Checks that each requested size is a cache that the models can have: at least 64M for OpenZFS's ARC (`zfs_arc_max`), and
/// at least the largest record.
///
/// # Errors
/// [`Error::SmallArc`] or [`Error::SmallCache`] for the smallest size.
pub(super) fn check(sizes: &[u64], models: &[ModelName], recordsizes: &[u64]) -> Result<()> {
    let Some(&size) = sizes.iter().min() else { return Ok(()) };
    if models.contains(&ModelName::Openzfs) && size < MIN_ARC {
        return Err(Error::SmallArc { size, least: MIN_ARC });
    }
    let record = recordsizes.iter().max().copied().unwrap_or(SMALLEST_RECORD);
    if size < record { Err(Error::SmallCache { size, record }) } else { Ok(()) }
}

/// Adds today's ARC and one gigabyte more, if they are within the range of the sizes.
fn with_todays_arc(mut sizes: Vec<u64>) -> Vec<u64> {
    if let (Some(first), Some(last), Some(today)) =
        (sizes.first().copied(), sizes.last().copied(), Host::here().arc_max_bytes)
    {
        sizes.extend([today, today.saturating_add(GIB)].into_iter().filter(|s| (first..last).contains(s)));
        sizes.sort_unstable();
        sizes.dedup();
    }
    sizes
}

#[cfg(test)]
mod tests {
    use poolwright_base::{Exit, ReportedError as _};

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn every_size_is_one_that_openzfs_allows() {
        let small = CacheSizes::Footprint { bytes: 2 * MIB, records: 256, least: 8192 };
        assert_eq!(small.of(ModelName::Openzfs), [64 * MIB]);
        assert_eq!(small.of(ModelName::Lru).last(), Some(&(2 * MIB)));

        let large = CacheSizes::Footprint { bytes: 1 << 30, records: 1 << 17, least: 8192 };
        let sizes = large.of(ModelName::Openzfs);
        assert_eq!(sizes[0], 64 * MIB);
        assert!(*sizes.last().unwrap() > 1 << 30, "the ARC holds headers too");

        let requested = CacheSizes::requested(&[128 * MIB, MIB, 2 * MIB, MIB]).unwrap();
        assert_eq!(requested.of(ModelName::Openzfs), [MIB, 2 * MIB, 128 * MIB]);
        assert!(CacheSizes::requested(&[]).is_none());
        assert!(CacheSizes::Halves.of(ModelName::Openzfs)[0] >= 64 * MIB);
        assert_eq!(CacheSizes::Halves.of(ModelName::Arc).len(), 16);
    }

    #[test]
    fn a_cache_holds_a_record_and_openzfs_has_a_minimum() {
        use ModelName::{Lru, Openzfs};
        let refusal = |sizes: &[u64], models: &[ModelName], records: &[u64]| {
            check(sizes, models, records).err().map(|error| {
                assert_eq!(error.exit(), Exit::Usage);
                error.to_string()
            })
        };
        assert!(refusal(&[64 * MIB, 1], &[Openzfs], &[8192]).unwrap().contains("no ARC below 64M"));
        assert!(refusal(&[8191], &[Lru], &[4096, 8192]).unwrap().contains("one record of 8K"));
        assert!(refusal(&[511], &[Lru], &[]).is_some());
        let valid: [(&[u64], _, &[u64]); 4] =
            [(&[8192], Lru, &[8192]), (&[512], Lru, &[]), (&[64 * MIB], Openzfs, &[8192]), (&[], Lru, &[])];
        for (sizes, model, records) in valid {
            assert_eq!(refusal(sizes, &[model], records), None, "{sizes:?}");
        }
    }
}
