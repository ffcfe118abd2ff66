//! The kstats of one pool. Reading them takes no lock of the pool.

use poolwright_zfs::kernel::KstatError;
use poolwright_zfs::kernel::kstat::{PoolKstats, TxgRecord};

use super::ENGINE;
use crate::family::*;
use crate::source::user_pool::POOL_STATES;
use crate::source::{SourceName, seconds};
use crate::{Readings, Resource, Result, Source};

/// Counters of a mounted dataset.
const DATASET_COUNTERS: [(&str, &MetricFamily); 10] = [
    ("nread", &DATASET_READ_BYTES),
    ("nwritten", &DATASET_WRITE_BYTES),
    ("reads", &DATASET_READS),
    ("writes", &DATASET_WRITES),
    ("zil_commit_count", &ZIL_COMMITS),
    ("zil_itx_count", &ZIL_RECORDS),
    ("zil_itx_metaslab_normal_write", &ZIL_NORMAL_BYTES),
    ("zil_itx_metaslab_slog_write", &ZIL_SLOG_BYTES),
    ("zil_commit_error_count", &ZIL_ERRORS),
    ("zil_commit_stall_count", &ZIL_STALLS),
];

/// State, transaction groups and datasets of a pool.
#[derive(Debug)]
pub struct PoolCounters {
    kstats: PoolKstats,
}

impl PoolCounters {
    pub fn new(kstats: PoolKstats) -> PoolCounters {
        PoolCounters { kstats }
    }
}

impl Source for PoolCounters {
    fn name(&self) -> SourceName {
        SourceName { source: "kernel-counters", pool: self.kstats.name().to_owned() }
    }

    fn read(&mut self) -> Result<Readings> {
        let mut readings = Readings::default();
        let pool = self.kstats.name();
        if let Some(state) = self.kstats.state()? {
            readings.add_states(&POOL_STATE_NOW, &[ENGINE, pool], &POOL_STATES, state.as_str());
        }
        // The state matters most: a file of another kind that cannot be read must not hide that the pool is suspended.
        let txgs = self.kstats.txgs();
        let mut unusable: Vec<KstatError> = Vec::new();
        let resource = readings.add(&POOL, [ENGINE, pool]).flag(&POOL_OPEN, true);
        match txgs {
            Ok(txgs) => set_txgs(resource, &txgs.unwrap_or_default()),
            Err(error) => unusable.push(error),
        }
        let objsets =
            self.kstats.for_each_objset(DATASET_COUNTERS.map(|(name, _)| name), |dataset, values| {
                let resource = readings.add(&DATASET, [ENGINE, pool, dataset]);
                for ((_, family), value) in DATASET_COUNTERS.into_iter().zip(values) {
                    resource.count(family, value);
                }
            });
        unusable.extend(objsets.unwrap_or_else(|error| vec![error]));
        readings.problems = unusable.iter().map(KstatError::to_string).collect();
        Ok(readings)
    }
}

fn set_txgs(pool: &mut Resource, txgs: &[TxgRecord]) {
    let committed = || txgs.iter().filter(|txg| txg.is_committed);
    let Some(last) = committed().max_by_key(|txg| txg.txg) else { return };
    let longest = committed().map(|txg| txg.sync_ns).max();
    pool.count(&POOL_TXG, last.txg)
        .set(&TXG_SYNC, seconds(last.sync_ns))
        .set(&TXG_SYNC_LONGEST, longest.map(seconds))
        .set(&TXG_OPEN, seconds(last.open_ns))
        .count(&TXG_DIRTY, last.dirty_bytes);
}
