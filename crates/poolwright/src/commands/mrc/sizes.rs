//! The sizes of the caches: as asked for, or what is worth a look.

use anyhow::Context as _;
use poolwright_mrc::advice::{GIB, Host};
use poolwright_mrc::footprint::{Footprint, grid};
use poolwright_trace::format_size;

use super::model_name::ModelName;
use crate::commands::options::Usage;
use crate::scratch;

/// The least that `zfs_arc_max` takes (`arc_tuning_update` in arc.c).
pub const LEAST_ARC: u64 = 64 << 20;

/// The least record that OpenZFS has (`SPA_MINBLOCKSIZE`); for traces of objects, whose sizes are their own.
const SMALLEST_RECORD: u64 = 512;

/// What OpenZFS's ARC holds beside a record (header, indirect block) and beside all of them (the pool's own), so that the
/// last size still holds all of the trace; as [`poolwright_mrc::openzfs::Options`] has them, rounded up.
const BESIDE_A_RECORD: u64 = 320;
const BESIDE: u64 = 4 << 20;

/// Sizes where a recording has only begun: halves of the machine's memory, since what it will touch is not known yet.
const HALVES: u32 = 16;

/// Where sizes come from.
#[derive(Clone, Debug)]
pub enum Sizes {
    /// From the user, ascending.
    Asked(Vec<u64>),
    /// From what the trace touches: bytes in the cache, records, and the size below which no record fits.
    Touched { bytes: u64, records: u64, least: u64 },
    /// From this machine's memory.
    Halves,
}

impl Sizes {
    /// Those asked for, if there are any.
    pub fn asked(sizes: &[u64]) -> Option<Sizes> {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        (!sizes.is_empty()).then_some(Sizes::Asked(sizes))
    }

    /// Up to what holds all of a trace, in records that are so much smaller in the cache.
    pub fn touched(footprint: &Footprint, compress_ratio: f64, least: u64) -> Sizes {
        let bytes = (footprint.bytes() as f64 / compress_ratio) as u64;
        Sizes::Touched { bytes, records: footprint.records(), least }
    }

    /// Bytes that the trace touches, where that was found out.
    pub fn footprint(&self) -> Option<u64> {
        match self {
            Sizes::Touched { bytes, .. } => Some(*bytes),
            Sizes::Asked(_) | Sizes::Halves => None,
        }
    }

    /// The sizes of one model, ascending. What was asked for is done as asked.
    pub fn of(&self, model: ModelName) -> Vec<u64> {
        let openzfs = model == ModelName::Openzfs;
        match self {
            Sizes::Asked(sizes) => sizes.clone(),
            Sizes::Touched { bytes, records, least } if openzfs => {
                let all =
                    bytes.saturating_add(records.saturating_mul(BESIDE_A_RECORD)).saturating_add(BESIDE);
                with_today(grid(all, LEAST_ARC.max(*least)))
            }
            Sizes::Touched { bytes, least, .. } => with_today(grid(*bytes, *least)),
            Sizes::Halves => {
                let memory = scratch::total_memory().max(1 << 30).next_power_of_two();
                let sizes = (0..HALVES).rev().map(|half| memory >> half);
                sizes.filter(|size| !openzfs || *size >= LEAST_ARC).collect()
            }
        }
    }

    /// What has to be said where the trace is too small for more than one size of OpenZFS's ARC.
    pub fn note(&self, models: &[ModelName]) -> Option<String> {
        let Sizes::Touched { bytes, .. } = self else { return None };
        let one = models.contains(&ModelName::Openzfs) && self.of(ModelName::Openzfs) == [LEAST_ARC];
        one.then(|| {
            format!(
                "all that the trace touches ({}) fits into the smallest ARC that OpenZFS takes, {}; \
                 --model lru or arc looks at smaller caches",
                format_size(*bytes),
                format_size(LEAST_ARC)
            )
        })
    }
}

/// Refuses sizes below what a cache of these models can be: 64M for OpenZFS's ARC (`zfs_arc_max`), one of the largest
/// records for the others.
pub fn check(sizes: &[u64], models: &[ModelName], recordsizes: &[u64]) -> anyhow::Result<()> {
    let Some(size) = sizes.iter().min() else { return Ok(()) };
    let shown = format_size(*size);
    if models.contains(&ModelName::Openzfs) && *size < LEAST_ARC {
        let least = format_size(LEAST_ARC);
        return Err(anyhow::anyhow!(
            "--sizes {shown}: OpenZFS takes no ARC below {least} (zfs_arc_max)\n\
             hint: --model lru or arc looks at smaller caches"
        ))
        .context(Usage);
    }
    let record = recordsizes.iter().max().copied().unwrap_or(SMALLEST_RECORD);
    if *size < record {
        return Err(anyhow::anyhow!(
            "--sizes {shown}: this cache is smaller than one record of {}",
            format_size(record)
        ))
        .context(Usage);
    }
    Ok(())
}

/// With today's ARC and a gigabyte more, where they are among the sizes.
fn with_today(mut sizes: Vec<u64>) -> Vec<u64> {
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
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn openzfs_has_no_size_that_it_does_not_take() {
        let small = Sizes::Touched { bytes: 2 * MIB, records: 256, least: 8192 };
        assert_eq!(small.of(ModelName::Openzfs), [64 * MIB]);
        assert_eq!(small.of(ModelName::Lru).last(), Some(&(2 * MIB)));
        assert!(small.note(&[ModelName::Openzfs]).unwrap().contains("(2M) fits into the smallest"));
        assert_eq!(small.note(&[ModelName::Lru, ModelName::Arc]), None);

        let large = Sizes::Touched { bytes: 1 << 30, records: 1 << 17, least: 8192 };
        let sizes = large.of(ModelName::Openzfs);
        assert_eq!(sizes[0], 64 * MIB);
        assert!(*sizes.last().unwrap() > 1 << 30, "headers are held too");
        assert_eq!(large.note(&[ModelName::Openzfs]), None);

        let asked = Sizes::asked(&[128 * MIB, MIB, 2 * MIB, MIB]).unwrap();
        assert_eq!(asked.of(ModelName::Openzfs), [MIB, 2 * MIB, 128 * MIB]);
        assert_eq!(asked.note(&[ModelName::Openzfs]), None);
        assert!(Sizes::asked(&[]).is_none());
        assert!(Sizes::Halves.of(ModelName::Openzfs)[0] >= 64 * MIB);
        assert_eq!(Sizes::Halves.of(ModelName::Arc).len(), 16);
    }

    #[test]
    fn a_cache_holds_a_record_and_openzfs_has_its_own_least() {
        use ModelName::{Lru, Openzfs};
        let refusal = |sizes: &[u64], models: &[ModelName], records: &[u64]| {
            check(sizes, models, records).err().map(|why| {
                assert!(why.downcast_ref::<Usage>().is_some());
                format!("{why:#}")
            })
        };
        assert!(refusal(&[64 * MIB, 1], &[Openzfs], &[8192]).unwrap().contains("no ARC below 64M"));
        assert!(refusal(&[8191], &[Lru], &[4096, 8192]).unwrap().contains("one record of 8K"));
        assert!(refusal(&[511], &[Lru], &[]).is_some());
        let fine: [(&[u64], _, &[u64]); 4] =
            [(&[8192], Lru, &[8192]), (&[512], Lru, &[]), (&[64 * MIB], Openzfs, &[8192]), (&[], Lru, &[])];
        for (sizes, model, records) in fine {
            assert_eq!(refusal(sizes, &[model], records), None, "{sizes:?}");
        }
    }
}
