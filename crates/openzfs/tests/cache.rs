//! A cache vdev serves reads, and keeps its contents over an export and an import. The test needs a separate process, because the
//! engine's caches belong to the process.

use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, File, Pool, Spec};

const BLOCK: usize = 128 << 10;
const BLOCKS: u64 = 2400; // 300M, well over the ARC

fn block(n: u64) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..BLOCK / 8).flat_map(|_| next()).collect()
}

/// Reads in a fixed random order, so that the library does not prefetch: prefetched data are not written to a cache vdev.
fn read_all(file: &File) {
    let mut bytes = vec![0; BLOCK];
    for i in 0..BLOCKS {
        let n = i * 1009 % BLOCKS;
        file.read_at(n * BLOCK as u64, &mut bytes).unwrap();
        assert_eq!(bytes[..64], block(n)[..64], "block {n}");
    }
}

#[test]
fn a_cache_vdev_serves_before_and_after_an_import() {
    let engine = Engine::start(&Config {
        arc_bytes: 64 << 20,
        dirty_bytes: 64 << 20,
        txg_timeout_s: 5,
        ..Config::default()
    })
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    // Smaller cache vdevs do not keep their contents over an export (l2arc_rebuild_blocks_min_l2size).
    let words = [dir.path().join("d:4G"), "cache".into(), dir.path().join("c:2G")];
    let words = words.map(|w| w.to_str().unwrap().to_owned());
    let spec = Spec { name: "cached".into(), ashift: 12, groups: Spec::parse_vdevs(&words).unwrap() };
    let pool = Pool::create(engine, &spec).unwrap();
    let settings: Settings = [("compression".to_string(), "off".to_string())].into();
    let dataset = pool.create_dataset("d", &settings).unwrap();
    let file = dataset.create_file("f").unwrap();
    for n in 0..BLOCKS {
        file.write_at(n * BLOCK as u64, &block(n)).unwrap();
    }
    pool.sync().unwrap();
    let patience = Instant::now() + Duration::from_secs(120);
    while engine.arc_stats().l2_size < 100 << 20 || engine.arc_stats().l2_hits < 100 {
        assert!(Instant::now() < patience, "the cache vdev was hardly fed: {:?}", engine.arc_stats());
        read_all(&file);
    }
    drop(file);
    drop(dataset);
    pool.export().unwrap();
    assert_eq!(engine.arc_stats().l2_size, 0);

    // The import finds a renamed file of the cache vdev by its label.
    std::fs::rename(dir.path().join("c"), dir.path().join("moved")).unwrap();
    let pool = Pool::import(engine, &["d", "moved"].map(|f| dir.path().join(f)), false).unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while engine.arc_stats().l2_size < 50 << 20 {
        assert!(Instant::now() < patience, "not found again: {:?}", engine.arc_stats());
        std::thread::sleep(Duration::from_millis(100));
    }
    let before = engine.arc_stats();
    let file = pool.open_dataset("d").unwrap().open_file("f").unwrap();
    read_all(&file);
    let after = engine.arc_stats().since(&before);
    assert!(after.l2_hits > 100, "{after:?}");
}
