//! The ARC and the process's memory stay within the ARC limit, which can change while the engine runs. This test needs a
//! separate process.

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, Pool, Spec};

/// The program's allocator: with glibc's, resident memory exceeds the limit.
#[cfg(not(poolwright_sanitize))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn the_arc_stays_within_its_limit_and_follows_a_new_one() {
    let engine = Engine::start(&Config {
        arc_bytes: 64 << 20,
        dirty_bytes: 64 << 20,
        txg_timeout_s: 5,
        ..Config::default()
    })
    .unwrap();
    assert_eq!(engine.arc_stats().max, 64 << 20);
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine, &Spec::single("arc", dir.path().join("v"), 12)).unwrap();
    let settings: Settings = [("recordsize".to_string(), "128K".to_string())].into();
    let ds = pool.create_dataset("d", &settings).unwrap();
    let file = ds.create_file("f").unwrap();
    let mut block = vec![0u8; 1 << 20];
    let total = 600u64 << 20;
    for at in (0..total).step_by(1 << 20) {
        for (i, word) in block.chunks_mut(8).enumerate() {
            // Half of each block is constant text, half is unique: lz4 compresses it to half.
            let x = (at + i as u64 * 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if i % 2 == 0 {
                word.copy_from_slice(&x.to_le_bytes())
            } else {
                word.copy_from_slice(b"database")
            }
        }
        file.write_at(at, &block).unwrap();
    }
    pool.sync().unwrap();
    let read_all = || {
        for at in (0..total).step_by(1 << 20) {
            file.read_at(at, &mut vec![0; 1 << 20]).unwrap();
        }
    };
    read_all();
    let stats = engine.arc_stats();
    assert!(stats.size < 96 << 20, "ARC of {} bytes under a limit of 64M", stats.size);
    assert!(rss_bytes() < 200 << 20, "{} bytes resident", rss_bytes());

    engine.set_arc(256 << 20);
    assert_eq!((engine.arc_stats().max, engine.arc_stats().target), (256 << 20, 256 << 20));
    read_all();
    let grown = engine.arc_stats().size;
    assert!(grown > 160 << 20, "the ARC grew to {grown} only");

    engine.set_arc(64 << 20);
    assert_eq!(engine.arc_stats().max, 64 << 20);
    read_all();
    assert!(engine.arc_stats().size < 96 << 20, "back to {}", engine.arc_stats().size);
    let hits = engine.arc_stats();
    assert!(hits.demand_data_misses > 0 && hits.hits > 0, "{hits:?}");

    every_limit_survives_an_export(engine, dir.path());
}

/// The library uses the limit when it closes a pool; it aborted at multiples of 10G.
fn every_limit_survives_an_export(engine: Engine, dir: &std::path::Path) {
    let powers = (26..=43).map(|shift| 1u64 << shift);
    let tens = (1..=20).map(|n| (n * 10) << 30);
    for limit in powers.chain(tens).chain([100 << 30, 1000 << 30, 8000 << 30]) {
        engine.set_arc(limit);
        assert_eq!(engine.arc_stats().max, limit);
        let file = dir.join("limit");
        let pool = Pool::create(engine, &Spec::single("limit", &file, 12)).unwrap();
        let ds = pool.create_dataset("d", &Settings::new()).unwrap();
        ds.create_file("f").unwrap().write_at(0, &[7; 100_000]).unwrap();
        drop(ds);
        pool.export().unwrap_or_else(|why| panic!("a limit of {limit} bytes: {why}"));
        std::fs::remove_file(&file).unwrap();
    }
}
