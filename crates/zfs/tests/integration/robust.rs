//! No parser panics, whatever it reads: captures that are cut off or have changed bytes.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::common::captures;
use poolwright_zfs::kernel::command::dataset::parse_datasets;
use poolwright_zfs::kernel::command::event::parse_events;
use poolwright_zfs::kernel::command::histogram::{HistogramKind, parse_histograms};
use poolwright_zfs::kernel::command::property::parse_properties;
use poolwright_zfs::kernel::command::snapshot::SnapshotCounter;
use poolwright_zfs::kernel::command::space::parse_space;
use poolwright_zfs::kernel::command::status::{assign_guids, parse_status_json, parse_status_text};
use poolwright_zfs::kernel::command::vdev_counters::parse_vdev_counters;
use poolwright_zfs::kernel::command::version::parse_version;
use poolwright_zfs::kernel::kstat::{parse_named, parse_txgs};
use proptest::prelude::*;

/// The contents of all files of all captures.
fn files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let versions = ["openzfs-2.1", "openzfs-2.2", "openzfs-2.3.2"];
        let mut dirs: Vec<PathBuf> = versions.iter().flat_map(|version| captures(version)).collect();
        let mut files = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { dirs.push(path) } else { files.push(std::fs::read(path).unwrap()) }
            }
        }
        assert!(files.len() > 300);
        files
    })
}

/// Every parser reads every text.
fn parse(bytes: &[u8]) {
    let text = &String::from_utf8_lossy(bytes);
    let _ = parse_named(text);
    let _ = parse_txgs(text);
    let _ = parse_version(text);
    let _ = parse_status_json(text);
    if let Ok(mut pools) = parse_status_text(text) {
        let others = pools.clone();
        assign_guids(&mut pools, &others);
        assert!(pools.iter().all(|pool| pool.walk().count() <= text.lines().count()));
    }
    let _ = parse_space(text);
    let _ = parse_vdev_counters(text);
    let _ = parse_histograms(text, HistogramKind::Latency);
    let _ = parse_histograms(text, HistogramKind::RequestSize);
    let _ = parse_datasets(text);
    let _ = parse_properties(text);
    let _ = parse_events(text);
    let mut counter = SnapshotCounter::default();
    let added = bytes.chunks(7).try_for_each(|piece| counter.add(piece));
    let _ = added.and_then(|()| counter.finish().map(drop));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn changed_captures(
        file in any::<prop::sample::Index>(),
        cut in prop::option::of(any::<prop::sample::Index>()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = file.get(files()).clone();
        if !bytes.is_empty() {
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
        }
        parse(&bytes);
    }

    #[test]
    fn random_texts(text in "(pool|scan|config|errors|NAME +STATE|[ \t:0-9a-zA-Z@=\"./%{}é-]{0,12}|\n){0,40}") {
        parse(text.as_bytes());
    }
}
