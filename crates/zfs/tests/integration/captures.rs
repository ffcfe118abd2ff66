//! All other commands, and the counters, in captures of pools in good and bad states.

use std::path::Path;

use crate::common::{capture, captures, text};
use poolwright_zfs::kernel::command::dataset::{DatasetSpace, parse_datasets};
use poolwright_zfs::kernel::command::event::{PoolEvent, parse_events};
use poolwright_zfs::kernel::command::histogram::{HistogramKind, VdevHistogram, parse_histograms};
use poolwright_zfs::kernel::command::property::{PropertySource, parse_properties};
use poolwright_zfs::kernel::command::snapshot::{SnapshotCounter, SnapshotTotals};
use poolwright_zfs::kernel::command::space::{PoolSpace, parse_space};
use poolwright_zfs::kernel::command::vdev_counters::parse_vdev_counters;
use poolwright_zfs::kernel::command::version::parse_version;
use poolwright_zfs::kernel::kstat::PoolKstats;
use poolwright_zfs::kernel::{HealthState, Kstats};

const VERSION: &str = "openzfs-2.3.2";

fn snapshots(capture: &Path) -> Vec<SnapshotTotals> {
    let mut counter = SnapshotCounter::default();
    counter.add(text(capture, "zfs-list-snapshots").as_bytes()).unwrap();
    counter.finish().unwrap()
}

fn events(capture: &Path) -> Vec<PoolEvent> {
    parse_events(&text(capture, "zpool-events")).unwrap()
}

#[test]
fn every_capture_can_be_parsed() {
    for capture in captures(VERSION) {
        let name = capture.display();
        let pools = parse_space(&text(&capture, "zpool-list")).unwrap();
        for pool in &pools {
            let vdevs = parse_vdev_counters(&text(&capture, &format!("zpool-get.{}", pool.name))).unwrap();
            assert!(vdevs.iter().all(|vdev| vdev.get("read_ops").is_some()), "{name}");
        }
        for kind in [HistogramKind::Latency, HistogramKind::RequestSize] {
            assert_eq!(
                histograms(&capture, kind).iter().filter(|h| h.vdev.is_none()).count(),
                pools.len(),
                "{name}"
            );
        }
        let datasets = parse_datasets(&text(&capture, "zfs-list")).unwrap();
        let properties = parse_properties(&text(&capture, "zfs-get")).unwrap();
        let names = |datasets: &[DatasetSpace]| datasets.iter().map(|d| d.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            names(&datasets),
            properties.iter().map(|d| d.dataset.clone()).collect::<Vec<_>>(),
            "{name}"
        );
        snapshots(&capture);
        events(&capture);
        kstats(&capture);
    }
}

fn histograms(capture: &Path, kind: HistogramKind) -> Vec<VdevHistogram> {
    let file = match kind {
        HistogramKind::Latency => "zpool-iostat-latency",
        HistogramKind::RequestSize => "zpool-iostat-request-size",
    };
    parse_histograms(&text(capture, file), kind).unwrap()
}

/// Reads all counters of a capture.
fn kstats(capture: &Path) {
    let kstats = Kstats::new(capture.join("kstat"));
    assert!(kstats.is_present());
    let arc = kstats.named("arcstats").unwrap().unwrap();
    assert!(arc.unsigned("size").unwrap() > 0);
    for name in ["dbufstats", "zil", "abdstats", "zfetchstats", "dmu_tx", "vdev_mirror_stats"] {
        assert!(!kstats.named(name).unwrap().unwrap().values.is_empty());
    }
    assert!(kstats.named("fm").unwrap().unwrap().unsigned("erpt-dropped").is_some());
    assert_eq!(kstats.named("vdev_cache_stats").unwrap(), None, "removed in 2.2");
    for pool in kstats.pools().unwrap() {
        assert!(pool.state().unwrap().is_some());
        let txgs = pool.txgs().unwrap().unwrap();
        assert!(txgs.windows(2).all(|pair| pair[0].txg < pair[1].txg));
        let unusable = pool.for_each_objset(["zil_commit_count"], |dataset, [commits]| {
            assert!(dataset.starts_with(pool.name()));
            assert!(commits.is_some(), "since 2.2");
        });
        assert!(unusable.unwrap().is_empty());
    }
}

#[test]
fn versions() {
    let version = parse_version(&text(&capture(VERSION).join("none"), "zfs-version")).unwrap();
    assert_eq!((version.userland.major, version.userland.minor), (2, 3));
    assert_eq!(version.kernel.unwrap().text, "2.3.2-2~bpo12+2");
}

fn only_pool(state: &str) -> PoolSpace {
    let mut pools = parse_space(&text(&capture(VERSION).join(state), "zpool-list")).unwrap();
    assert_eq!(pools.len(), 1);
    pools.remove(0)
}

#[test]
fn space() {
    let tank = only_pool("healthy");
    assert_eq!((tank.size, tank.allocated), (Some(754_974_720), Some(63_283_200)));
    assert_eq!((tank.dedup_ratio, tank.checkpoint, tank.is_readonly), (Some(1.0), None, false));
    let full = only_pool("full");
    assert_eq!(full.allocated.unwrap() * 100 / full.size.unwrap(), 96);
    assert_eq!(only_pool("suspended").health, HealthState::Suspended);
}

#[test]
fn counters_and_histograms_are_joined_by_guid() {
    let healthy = capture(VERSION).join("healthy");
    let vdevs = parse_vdev_counters(&text(&healthy, "zpool-get.tank")).unwrap();
    let mirror = vdevs.iter().find(|vdev| vdev.get("read_ops") == Some(1608)).unwrap();
    assert_eq!((mirror.get("write_bytes"), mirror.get("ashift")), (Some(125_026_304), Some(12)));
    let latencies = histograms(&healthy, HistogramKind::Latency);
    let of_mirror = latencies.iter().find(|histogram| histogram.vdev == mirror.guid).unwrap();
    assert_eq!((of_mirror.pool.as_str(), of_mirror.bounds.len(), of_mirror.columns.len()), ("tank", 37, 11));
    assert_eq!((of_mirror.bounds[0], of_mirror.bounds[36]), (1, 137_438_953_471));
    // The mirror has read and written about as often as its histograms say.
    let sum = |column: usize| of_mirror.columns[column].counts.iter().sum::<u64>();
    assert!(sum(0).abs_diff(1608) <= 100 && sum(1) > 3000, "{} {}", sum(0), sum(1));
    let sizes = histograms(&healthy, HistogramKind::RequestSize);
    assert_eq!((sizes[0].bounds[0], sizes[0].columns.len()), (512, 14));
    assert_eq!(sizes.len(), latencies.len());
}

#[test]
fn datasets_properties_and_snapshots() {
    let healthy = capture(VERSION).join("healthy");
    let datasets = parse_datasets(&text(&healthy, "zfs-list")).unwrap();
    let dataset = |name: &str| datasets.iter().find(|dataset| dataset.name == name).unwrap();
    let wal = dataset("tank/pg/wal");
    assert_eq!((wal.quota, wal.used), (Some(128 << 20), Some(16_891_904)));
    assert_eq!(dataset("tank/pg").used_by_snapshots, Some(2_392_064));
    assert_eq!(dataset("tank/volume").quota, None);
    assert_eq!(dataset("tank/with space").compress_ratio, Some(1.0));

    let properties = parse_properties(&text(&healthy, "zfs-get")).unwrap();
    let value = |name: &str, property: &str| {
        let dataset = properties.iter().find(|dataset| dataset.dataset == name).unwrap();
        let found = dataset.properties.get(property);
        found.map(|found| (found.value.clone(), found.source.clone()))
    };
    assert_eq!(value("tank/pg", "recordsize"), Some(("16384".to_owned(), PropertySource::Local)));
    let inherited = PropertySource::Inherited("tank/pg".to_owned());
    assert_eq!(value("tank/pg/wal", "compression"), Some(("zstd".to_owned(), inherited)));
    assert_eq!(value("tank/volume", "recordsize"), None);
    assert_eq!(value("tank/volume", "volblocksize").unwrap().0, "16384");
    assert_eq!(value("tank/with space", "special_small_blocks").unwrap().0, "32768");

    let totals = snapshots(&healthy);
    assert_eq!(totals.iter().map(|totals| totals.count).sum::<u64>(), 10);
    let pg = totals.iter().find(|totals| totals.dataset == "tank/pg").unwrap();
    assert_eq!((pg.count, pg.oldest, pg.newest), (6, 1_795_582_905, 1_795_582_907));
}

#[test]
fn events_name_pools() {
    let damaged = events(&capture(VERSION).join("data-errors"));
    let checksum = damaged.iter().find(|event| event.class == "ereport.fs.zfs.checksum").unwrap();
    assert_eq!((checksum.pool.as_deref(), checksum.eid), (Some("bad"), 0xee));
    assert!(damaged.is_sorted_by_key(|event| event.eid));
    let suspended = events(&capture(VERSION).join("suspended"));
    assert!(suspended.iter().any(|event| event.class == "ereport.fs.zfs.io_failure"));
    assert_eq!(events(&capture(VERSION).join("none")), []);
}

/// The bytes that were written to a dataset.
fn written(pool: &PoolKstats, wanted: &str) -> Option<u64> {
    let mut written = None;
    pool.for_each_objset(["nwritten"], |dataset, [bytes]| {
        if dataset == wanted {
            written = bytes;
        }
    })
    .unwrap();
    written
}

#[test]
fn counters_of_pools() {
    let kstats = Kstats::new(capture(VERSION).join("healthy/kstat"));
    let pools = kstats.pools().unwrap();
    assert_eq!((pools.len(), pools[0].name()), (1, "tank"));
    assert_eq!(pools[0].state().unwrap(), Some(HealthState::Online));
    let txgs = pools[0].txgs().unwrap().unwrap();
    assert_eq!((txgs[0].txg, txgs[0].is_committed), (33, true));
    assert!(!txgs.last().unwrap().is_committed);
    assert_eq!(written(&pools[0], "tank/pg/wal"), Some(16 << 20));
    assert!(written(&pools[0], "tank/with space").is_some());

    let suspended = Kstats::new(capture(VERSION).join("suspended/kstat")).pools().unwrap();
    assert_eq!(suspended[0].state().unwrap(), Some(HealthState::Suspended));
    assert_eq!(Kstats::new(capture(VERSION).join("none/kstat")).pools().unwrap(), []);
}
