//! The vdevs of a pool.

use std::collections::{BTreeMap, BTreeSet};

use poolwright_zfs::kernel::command::histogram::{HistogramColumn, VdevHistogram};
use poolwright_zfs::kernel::command::status::{KernelPool, VdevClass, VdevNode};
use poolwright_zfs::kernel::command::vdev_counters::VdevCounters;

use super::ENGINE;
use crate::family::*;
use crate::source::user_pool::VDEV_STATES;
use crate::{MetricFamily, Readings};

/// Bounds of the buckets of [`VDEV_LATENCY`] in seconds: powers of 4 from 1 µs (2^10 ns) to 17 s (2^34 ns). `zpool iostat` has
/// powers of 2 from 1 ns to 137 s, which would be three times as many.
pub const LATENCY_BOUNDS: [f64; 13] = [
    1.024e-6,
    4.096e-6,
    1.6384e-5,
    6.5536e-5,
    0.000262144,
    0.001048576,
    0.004194304,
    0.016777216,
    0.067108864,
    0.268435456,
    1.073741824,
    4.294967296,
    17.179869184,
];

/// Bounds of the buckets of [`VDEV_REQUEST_SIZE`] in bytes: one less than powers of 2 from 1K to 32M, because a bucket of `zpool
/// iostat` begins with a power of 2.
pub const SIZE_BOUNDS: [f64; 16] = [
    1023.0, 2047.0, 4095.0, 8191.0, 16383.0, 32767.0, 65535.0, 131071.0, 262143.0, 524287.0, 1048575.0,
    2097151.0, 4194303.0, 8388607.0, 16777215.0, 33554431.0,
];

/// Properties of vdevs that count I/O.
const IO_COUNTERS: [(&str, &MetricFamily); 6] = [
    ("read_bytes", &VDEV_READ_BYTES),
    ("write_bytes", &VDEV_WRITE_BYTES),
    ("read_ops", &VDEV_READS),
    ("write_ops", &VDEV_WRITES),
    ("trim_bytes", &VDEV_TRIM_BYTES),
    ("trim_ops", &VDEV_TRIMS),
];

/// Label values of the vdevs whose histograms are reported (the root and the leaves) by GUID.
pub type VdevNames = BTreeMap<u64, (String, &'static str)>;

/// Adds states, errors, sizes and I/O of the vdevs.
pub fn add(readings: &mut Readings, pool: &KernelPool, counters: &[VdevCounters]) -> VdevNames {
    let counters: BTreeMap<u64, &VdevCounters> =
        counters.iter().filter_map(|vdev| Some((vdev.guid?, vdev))).collect();
    let mut names = VdevNames::new();
    let mut used = BTreeSet::new();
    let mut parents: Vec<String> = Vec::new();
    for (depth, vdev) in pool.walk() {
        parents.truncate(depth);
        let class = class_name(vdev);
        let mut name = vdev.name.clone();
        // A device that replaces itself is there twice.
        if let (false, Some(guid)) = (used.insert((name.clone(), class)), vdev.guid) {
            name = format!("{name} ({guid})");
        }
        if let Some(guid) = vdev.guid.filter(|_| vdev.children.is_empty() || class == "root") {
            names.insert(guid, (name.clone(), class));
        }
        let labels = [ENGINE, &pool.name, &name, class];
        readings.add_states(&VDEV_STATE_NOW, &labels, &VDEV_STATES, vdev.state.as_str());
        let top = if class == "root" { "" } else { &pool.name };
        let parent = parents.last().map_or(top, String::as_str);
        readings
            .add(&VDEV_PLACE, [ENGINE, &pool.name, &name, class, &vdev.kind, parent])
            .flag(&VDEV_INFO, true);
        let resource = readings.add(&VDEV, labels);
        resource
            .count(&VDEV_READ_ERRORS, vdev.read_errors)
            .count(&VDEV_WRITE_ERRORS, vdev.write_errors)
            .count(&VDEV_CHECKSUM_ERRORS, vdev.checksum_errors)
            .count(&VDEV_SLOW_IOS, vdev.slow_ios);
        if let Some(io) = vdev.guid.and_then(|guid| counters.get(&guid)).filter(|_| class != "root") {
            let sector = io.get("ashift").filter(|ashift| (1..64).contains(ashift)).map(|ashift| 1 << ashift);
            let size = io.get("size").filter(|size| *size > 0);
            resource
                .count(&VDEV_SIZE, size)
                .count(&VDEV_ALLOCATED, io.get("allocated").filter(|_| size.is_some()))
                .count(&VDEV_SECTOR, sector);
            for (property, family) in IO_COUNTERS {
                resource.count(family, io.get(property));
            }
        }
        parents.push(name);
    }
    names
}

fn class_name(vdev: &VdevNode) -> &'static str {
    match (vdev.class, vdev.kind.as_str()) {
        (_, "root") => "root",
        (VdevClass::Data, _) => "normal",
        (class, _) => class.as_str(),
    }
}

/// Adds the latencies of the vdevs in `names`. A queue without a request is omitted.
pub fn add_latencies(readings: &mut Readings, pool: &str, names: &VdevNames, from: &[VdevHistogram]) {
    for (histogram, vdev, class) in of_pool(pool, names, from) {
        for column in &histogram.columns {
            // `bound` is the longest time in the bucket, in nanoseconds.
            let counts = merged(histogram, &[column], &LATENCY_BOUNDS, |bound| bound as f64 / 1e9);
            if counts.iter().all(|count| *count == 0) {
                continue;
            }
            let labels = [ENGINE, pool, vdev, class, column.name];
            readings.add(&VDEV_QUEUE, labels).histogram(&VDEV_LATENCY, &LATENCY_BOUNDS, counts);
        }
    }
}

/// Adds the sizes of the requests to the vdevs in `names`. An operation without a request is omitted.
pub fn add_request_sizes(readings: &mut Readings, pool: &str, names: &VdevNames, from: &[VdevHistogram]) {
    for (histogram, vdev, class) in of_pool(pool, names, from) {
        let mut ops: BTreeMap<&str, Vec<&HistogramColumn>> = BTreeMap::new();
        for column in &histogram.columns {
            let op = column.name.trim_end_matches("_ind").trim_end_matches("_agg");
            ops.entry(op).or_default().push(column);
        }
        for (op, columns) in ops {
            // `bound` is the smallest size in the bucket.
            let counts = merged(histogram, &columns, &SIZE_BOUNDS, |bound| bound as f64 * 2.0 - 1.0);
            if counts.iter().all(|count| *count == 0) {
                continue;
            }
            let labels = [ENGINE, pool, vdev, class, op];
            readings.add(&VDEV_OP, labels).histogram(&VDEV_REQUEST_SIZE, &SIZE_BOUNDS, counts);
        }
    }
}

/// The histograms of the pool's vdevs in `names`, each with the name and the class of the vdev.
fn of_pool<'a>(
    pool: &'a str,
    names: &'a VdevNames,
    from: &'a [VdevHistogram],
) -> impl Iterator<Item = (&'a VdevHistogram, &'a str, &'static str)> {
    from.iter().filter(move |histogram| histogram.pool == pool).filter_map(|histogram| match histogram.vdev {
        None => Some((histogram, histogram.pool.as_str(), "root")),
        Some(guid) => {
            let (name, class) = names.get(&guid).filter(|(_, class)| *class != "root")?;
            Some((histogram, name.as_str(), *class))
        }
    })
}

/// The sum of columns in buckets with these bounds. `largest` is the largest value in a bucket of the columns.
fn merged(
    histogram: &VdevHistogram,
    columns: &[&HistogramColumn],
    bounds: &[f64],
    largest: impl Fn(u64) -> f64,
) -> Box<[u64]> {
    let mut merged = vec![0; bounds.len() + 1].into_boxed_slice();
    for (at, bound) in histogram.bounds.iter().enumerate() {
        let bucket = bounds.partition_point(|upper| *upper < largest(*bound));
        merged[bucket] += columns.iter().filter_map(|column| column.counts.get(at)).sum::<u64>();
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(bounds: Vec<u64>, counts: Vec<u64>) -> VdevHistogram {
        let columns = vec![HistogramColumn { name: "trim", counts }];
        VdevHistogram { pool: "tank".to_owned(), vdev: None, bounds, columns }
    }

    #[test]
    fn bounds_are_the_powers_that_they_claim_to_be() {
        for (at, bound) in LATENCY_BOUNDS.into_iter().enumerate() {
            assert_eq!(bound, (1_u64 << (10 + 2 * at)) as f64 / 1e9);
        }
        for (at, bound) in SIZE_BOUNDS.into_iter().enumerate() {
            assert_eq!(bound, (1_u64 << (10 + at)) as f64 - 1.0);
        }
    }

    #[test]
    fn buckets_are_merged_without_loss() {
        // The buckets of `zpool iostat -w`: 1 ns to 2^37 - 1 ns.
        let bounds: Vec<u64> = (1..=37).map(|exponent| (1 << exponent) - 1).collect();
        let latencies = histogram(bounds, vec![1; 37]);
        let column = &latencies.columns[0];
        let counts = merged(&latencies, &[column], &LATENCY_BOUNDS, |bound| bound as f64 / 1e9);
        assert_eq!(*counts, [10, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3]);
        // The buckets of `zpool iostat -r`: from 512 bytes to 16M.
        let sizes = histogram((9..=24).map(|exponent| 1 << exponent).collect(), vec![1; 16]);
        let columns = [&sizes.columns[0], &sizes.columns[0]];
        let counts = merged(&sizes, &columns, &SIZE_BOUNDS, |bound| bound as f64 * 2.0 - 1.0);
        assert_eq!(*counts, [[2; 16].as_slice(), &[0]].concat());
    }
}
