//! Recording rules: figures that dashboards, fleets and alerts share, which Prometheus computes once.
//!
//! Names follow Prometheus's convention `level:metric:operations`. All other labels of the series (`instance`, labels of the
//! fleet) stay.

use crate::family::*;

use crate::alert::condition::{Expression, MINUTE, Recording, Seconds, all, is, is_not, only};

const SHORT: Seconds = 5 * MINUTE;
/// The class that stands for the whole pool in metrics of vdevs.
const ROOT: &[&str] = &["root"];
/// Types of vdevs whose I/O is that of the vdevs below them.
const GROUPS: &[&str] = &["root", "mirror", "raidz", "draid", "spare", "replacing"];
const DEMAND: &[&str] = &["demand_data", "demand_metadata"];

/// Defines the recording rules, and a list of all.
macro_rules! recordings {
    ($($id:ident = $name:literal $help:literal $value:expr;)+) => {
        $(#[doc = $help] pub static $id: Recording = Recording { name: $name, help: $help, value: $value };)+
        /// All recording rules.
        pub static RECORDINGS: &[&Recording] = &[$(&$id),+];
    };
}

recordings! {
    CAPACITY = "pool:poolwright_capacity:ratio" "Allocated part of each pool."
        Expression::Quotient(&Expression::Now(all(&POOL_ALLOCATED)), &Expression::Now(all(&POOL_SIZE)));
    POOL_READ_RATE = "pool:poolwright_read_bytes:rate5m" "Bytes that the devices of each pool read per second."
        Expression::Sum(
            &Expression::Unless(&Expression::Rate(all(&VDEV_READ_BYTES), SHORT), &Expression::Now(only(&VDEV_INFO, &[is("type", GROUPS)]))),
            &["vdev", "class"],
        );
    POOL_WRITE_RATE = "pool:poolwright_written_bytes:rate5m" "Bytes that the devices of each pool write per second."
        Expression::Sum(
            &Expression::Unless(&Expression::Rate(all(&VDEV_WRITE_BYTES), SHORT), &Expression::Now(only(&VDEV_INFO, &[is("type", GROUPS)]))),
            &["vdev", "class"],
        );
    DATASET_READ_RATE = "dataset:poolwright_read_bytes:rate5m" "Bytes that programs read per second from each dataset."
        Expression::Rate(all(&DATASET_READ_BYTES), SHORT);
    DATASET_WRITE_RATE = "dataset:poolwright_written_bytes:rate5m" "Bytes that programs write per second to each dataset."
        Expression::Rate(all(&DATASET_WRITE_BYTES), SHORT);
    DATASET_COMMIT_RATE = "dataset:poolwright_zil_commits:rate5m" "Commits of the intent log per second of each dataset."
        Expression::Rate(all(&ZIL_COMMITS), SHORT);
    DEMAND_ACCESS_RATE = "arc:poolwright_demand_accesses:rate5m" "Demand accesses per second of each ARC."
        Expression::Sum(&Expression::Rate(only(&ARC_ACCESSES, &[is("type", DEMAND)]), SHORT), &["type", "result"]);
    DEMAND_MISS_RATE = "arc:poolwright_demand_misses:rate5m" "Demand misses per second of each ARC."
        Expression::Sum(
            &Expression::Rate(only(&ARC_ACCESSES, &[is("type", DEMAND), is("result", &["miss"])]), SHORT),
            &["type", "result"],
        );
    DEMAND_HITS = "arc:poolwright_demand_hits:ratio_rate5m" "Part of the demand accesses of each ARC that find their block in memory."
        Expression::Quotient(
            &Expression::Sum(
                &Expression::Rate(only(&ARC_ACCESSES, &[is("type", DEMAND), is("result", &["hit"])]), SHORT),
                &["type", "result"],
            ),
            &Expression::Recorded(&DEMAND_ACCESS_RATE),
        );
    DEVICE_P50 = "vdev:poolwright_device_latency_seconds:p50_15m" "Median time of the requests at each device, reads and writes apart."
        Expression::Quantile(
            0.5,
            only(&VDEV_LATENCY, &[is_not("class", ROOT), is("queue", &["disk_read", "disk_write"])]),
            15 * MINUTE,
        );
    VDEV_P99 = "vdev:poolwright_latency_seconds:p99_15m" "99th percentile of the times of the requests of each vdev."
        Expression::Quantile(0.99, only(&VDEV_LATENCY, &[is_not("class", ROOT)]), 15 * MINUTE);
    POOLS = "state:poolwright_pools:sum" "Number of pools in each state, for fleets; `by (state)` of all hosts."
        Expression::Sum(&Expression::Now(all(&POOL_STATE_NOW)), &["engine", "pool"]);
}
