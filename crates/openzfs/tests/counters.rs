//! Counters: I/O of the host's files, log records by kind, space.

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Pool, Spec};

/// An engine that syncs transaction groups only on request: data that a group has written are not logged, and each group writes
/// additional metadata.
fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 128 << 20, txg_timeout_s: 3600, ..Config::default() }).unwrap()
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

fn sync_writes(ds: &Dataset, bytes: usize, n: u64) {
    let file = ds.create_file("f").unwrap();
    let content: Vec<u8> = (0..bytes).map(|i| (i as u32).wrapping_mul(2654435761) as u8).collect();
    file.write_at(0, &vec![7; 1 << 20]).unwrap();
    file.sync().unwrap();
    for i in 0..n {
        file.write_at(i * bytes as u64 % (1 << 20), &content).unwrap();
        file.sync().unwrap();
    }
}

#[test]
fn the_log_counts_by_kind() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("zil", dir.path().join("v"), 12)).unwrap();
    let latency = pool.create_dataset("latency", &settings(&[("recordsize", "16K")])).unwrap();
    sync_writes(&latency, 16384, 40);
    let zil = latency.zil_stats();
    assert_eq!(zil.needcopy_bytes + zil.copied_bytes, 40 * 16384, "{zil:?}");
    assert!(zil.normal_write > 40 * 16384 && zil.slog_bytes == 0, "{zil:?}");

    let throughput = pool
        .create_dataset("throughput", &settings(&[("recordsize", "16K"), ("logbias", "throughput")]))
        .unwrap();
    sync_writes(&throughput, 16384, 40);
    let zil = throughput.zil_stats();
    assert!(zil.indirect_bytes >= 40 * 16384 && zil.needcopy_bytes == 0, "{zil:?}");
    assert!(zil.normal_write < 40 * 16384, "pointers are shorter than data: {zil:?}");
}

#[test]
fn a_separate_log_takes_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let words: Vec<String> =
        [format!("{}/d:2G", dir.path().display()), "log".into(), format!("{}/l:1G", dir.path().display())]
            .into();
    let spec = Spec { name: "slog".into(), ashift: 12, groups: Spec::parse_vdevs(&words).unwrap() };
    let pool = Pool::create(engine(), &spec).unwrap();
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "16K")])).unwrap();
    sync_writes(&ds, 16384, 40);
    let zil = ds.zil_stats();
    assert!(zil.slog_write > 40 * 16384, "{zil:?}");
    let log = pool.vdev_stats().into_iter().find(|(path, _)| path.ends_with("l")).unwrap().1;
    assert!(log.write_bytes > 40 * 16384 && log.flushes > 0, "{log:?}");
}

#[test]
fn io_of_the_host_file_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("seam", dir.path().join("v"), 12)).unwrap();
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "128K"), ("compression", "off")])).unwrap();
    pool.sync().unwrap();
    let of = |pool: &Pool| pool.vdev_stats()[0].1;
    let before = of(&pool);
    let file = ds.create_file("f").unwrap();
    for i in 0..64u64 {
        file.write_at(i << 17, &vec![i as u8 + 1; 1 << 17]).unwrap();
    }
    pool.sync().unwrap();
    let moved = of(&pool).since(&before);
    let data = 64 << 17;
    assert!(moved.write_bytes >= data && moved.write_bytes < data + (data / 4), "{moved:?}");
    assert!(moved.flushes > 0);
    let stats = ds.stats().unwrap();
    assert!(stats.referenced >= data && stats.referenced < data + (data / 20), "{stats:?}");
    let blocks = file.blocks().unwrap();
    assert_eq!((blocks.count, blocks.asize, blocks.block_size), (64, data, 1 << 17));
}
