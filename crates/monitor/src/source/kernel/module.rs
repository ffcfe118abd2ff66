//! Counters of the whole kernel module: the ARC, the L2ARC, transactions, the prefetcher.

use poolwright_zfs::kernel::Kstats;
use poolwright_zfs::kernel::kstat::NamedKstat;

use super::ENGINE;
use crate::family::*;
use crate::source::SourceName;
use crate::{Readings, Result, Source};

/// Gauges of `arcstats`: one counter each.
const ARC_VALUES: [(&str, &MetricFamily); 18] = [
    ("size", &ARC_SIZE),
    ("c", &ARC_TARGET),
    ("c_max", &ARC_MAX),
    ("c_min", &ARC_MIN),
    ("compressed_size", &ARC_COMPRESSED),
    ("uncompressed_size", &ARC_UNCOMPRESSED),
    ("metadata_size", &ARC_METADATA),
    ("arc_no_grow", &ARC_NO_GROW),
    ("memory_throttle_count", &ARC_THROTTLED),
    ("memory_direct_count", &ARC_DIRECT_RECLAIMS),
    ("memory_indirect_count", &ARC_BACKGROUND_RECLAIMS),
    ("mru_ghost_hits", &ARC_MRU_GHOST_HITS),
    ("mfu_ghost_hits", &ARC_MFU_GHOST_HITS),
    ("l2_hits", &L2ARC_HITS),
    ("l2_misses", &L2ARC_MISSES),
    ("l2_size", &L2ARC_SIZE),
    ("l2_asize", &L2ARC_ALLOCATED),
    ("l2_hdr_size", &L2ARC_HEADERS),
];
/// More values of the ARC: sums of counters, or counters that only an L2ARC has.
const ARC_SUMS: [(&[&str], &MetricFamily); 4] = [
    (&["hdr_size", "dbuf_size", "dnode_size", "bonus_size"], &ARC_OVERHEAD),
    (&["l2_read_bytes"], &L2ARC_READ_BYTES),
    (&["l2_write_bytes"], &L2ARC_WRITE_BYTES),
    (&["l2_cksum_bad", "l2_io_error"], &L2ARC_ERRORS),
];
const ARC_STATES: [&str; 6] = ["anon", "mru", "mfu", "mru_ghost", "mfu_ghost", "uncached"];
const ACCESS_TYPES: [&str; 4] = ["demand_data", "demand_metadata", "prefetch_data", "prefetch_metadata"];
const ACCESS_RESULTS: [(&str, &str); 3] = [("hit", "hits"), ("iohit", "iohits"), ("miss", "misses")];

/// The counters that do not belong to one pool.
#[derive(Debug)]
pub struct ModuleCounters {
    kstats: Kstats,
}

impl ModuleCounters {
    pub fn new(kstats: Kstats) -> ModuleCounters {
        ModuleCounters { kstats }
    }
}

impl Source for ModuleCounters {
    fn name(&self) -> SourceName {
        SourceName { source: "kernel-module", pool: String::new() }
    }

    fn read(&mut self) -> Result<Readings> {
        let mut readings = Readings::default();
        if let Some(arc) = self.kstats.named("arcstats")? {
            add_arc(&mut readings, &arc);
        }
        let named = |name| self.kstats.named(name);
        let (dbufs, transactions, events) = (named("dbufstats")?, named("dmu_tx")?, named("fm")?);
        let value = |stats: &Option<NamedKstat>, name: &str| stats.as_ref()?.unsigned(name);
        readings
            .add(&MODULE, [ENGINE])
            .count(&DBUF_CACHE, value(&dbufs, "cache_size_bytes"))
            .count(&DBUF_CACHE_TARGET, value(&dbufs, "cache_target_bytes"))
            .count(&TX_ASSIGNED, value(&transactions, "dmu_tx_assigned"))
            .count(&EVENTS_DROPPED, value(&events, "erpt-dropped"));
        for (name, count) in transactions.iter().flat_map(|stats| &stats.values) {
            let reason = name.strip_prefix("dmu_tx_").filter(|reason| *reason != "assigned");
            if let Some(reason) = reason {
                readings.add(&TX_WAIT, [ENGINE, reason]).count(&TX_WAITS, *count);
            }
        }
        let prefetches = named("zfetchstats")?;
        for (result, name) in [("hit", "hits"), ("miss", "misses")] {
            if let Some(count) = value(&prefetches, name) {
                readings.add(&PREFETCH, [ENGINE, result]).count(&PREFETCH_ACCESSES, count);
            }
        }
        Ok(readings)
    }
}

fn add_arc(readings: &mut Readings, stats: &NamedKstat) {
    let arc = readings.add(&ARC, [ENGINE, ""]);
    for (name, family) in ARC_VALUES {
        arc.count(family, stats.unsigned(name));
    }
    for (names, family) in ARC_SUMS {
        arc.count(family, names.iter().map(|name| stats.unsigned(name)).sum::<Option<u64>>());
    }
    for state in ARC_STATES {
        if let Some(size) = stats.unsigned(&format!("{state}_size")) {
            readings.add(&ARC_STATE, [ENGINE, "", state]).count(&ARC_STATE_SIZE, size);
        }
    }
    for kind in ACCESS_TYPES {
        for (result, suffix) in ACCESS_RESULTS {
            if let Some(count) = stats.unsigned(&format!("{kind}_{suffix}")) {
                readings.add(&ARC_ACCESS, [ENGINE, "", kind, result]).count(&ARC_ACCESSES, count);
            }
        }
    }
}
