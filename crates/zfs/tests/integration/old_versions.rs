//! Formats of OpenZFS 2.1 and 2.2 (`captures/README.md` names their sources).

use crate::common::{capture, text};
use poolwright_zfs::kernel::command::histogram::{HistogramKind, parse_histograms};
use poolwright_zfs::kernel::command::space::parse_space;
use poolwright_zfs::kernel::command::status::{
    KernelPool, ScanFunction, ScanPhase, VdevClass, VdevNode, assign_guids, parse_status_text,
};
use poolwright_zfs::kernel::command::vdev_counters::parse_vdev_counters;
use poolwright_zfs::kernel::command::version::parse_version;
use poolwright_zfs::kernel::{HealthState, Kstats};

fn pools(name: &str) -> Vec<KernelPool> {
    parse_status_text(&text(&capture(name), "zpool-status.txt")).unwrap()
}

fn find<'a>(pool: &'a KernelPool, name: &str) -> &'a VdevNode {
    pool.walk().map(|(_, vdev)| vdev).find(|vdev| vdev.name == name).unwrap()
}

#[test]
fn a_degraded_pool_of_2_1() {
    let mut pools = pools("openzfs-2.1/degraded");
    let with_guids = text(&capture("openzfs-2.1/degraded"), "zpool-status-guids.txt");
    assign_guids(&mut pools, &parse_status_text(&with_guids).unwrap());
    let pool = &pools[0];
    assert_eq!(
        (pool.name.as_str(), &pool.state, pool.data_errors),
        ("tank", &HealthState::Degraded, Some(0))
    );

    let faulted = find(pool, "sdb");
    assert_eq!(faulted.state, HealthState::Faulted);
    assert_eq!((faulted.read_errors, faulted.write_errors), (Some(3), Some(214)));
    assert_eq!(find(pool, "sda").slow_ios, Some(3));
    let replacement = find(pool, "sdf");
    assert_eq!((replacement.checksum_errors, replacement.kind.as_str()), (Some(123_456), "disk"));
    let rows: Vec<_> = pool.walk().map(|(depth, vdev)| (depth, vdev.kind.as_str(), vdev.class)).collect();
    assert_eq!(
        &rows[..4],
        [
            (0, "root", VdevClass::Data),
            (1, "raidz", VdevClass::Data),
            (2, "disk", VdevClass::Data),
            (2, "replacing", VdevClass::Data)
        ]
    );
    let spares: Vec<_> = pool.vdevs.iter().filter(|vdev| vdev.class == VdevClass::Spare).collect();
    assert_eq!(spares[0].state, HealthState::InUse);
    assert_eq!((&spares[1].state, spares[1].read_errors), (&HealthState::Available, None));
    assert_eq!(find(pool, "raidz1-0").guid, Some(11_001 * 1_000_003));

    let scan = pool.scan.as_ref().unwrap();
    assert_eq!((scan.function, scan.phase), (ScanFunction::Resilver, ScanPhase::Scanning));
    assert_eq!((scan.issued, scan.repaired), (Some(788 << 30), Some(196 << 30)));
    assert_eq!(scan.start_time, Some(1_707_128_430));
}

#[test]
fn several_pools_of_2_1() {
    let pools = pools("openzfs-2.1/damaged");
    assert_eq!(pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), ["old", "tank"]);
    assert_eq!((&pools[0].scan, pools[1].data_errors), (&None, Some(9)));
    let scan = pools[1].scan.as_ref().unwrap();
    let duration = scan.end_time.unwrap() - scan.start_time.unwrap();
    assert_eq!((scan.errors, duration), (Some(9), 2 * 86_400 + 13 * 3600 + 5 * 60 + 17));
    assert_eq!(find(&pools[1], "wwn-0x5000c500a1b2c3d5").slow_ios, Some(12));
}

#[test]
fn a_paused_scrub_of_2_1() {
    let pools = pools("openzfs-2.1/paused");
    let scan = pools[0].scan.as_ref().unwrap();
    assert_eq!((scan.phase, scan.start_time), (ScanPhase::Paused, Some(1_710_072_000)));
    assert_eq!(scan.issued, Some(120 << 30));
}

#[test]
fn a_scrub_of_2_2() {
    let pools = pools("openzfs-2.2/scrub");
    let scan = pools[0].scan.as_ref().unwrap();
    assert_eq!(scan.issued, Some(120 << 30));
    assert_eq!(scan.total, Some((1.10 * 2_f64.powi(40)).round() as u64));
    assert_eq!(find(&pools[0], "draid1:4d:7c:1s-0").kind, "draid");
    assert_eq!(pools[1].scan.as_ref().unwrap().function, ScanFunction::ErrorScrub);

    let vdevs = parse_vdev_counters(&text(&capture("openzfs-2.2/scrub"), "zpool-get.tank")).unwrap();
    assert_eq!(vdevs.len(), 3);
    assert_eq!(
        (vdevs[1].guid, vdevs[1].get("read_ops"), vdevs[2].get("size")),
        (Some(1_540_002), Some(101), None)
    );
    let version = parse_version(&text(&capture("openzfs-2.2/scrub"), "zfs-version")).unwrap();
    assert!(version.userland.is_at_least(2, 2) && !version.userland.is_at_least(2, 3));
}

#[test]
fn other_output_and_counters_of_2_1() {
    let capture = capture("openzfs-2.1/degraded");
    let pool = &parse_space(&text(&capture, "zpool-list")).unwrap()[0];
    assert_eq!(pool.allocated.unwrap() * 100 / pool.size.unwrap(), 33);
    for (kind, file, columns, buckets) in [
        (HistogramKind::Latency, "zpool-iostat-latency", 10, 37),
        (HistogramKind::RequestSize, "zpool-iostat-request-size", 12, 16),
    ] {
        let histograms = parse_histograms(&text(&capture, file), kind).unwrap();
        assert_eq!((histograms.len(), histograms[1].vdev), (3, Some(11_001 * 1_000_003)));
        assert!(histograms.iter().all(|h| (h.columns.len(), h.bounds.len()) == (columns, buckets)));
    }
    let kstats = Kstats::new(capture.join("kstat"));
    assert_eq!(kstats.named("vdev_cache_stats").unwrap().unwrap().unsigned("misses"), Some(34));
    let pool = &kstats.pools().unwrap()[0];
    assert_eq!(pool.txgs().unwrap(), Some(Vec::new()));
    let mut read = Vec::new();
    pool.for_each_objset(["nread"], |dataset, [bytes]| read.push((dataset.to_owned(), bytes))).unwrap();
    assert_eq!(read[0], ("tank/pg data".to_owned(), Some(3007)));
}
