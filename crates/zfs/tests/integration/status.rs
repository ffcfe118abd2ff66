//! `zpool status` in captures of pools in good and bad states.

use crate::common::{capture, captures, text};
use poolwright_zfs::kernel::HealthState;
use poolwright_zfs::kernel::command::status::{
    KernelPool, PoolScan, ScanFunction, ScanPhase, VdevClass, VdevNode, assign_guids, parse_status_json,
    parse_status_text,
};

const VERSION: &str = "openzfs-2.3.2";

/// The only pool of a capture.
fn pool(state: &str) -> KernelPool {
    let mut pools = parse_status_json(&text(&capture(VERSION).join(state), "zpool-status.json")).unwrap();
    assert_eq!(pools.len(), 1);
    pools.remove(0)
}

fn find<'a>(pool: &'a KernelPool, name: &str) -> &'a VdevNode {
    pool.walk().map(|(_, vdev)| vdev).find(|vdev| vdev.name == name).unwrap()
}

#[test]
fn a_healthy_pool_with_vdevs_of_all_classes() {
    let pool = pool("healthy");
    assert_eq!((pool.name.as_str(), &pool.state), ("tank", &HealthState::Online));
    assert_eq!((&pool.scan, pool.data_errors), (&None, Some(0)));
    assert_eq!(find(&pool, "tank").guid, Some(14_416_960_064_429_772_497));
    let rows: Vec<_> = pool
        .walk()
        .map(|(depth, vdev)| (depth, vdev.name.as_str(), vdev.kind.as_str(), vdev.class))
        .collect();
    let expected = [
        (0, "tank", "root", VdevClass::Data),
        (1, "mirror-0", "mirror", VdevClass::Data),
        (2, "/disk/side0", "file", VdevClass::Data),
        (2, "/disk/side1", "file", VdevClass::Data),
        (0, "/disk/dedup0", "file", VdevClass::Dedup),
        (0, "mirror-1", "mirror", VdevClass::Special),
        (1, "/disk/special0", "file", VdevClass::Special),
        (1, "/disk/special1", "file", VdevClass::Special),
        (0, "/disk/log0", "file", VdevClass::Log),
        (0, "/disk/cache0", "file", VdevClass::Cache),
        (0, "/disk/spare0", "file", VdevClass::Spare),
    ];
    assert_eq!(rows, expected);
    let spare = find(&pool, "/disk/spare0");
    assert_eq!((&spare.state, spare.read_errors), (&HealthState::Available, None));
    let leaf = find(&pool, "/disk/side0");
    assert_eq!((leaf.read_errors, leaf.slow_ios), (Some(0), Some(0)));
    assert_eq!(find(&pool, "mirror-0").slow_ios, None);
}

#[test]
fn devices_that_are_offline_faulted_missing_or_without_a_label() {
    let offline = pool("degraded");
    assert_eq!(offline.state, HealthState::Degraded);
    assert_eq!(find(&offline, "/disk/side1").state, HealthState::Offline);

    let faulted = pool("faulted");
    assert_eq!(find(&faulted, "/disk/side1").state, HealthState::Faulted);

    let missing = pool("unavailable");
    let side = find(&missing, "17949727606263640446");
    assert_eq!((&side.state, side.kind.as_str()), (&HealthState::Unavailable, "file"));
    assert_eq!(side.guid, Some(17_949_727_606_263_640_446));

    let unlabeled = pool("label-lost");
    assert_eq!(find(&unlabeled, "/disk/short1").state, HealthState::Unavailable);
}

#[test]
fn errors_of_data_and_devices() {
    let damaged = pool("data-errors");
    assert_eq!(damaged.data_errors, Some(17));
    assert_eq!(damaged.scan.as_ref().unwrap().errors, Some(17));
    assert_eq!(find(&damaged, "/disk/bad0").checksum_errors, Some(51));

    let failing = pool("read-errors");
    assert_eq!(failing.data_errors, Some(0));
    let side = find(&failing, "/disk/fails1");
    assert_eq!((side.read_errors, side.slow_ios), (Some(130), Some(177)));
    assert_eq!(failing.scan.as_ref().unwrap().repaired, Some(14_581_760));

    let suspended = pool("suspended");
    assert_eq!(suspended.state, HealthState::Suspended);
    assert_eq!(find(&suspended, "/mnt/small/lost0").write_errors, Some(26));
    assert_eq!(suspended.data_errors, Some(16));
}

#[test]
fn scans_in_every_phase() {
    let scan = |state: &str| pool(state).scan.unwrap();
    let numbers = |scan: &PoolScan| (scan.issued, scan.total, scan.repaired);

    let running = scan("scrubbing");
    assert_eq!((running.function, running.phase), (ScanFunction::Scrub, ScanPhase::Scanning));
    assert_eq!((running.start_time, running.end_time), (Some(1_795_582_917), None));
    assert_eq!(numbers(&running), (Some(62_820_352), Some(63_266_816 - 159_744), Some(0)));
    assert_eq!(scan("scrub-paused").phase, ScanPhase::Paused);

    let finished = scan("scrubbed");
    assert_eq!((finished.phase, finished.errors), (ScanPhase::Finished, Some(0)));
    assert_eq!((finished.start_time, finished.end_time), (Some(1_795_582_917), Some(1_795_582_940)));
    assert_eq!(scan("scrub-canceled").phase, ScanPhase::Canceled);

    let resilvered = scan("resilvered");
    assert_eq!((resilvered.function, resilvered.phase), (ScanFunction::Resilver, ScanPhase::Finished));
    assert_eq!(resilvered.repaired, Some(30_408_704));
    let replacing = scan("replacing");
    assert_eq!((replacing.function, replacing.phase), (ScanFunction::Resilver, ScanPhase::Scanning));
    assert_eq!(find(&pool("replacing"), "replacing-1").kind, "replacing");

    let rebuilt = pool("rebuilt").rebuild.unwrap();
    assert_eq!((rebuilt.function, rebuilt.phase), (ScanFunction::Rebuild, ScanPhase::Finished));
    assert_eq!(rebuilt.repaired, Some(31_642_112));
    assert_eq!(scan("rebuilt").function, ScanFunction::Scrub);
}

#[test]
fn no_pools() {
    assert_eq!(parse_status_json(&text(&capture(VERSION).join("none"), "zpool-status.json")), Ok(Vec::new()));
    assert_eq!(parse_status_text(""), Ok(Vec::new()));
}

/// The text says the same as the JSON, as far as it says it.
#[test]
fn text_and_json_agree() {
    for capture in captures(VERSION) {
        if !capture.join("zpool-status.json").exists() || text(&capture, "zpool-status.json").is_empty() {
            continue;
        }
        let json = parse_status_json(&text(&capture, "zpool-status.json")).unwrap();
        let mut pools = parse_status_text(&text(&capture, "zpool-status.txt")).unwrap();
        assign_guids(&mut pools, &parse_status_text(&text(&capture, "zpool-status-guids.txt")).unwrap());
        assert_eq!(pools.len(), json.len(), "{}", capture.display());
        for (from_text, from_json) in pools.into_iter().zip(json) {
            compare_scans(&from_text.scan, &from_json.scan);
            compare_scans(&from_text.rebuild, &from_json.rebuild);
            assert_eq!(comparable(from_text), comparable(from_json), "{}", capture.display());
        }
    }
}

/// Leaves out what the text does not have.
fn comparable(mut pool: KernelPool) -> KernelPool {
    (pool.scan, pool.rebuild) = (None, None);
    // The GUID of the root is that of the pool, which `zpool status -g` does not print.
    pool.vdevs.iter_mut().filter(|vdev| vdev.kind == "root").for_each(|root| root.guid = None);
    pool
}

fn compare_scans(from_text: &Option<PoolScan>, from_json: &Option<PoolScan>) {
    let (Some(text), Some(json)) = (from_text, from_json) else {
        assert_eq!(from_text.is_some(), from_json.is_some());
        return;
    };
    assert_eq!((text.function, text.phase), (json.function, json.phase));
    assert_eq!(text.end_time, json.end_time);
    if text.phase != ScanPhase::Canceled {
        // A rebuild's duration leaves out pauses, so its start cannot be computed exactly.
        assert!(text.start_time.unwrap().abs_diff(json.start_time.unwrap()) <= 1);
    }
    let numbers = |scan: &PoolScan| [scan.issued, scan.total, scan.repaired, scan.errors];
    for (text, json) in numbers(text).into_iter().zip(numbers(json)) {
        let Some((text, json)) = text.zip(json) else { continue };
        assert!(text.abs_diff(json) * 100 <= json, "{text} and {json}");
    }
}
