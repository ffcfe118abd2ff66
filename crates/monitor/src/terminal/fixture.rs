//! Hand-made readings for the tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use poolwright_plan::MetricName;

use crate::family::*;
use crate::source::SourceName;
use crate::{Readings, SourceReadings};

use crate::terminal::sample::{MonitorSample, MonitorSampler};

/// The time between two samples.
pub const EVERY: Duration = Duration::from_secs(2);
/// The time of the last sample, in seconds since 1970.
pub const UNIX_S: f64 = 1_000_000.0;

/// A source whose last read has just succeeded.
pub fn source(source: &'static str, pool: &str, readings: Readings) -> SourceReadings {
    SourceReadings {
        name: SourceName { source, pool: pool.to_owned() },
        readings: Some(Arc::new(readings)),
        age: Some(Duration::ZERO),
        duration: Some(Duration::from_millis(3)),
        error: None,
        overdue: None,
        reads: 2,
        failures: 0,
    }
}

/// Makes samples [`EVERY`] apart; returns the last one.
pub fn samples(rounds: &[Vec<SourceReadings>]) -> MonitorSample {
    let mut sampler = MonitorSampler::default();
    let start = Instant::now();
    let mut last = None;
    for (round, sources) in (0..).zip(rounds) {
        last = Some(sampler.sample(sources, start + EVERY * round, UNIX_S));
    }
    last.expect("there is a round")
}

const MIB: u64 = 1 << 20;

/// A kernel's pool whose counters have the values of this round: status, counters and ARC.
pub fn kernel_pool(round: u64) -> Vec<SourceReadings> {
    let mut status = Readings::default();
    status
        .add(&POOL, ["kernel", "tank"])
        .count(&POOL_SIZE, 720 * MIB)
        .count(&POOL_ALLOCATED, 90 * MIB)
        .set(&POOL_FRAGMENTATION, 0.01)
        .count(&POOL_DATA_ERRORS, 0)
        .flag(&SCRUB_RUNNING, true)
        .count(&SCAN_TO_EXAMINE, 90 * MIB)
        .count(&SCAN_EXAMINED, 45 * MIB);
    for (name, kind, parent, state, errors) in [
        ("tank", "root", "", "DEGRADED", 0),
        ("mirror-0", "mirror", "tank", "DEGRADED", 0),
        ("/disk/a", "file", "mirror-0", "ONLINE", 0),
        ("/disk/b", "file", "mirror-0", "FAULTED", 12),
    ] {
        let class = if kind == "root" { "root" } else { "normal" };
        let labels = ["kernel", "tank", name, class];
        status.add_states(&VDEV_STATE_NOW, &labels, &["ONLINE", "DEGRADED", "FAULTED"], state);
        status.add(&VDEV_PLACE, ["kernel", "tank", name, class, kind, parent]).flag(&VDEV_INFO, true);
        let vdev = status.add(&VDEV, labels);
        vdev.count(&VDEV_READ_ERRORS, errors).count(&VDEV_WRITE_ERRORS, 0).count(&VDEV_CHECKSUM_ERRORS, 0);
        if kind != "root" {
            vdev.count(&VDEV_READS, 100 + 40 * round)
                .count(&VDEV_WRITES, 7)
                .count(&VDEV_READ_BYTES, round * 4 * MIB)
                .count(&VDEV_WRITE_BYTES, 0);
        }
    }
    let mut counters = Readings::default();
    let states = ["ONLINE", "DEGRADED", "SUSPENDED"];
    counters.add_states(&POOL_STATE_NOW, &["kernel", "tank"], &states, "DEGRADED");
    counters.add(&POOL, ["kernel", "tank"]).flag(&POOL_OPEN, true);
    counters
        .add(&DATASET, ["kernel", "tank", "tank/db"])
        .count(&DATASET_READ_BYTES, 3 * round * MIB)
        .count(&DATASET_WRITE_BYTES, 0);
    let mut datasets = Readings::default();
    for (name, used) in [("tank", 90 * MIB), ("tank/db", 80 * MIB), ("tank/home", 5 * MIB)] {
        datasets
            .add(&DATASET, ["kernel", "tank", name])
            .count(&DATASET_USED, used)
            .count(&DATASET_AVAILABLE, 500 * MIB)
            .count(&DATASET_REFERENCED, used / 2)
            .set(&DATASET_COMPRESSION, 1.5);
    }
    vec![
        source("kernel-counters", "tank", counters),
        source("kernel-datasets", "tank", datasets),
        source("kernel-module", "", arc(round)),
        source("kernel-status", "tank", status),
    ]
}

/// The kernel's ARC in this round.
fn arc(round: u64) -> Readings {
    let mut module = Readings::default();
    module
        .add(&ARC, ["kernel", ""])
        .count(&ARC_SIZE, (96 + round) * MIB)
        .count(&ARC_TARGET, 128 * MIB)
        .count(&ARC_MAX, 256 * MIB)
        .count(&ARC_MRU_GHOST_HITS, 10 * round)
        .count(&ARC_MFU_GHOST_HITS, 0);
    for (kind, result, count) in
        [("demand_data", "hit", 90), ("demand_data", "miss", 10), ("demand_metadata", "hit", 100)]
    {
        module.add(&ARC_ACCESS, ["kernel", "", kind, result]).count(&ARC_ACCESSES, 1000 + count * round);
    }
    for (state, size) in [("mru", 64 * MIB), ("mfu", 32 * MIB), ("mru_ghost", 8 * MIB)] {
        module.add(&ARC_STATE, ["kernel", "", state]).count(&ARC_STATE_SIZE, size);
    }
    module
}

/// A pool of the user-space engine whose counters have the values of this round.
pub fn user_pool(round: u64) -> SourceReadings {
    let mut readings = Readings::default();
    readings.add_states(&POOL_STATE_NOW, &["user", "db"], &["ONLINE", "DEGRADED"], "ONLINE");
    readings
        .add(&POOL, ["user", "db"])
        .flag(&POOL_OPEN, true)
        .count(&POOL_SIZE, 1 << 30)
        .count(&POOL_ALLOCATED, 1 << 29)
        .count(&POOL_DATA_ERRORS, 0);
    readings
        .add(&VDEV, ["user", "db", "/srv/db.img", "normal"])
        .count(&VDEV_READ_ERRORS, 0)
        .count(&VDEV_READS, 10 * round)
        .set(&VDEV_READ_TIME, 0.001 * round as f64);
    readings.add(&DATASET, ["user", "db", "db"]).count(&DATASET_USED, 1 << 29).count(&DATASET_SNAPSHOTS, 3);
    for dir in ["/a", "/b"] {
        readings.add(&MOUNT, ["db", "db", dir]).count(&MOUNT_READ_BYTES, round << 20);
        readings.add(&MOUNT_OP, ["db", "db", dir, "read"]).count(&MOUNT_REQUESTS, round * 100);
        readings.add(&MOUNT_OP, ["db", "db", dir, "getattr"]).count(&MOUNT_REQUESTS, round * 7);
    }
    source("user-pool", "db", readings)
}

/// A plan with a property that is kept and one that is not, and a promise that is not kept.
pub fn plan() -> SourceReadings {
    let mut readings = Readings::default();
    readings.add(&PLAN, ["plan.json"]).set(&PLAN_CREATED, UNIX_S - 10_000.0);
    let role = ["plan.json", "data", "/db", "tank/db"];
    for (property, planned, present) in [("recordsize", "16K", "128K"), ("compression", "lz4", "lz4")] {
        let labels = [role[0], role[1], role[2], role[3], property, planned, present];
        readings.add(&PLAN_PROPERTY, labels).flag(&PLAN_PROPERTY_KEPT, planned == present);
    }
    readings.add(&PLAN_ROLE, role).count(&PLAN_FILES, 40).count(&PLAN_FILES_OTHER_SIZE, 4);
    let promise = ["plan.json", "data", "/db", "tank/db", MetricName::WriteAmplification.name()];
    readings
        .add(&PLAN_PROMISE, promise)
        .set(&PROMISE_VALUE, 2.0)
        .set(&PROMISE_LOW, 1.8)
        .set(&PROMISE_HIGH, 2.2)
        .set(&PROMISE_PRESENT, 3.5);
    source("plan", "", readings)
}

/// A sample of all of them, with rates.
pub fn full() -> MonitorSample {
    let round = |round| {
        let mut all = kernel_pool(round);
        all.extend([plan(), user_pool(round)]);
        all
    };
    samples(&[round(0), round(1)])
}
