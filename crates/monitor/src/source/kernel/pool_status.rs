//! The status of one pool: space, scan, vdevs.

use poolwright_zfs::kernel::ZfsCommands;
use poolwright_zfs::kernel::command::histogram::HistogramKind;
use poolwright_zfs::kernel::command::space::PoolSpace;
use poolwright_zfs::kernel::command::status::{KernelPool, PoolScan, ScanFunction, ScanPhase};

use super::{ENGINE, vdevs};
use crate::family::*;
use crate::{Error, Readings, Resource, Result};

/// The status of a pool, as `zpool` reports it.
pub fn read(pool: &str, commands: &ZfsCommands) -> Result<Readings> {
    let missing = || Error::NoSuchPool { pool: pool.to_owned() };
    let status = commands.status()?.into_iter().find(|status| status.name == pool).ok_or_else(missing)?;
    let spaces = commands.list()?;
    let mut readings = Readings::default();
    let resource = readings.add(&POOL, [ENGINE, pool]);
    if let Some(space) = spaces.iter().find(|space| space.name == pool) {
        set_space(resource, space);
    }
    resource.count(&POOL_DATA_ERRORS, status.data_errors);
    set_scan(resource, &status);
    let counters = commands.vdev_counters(pool)?.unwrap_or_default();
    let names = vdevs::add(&mut readings, &status, &counters);
    let latencies = commands.histograms(HistogramKind::Latency)?;
    vdevs::add_latencies(&mut readings, pool, &names, &latencies);
    let sizes = commands.histograms(HistogramKind::RequestSize)?;
    vdevs::add_request_sizes(&mut readings, pool, &names, &sizes);
    Ok(readings)
}

fn set_space(pool: &mut Resource, space: &PoolSpace) {
    pool.count(&POOL_SIZE, space.size)
        .count(&POOL_ALLOCATED, space.allocated)
        .count(&POOL_FREE, space.free)
        .count(&POOL_FREEING, space.freeing)
        .count(&POOL_LEAKED, space.leaked)
        .set(&POOL_FRAGMENTATION, space.fragmentation.map(|percent| percent as f64 / 100.0))
        .set(&POOL_DEDUP, space.dedup_ratio)
        .count(&POOL_CHECKPOINT, space.checkpoint)
        .count(&POOL_EXPANDABLE, space.expand_size)
        .flag(&POOL_READONLY, space.is_readonly);
}

fn is_running(scan: &PoolScan) -> bool {
    matches!(scan.phase, ScanPhase::Scanning | ScanPhase::Paused)
}

fn set_scan(pool: &mut Resource, status: &KernelPool) {
    let scans = || status.rebuild.iter().chain(&status.scan);
    let running = |is_wanted: fn(ScanFunction) -> bool| {
        scans().any(|scan| is_running(scan) && is_wanted(scan.function))
    };
    let is_scrub = |function| matches!(function, ScanFunction::Scrub | ScanFunction::ErrorScrub);
    pool.flag(&SCRUB_RUNNING, running(is_scrub)).flag(
        &RESILVER_RUNNING,
        running(|function| matches!(function, ScanFunction::Resilver | ScanFunction::Rebuild)),
    );
    if let Some(scrub) = status.scan.as_ref().filter(|scan| scan.function == ScanFunction::Scrub) {
        pool.flag(&SCRUB_CANCELED, scrub.phase == ScanPhase::Canceled);
        pool.count(&SCRUB_END, scrub.end_time.filter(|_| scrub.phase == ScanPhase::Finished));
    }
    // A running scan, or else the last one.
    let Some(scan) = scans().find(|scan| is_running(scan)).or_else(|| scans().last()) else { return };
    pool.flag(&SCAN_PAUSED, scan.phase == ScanPhase::Paused)
        .count(&SCAN_TO_EXAMINE, scan.total)
        .count(&SCAN_EXAMINED, scan.issued)
        .count(&SCAN_REPAIRED, scan.repaired)
        .count(&SCAN_ERRORS, scan.errors)
        .count(&SCAN_START, scan.start_time);
}
