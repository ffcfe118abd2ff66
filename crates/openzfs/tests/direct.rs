//! Direct I/O: what bypasses the ARC, by alignment and by the property `direct`; contents of files that are read and written both ways; and
//! the replay of a log whose records point to direct writes. The killed process, the victim, runs this test binary. `POOLWRIGHT_SEED` selects
//! other random operations.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, File, IoStats, Pool, Spec};

mod common;
#[path = "direct/operations.rs"]
mod operations;

use operations::{Op, PAGE, bytes, differs, drawn, errno, is_strict, mix, on_engine, on_model, refuses};

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 256 << 20, ..Config::default() }).unwrap()
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// What a call changes in the pool's counters.
fn counted(pool: &Pool, call: impl FnOnce()) -> IoStats {
    let before = pool.io_stats().unwrap();
    call();
    pool.io_stats().unwrap().since(&before)
}

const FILE: u64 = 64 << 20;
const READS: u64 = 2000;
const PIECE: u64 = 16 << 10;

/// Reads at random places; returns the bytes read of the pool's file and the counters.
fn random_reads(pool: &Pool, file: &File) -> (u64, IoStats) {
    let device = |pool: &Pool| pool.vdev_stats()[0].1.read_bytes;
    let (before, mut state, mut buf) = (device(pool), 7, vec![0; PIECE as usize]);
    let counters = counted(pool, || {
        for _ in 0..READS {
            let at = mix(&mut state) % (FILE / PIECE) * PIECE;
            assert_eq!(file.read_at(at, &mut buf).unwrap() as u64, PIECE);
            assert!(buf == bytes(at, PIECE, 3), "{at}");
        }
    });
    (device(pool) - before, counters)
}

#[test]
fn a_direct_read_of_a_part_reads_the_whole_record_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v");
    let pool = Pool::create(engine(), &Spec::single("whole", &path, 12)).unwrap();
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "128K"), ("compression", "lz4")])).unwrap();
    let file = ds.create_file("f").unwrap();
    (0..FILE).step_by(1 << 20).for_each(|at| file.write_at(at, &bytes(at, 1 << 20, 3)).unwrap());
    drop((file, ds));
    let mut pool = Some(pool);
    for (property, direct) in [("standard", false), ("standard", true), ("disabled", true), ("always", false)]
    {
        pool.take().map(Pool::export).unwrap().unwrap();
        let imported = pool.insert(common::import_again(engine(), std::slice::from_ref(&path)));
        let ds = imported.open_dataset("d").unwrap();
        ds.set("direct", property).unwrap();
        assert_eq!(ds.get("direct").unwrap(), property);
        let file = ds.open_file("f").unwrap();
        let file = if direct { file.into_direct() } else { file };
        let passes = [random_reads(imported, &file), random_reads(imported, &file)];
        println!("direct={property}, O_DIRECT {direct}: {passes:?}");
        let bypass = property == "always" || property == "standard" && direct;
        for (n, (device, counters)) in passes.iter().enumerate() {
            let times = counters.direct_read_bytes as f64 / (READS * PIECE) as f64;
            if bypass {
                assert!((7.9..=8.0).contains(&times), "pass {n}: {times:.2} times the bytes");
                assert!(*device > READS * PIECE * 3, "pass {n}: {device} bytes from the device");
            } else if direct && !is_strict() {
                // Since 2.4, nothing that a program reads with O_DIRECT stays in the ARC, also with direct=disabled.
                assert_eq!(counters.direct_read_count, 0);
                assert!(counters.arc_read_count > READS * 8 / 10, "pass {n}: {counters:?}");
            } else {
                assert_eq!(counters.direct_read_count, 0);
                assert_eq!(n == 1, counters.arc_read_bytes == 0 && *device == 0, "pass {n}: {device}");
                assert!(counters.arc_read_bytes <= FILE + (1 << 20), "pass {n}: {counters:?}");
            }
        }
    }
}

#[test]
fn only_whole_records_are_written_directly() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("records", dir.path().join("v"), 12)).unwrap();
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "128K")])).unwrap();
    let file = ds.create_file("f").unwrap().into_direct();
    let record = 128 << 10;
    let wrote = |at: u64, len: u64| {
        let c = counted(&pool, || file.write_at(at, &bytes(at, len, 1)).unwrap());
        (c.direct_write_count, c.direct_write_bytes)
    };
    // The file's block grows, so the first record goes through the ARC.
    assert_eq!(wrote(0, 4 * record), (3, 3 * record));
    assert_eq!(wrote(0, record), (1, record));
    assert_eq!(wrote(record, 16 << 10), (0, 0));
    assert_eq!(wrote(2 * record, 2 * record + PAGE), (2, 2 * record));
    // Parts that reach the next record's start, and whole records after them.
    assert_eq!(wrote(PAGE, 2 * record), (1, record));
    assert_eq!(wrote(3 * record, 20 << 20), (160, 20 << 20));

    // A file of one block smaller than a record: directly only when it is written as a whole.
    let small = ds.create_file("small").unwrap().into_direct();
    let wrote = |at: u64, len: u64| {
        counted(&pool, || small.write_at(at, &bytes(at, len, 1)).unwrap()).direct_write_bytes
    };
    assert_eq!(wrote(0, 3 * PAGE), 0);
    assert_eq!(small.block_size(), 3 * PAGE);
    assert_eq!(wrote(0, 3 * PAGE), 3 * PAGE);
    assert_eq!(wrote(PAGE, PAGE), 0);
    assert_eq!(wrote(3 * PAGE, PAGE), 0, "it grows from a block that was written directly");
    let mut back = vec![0; 4 * PAGE as usize + 100];
    assert_eq!(small.read_at(0, &mut back[..4 * PAGE as usize]).unwrap() as u64, 4 * PAGE);
    assert!(back[..4 * PAGE as usize] == bytes(0, 4 * PAGE, 1));
    drop((file, small, ds));
    pool.export().unwrap();
}

#[test]
fn requests_that_are_not_aligned() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("aligned", dir.path().join("v"), 12)).unwrap();
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "16K")])).unwrap();
    let size = (64 << 10) + 5000;
    ds.create_file("f").unwrap().write_at(0, &bytes(0, size, 5)).unwrap();
    pool.sync().unwrap();
    let file = ds.open_file("f").unwrap().into_direct();
    let mut buf = vec![0; 100_000];
    let requests = [(512, 4096), (4096, 512), (0, 100), (16384, 16385)];
    for property in ["standard", "disabled", "always"] {
        ds.set("direct", property).unwrap();
        for (at, len) in requests {
            let part = &mut buf[..len];
            let refused = property == "standard" && is_strict();
            let before = pool.io_stats().unwrap();
            if refused {
                assert_eq!(errno(file.read_at(at, part)), libc::EINVAL);
                assert_eq!(errno(file.write_at(at, part)), libc::EINVAL);
            } else {
                assert_eq!(file.read_at(at, part).unwrap(), len);
                assert!(part == bytes(at, len as u64, 5), "{property}, {at}, {len}");
                file.write_at(at, part).unwrap();
            }
            let counters = pool.io_stats().unwrap().since(&before);
            assert_eq!(
                counters.direct_read_count + counters.direct_write_count,
                0,
                "{property}, {at}, {len}"
            );
        }
    }
    ds.set("direct", "standard").unwrap();
    // What the dbuf cache has is not read again.
    drop((file, ds));
    let ds = pool.open_dataset("d").unwrap();
    let file = ds.open_file("f").unwrap().into_direct();
    // The end of the file: whole pages directly, the rest through the ARC. Memory at any address.
    for shift in [0, 1, 4096] {
        let counters = counted(&pool, || {
            let end = &mut buf[shift..shift + 65536];
            assert_eq!(file.read_at(32768, end).unwrap() as u64, size - 32768);
            assert!(end[..size as usize - 32768] == bytes(32768, size - 32768, 5));
        });
        assert!(counters.direct_read_count >= 2, "{counters:?}");
    }
    assert_eq!(
        file.read_at(1 << 20, &mut buf[..100]).unwrap(),
        0,
        "beyond the end, alignment does not matter"
    );
    // Whole files below a page.
    ds.create_file("short").unwrap().write_at(0, b"short").unwrap();
    let short = ds.open_file("short").unwrap().into_direct();
    assert_eq!(short.read_at(0, &mut buf[..4096]).unwrap(), 5);
    assert_eq!(&buf[..5], b"short");

    engine().set_tunable("zfs_dio_enabled", 0).unwrap();
    let counters = counted(&pool, || assert_eq!(file.read_at(0, &mut buf[..16384]).unwrap(), 16384));
    engine().set_tunable("zfs_dio_enabled", 1).unwrap();
    assert_eq!(counters.direct_read_count, 0);
    assert!(ds.set("direct", "sometimes").is_err());
    assert_eq!(pool.create_dataset("new", &Settings::new()).unwrap().get("direct").unwrap(), "standard");
}

#[test]
fn a_durable_direct_write_is_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("once", dir.path().join("v"), 12)).unwrap();
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "16K"), ("compression", "off")])).unwrap();
    let file = ds.create_file("f").unwrap();
    file.write_at(0, &bytes(0, 1 << 20, 1)).unwrap();
    file.sync().unwrap(); // the first record of a log waits for a transaction group
    pool.sync().unwrap();
    for direct in [false, true] {
        let file = if direct { file.clone().into_direct() } else { file.clone() };
        let before = (ds.zil_stats(), pool.vdev_stats()[0].1.write_bytes);
        for n in 0..64 {
            file.write_sync_at(n * PIECE, &bytes(n * PIECE, PIECE, 2)).unwrap();
        }
        pool.sync().unwrap();
        let log = ds.zil_stats().since(&before.0);
        let written = pool.vdev_stats()[0].1.write_bytes - before.1;
        println!("O_DIRECT {direct}: {written} bytes for {}, {log:?}", 64 * PIECE);
        assert_eq!(log.indirect_count, if direct { 64 } else { 0 });
        assert_eq!(direct, log.normal_bytes < 64 * PIECE / 8);
    }
    let mut back = vec![0; 1 << 20];
    file.read_at(0, &mut back).unwrap();
    assert!(back == bytes(0, 1 << 20, 2));
}

/// Threads read and write whole records of one file, direct and not, while transaction groups end: each record is read as one write.
#[test]
fn concurrent_requests_of_both_kinds() {
    const RECORDS: u64 = 64;
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("threads", dir.path().join("v"), 12)).unwrap();
    for compression in ["off", "lz4"] {
        let pairs = [("recordsize", "16K"), ("compression", compression)];
        let ds = pool.create_dataset(compression, &settings(&pairs)).unwrap();
        let file = ds.create_file("f").unwrap();
        file.write_at(0, &vec![1; (RECORDS * PIECE) as usize]).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (file, pool) = (file.clone(), &pool);
                scope.spawn(move || {
                    let (mut state, mut buf) = (thread, vec![0; 2 * PIECE as usize]);
                    for n in 0..1500u64 {
                        let draw = mix(&mut state);
                        let file = if draw & 1 == 0 { file.clone().into_direct() } else { file.clone() };
                        let at = (draw >> 8) % (RECORDS - 1) * PIECE;
                        match draw >> 4 & 7 {
                            0..=2 => file.write_at(at, &vec![(1 + n % 250) as u8; PIECE as usize]).unwrap(),
                            3 => file.write_sync_at(at, &vec![7; 2 * PIECE as usize]).unwrap(),
                            _ => {
                                assert_eq!(file.read_at(at, &mut buf).unwrap(), buf.len());
                                for record in buf.chunks(PIECE as usize) {
                                    assert!(record[0] != 0 && record.iter().all(|byte| *byte == record[0]));
                                }
                            }
                        }
                        if n % 100 == 99 {
                            pool.start_txg().unwrap();
                        }
                    }
                });
            }
        });
    }
    let counters = pool.io_stats().unwrap();
    assert!(counters.direct_read_count > 100 && counters.direct_write_count > 1000, "{counters:?}");
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
}

#[test]
fn blocks_that_are_being_freed() {
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine(), &Spec::single("freed", dir.path().join("v"), 12)).unwrap();
    let pairs = [("recordsize", "16K"), ("compression", "lz4"), ("checksum", "sha256")];
    let ds = pool.create_dataset("d", &settings(&pairs)).unwrap();
    let len = 64 * PIECE;
    let (content, mut back) = (bytes(0, len, 1), vec![0; len as usize]);
    for n in 0..20 {
        let file = ds.create_file(&format!("f{n}")).unwrap().into_direct();
        file.write_at(0, &content).unwrap();
        pool.sync().unwrap();
        match n % 2 {
            0 => file.punch(0, len).unwrap(),
            _ => file.truncate(0).and_then(|()| file.truncate(len)).unwrap(),
        }
        file.read_at(0, &mut back).unwrap();
        assert!(back.iter().all(|byte| *byte == 0), "{n}: a freed block was read");
        if n % 4 < 2 {
            pool.start_txg().unwrap();
        }
        // Writes the same content again: OpenZFS may then keep the old block (nopwrite).
        file.write_at(0, &content).unwrap();
        ds.open_file(file.name()).unwrap().read_at(0, &mut back).unwrap();
        assert!(back == content, "{n}");
        pool.sync().unwrap();
        file.read_at(0, &mut back).unwrap();
        assert!(back == content, "{n}");
    }
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
}

#[test]
fn contents_are_right_whichever_way_they_are_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v");
    let pool = Pool::create(engine(), &Spec::single("mixed", &path, 12)).unwrap();
    let kinds = [
        ("4K", "off", "on", "standard"),
        ("16K", "lz4", "sha256", "standard"),
        ("16K", "off", "off", "always"),
        ("128K", "zstd-1", "blake3", "standard"),
        ("128K", "lz4", "on", "disabled"),
        ("1M", "gzip-1", "on", "always"),
    ];
    let mut should = Vec::new();
    for (n, (recordsize, compression, checksum, direct)) in kinds.into_iter().enumerate() {
        let pairs = [
            ("recordsize", recordsize),
            ("compression", compression),
            ("checksum", checksum),
            ("direct", direct),
        ];
        let ds = pool.create_dataset(&format!("d{n}"), &settings(&pairs)).unwrap();
        let record = poolwright_openzfs::property::parse_size(recordsize).unwrap();
        for i in 0..(2 << 20) / record.max(64 << 10) {
            let name = format!("f{i}");
            let (file, mut content) = (ds.create_file(&name).unwrap(), Vec::new());
            for op in drawn(n as u64 * 1000 + i, record, 8, true) {
                // With direct=disabled or always, nothing is refused.
                let op = match op {
                    Op::Write(at, len, what, true, s) if direct != "standard" && refuses(at, len, true) => {
                        Op::Write(at, len, what, false, s)
                    }
                    Op::Read(at, len, true) if direct != "standard" && refuses(at, len, true) => {
                        Op::Read(at, len, false)
                    }
                    op => op,
                };
                on_engine(&file, op, &content, &pool);
                on_model(&mut content, op);
            }
            should.push((n, name, content));
        }
    }
    let counters = pool.io_stats().unwrap();
    println!("{} files: {counters:?}", should.len());
    assert!(counters.direct_read_count > 20 && counters.direct_write_count > 300, "{counters:?}");
    pool.export().unwrap();
    let pool = common::import_again(engine(), &[path]);
    for (n, kind) in kinds.iter().enumerate() {
        let ds = pool.open_dataset(&format!("d{n}")).unwrap();
        let wrong: Vec<String> = should
            .iter()
            .filter(|(of, ..)| *of == n)
            .filter_map(|(_, name, content)| differs(&ds, name, content))
            .collect();
        assert!(wrong.is_empty(), "{kind:?}: {wrong:#?}");
    }
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
}

/// Datasets of the crash: name, logbias, recordsize.
const LOGGED: &[(&str, &str, u64)] = &[
    ("a", "latency", 16 << 10),
    ("b", "throughput", 16 << 10),
    ("c", "latency", 128 << 10),
    ("d", "latency", 4096),
];
const LOGGED_FILES: u64 = 60;

/// Runs only as the victim: writes files in one transaction group that does not end.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Ok(vdev) = std::env::var("POOLWRIGHT_DIRECT_VDEV") else { return };
    let config = Config { txg_timeout_s: 3600, dirty_bytes: 4 << 30, ..Config::default() };
    let pool = Pool::create(Engine::start(&config).unwrap(), &Spec::single("direct", vdev, 12)).unwrap();
    let datasets: Vec<(Dataset, u64)> = LOGGED
        .iter()
        .map(|(name, logbias, record)| {
            let record_text = record.to_string();
            let pairs = [("recordsize", record_text.as_str()), ("logbias", logbias), ("compression", "lz4")];
            let ds = pool.create_dataset(name, &settings(&pairs)).unwrap();
            ds.create_file("first").unwrap().sync().unwrap(); // the first record of a log waits for a transaction group
            (ds, *record)
        })
        .collect();
    std::thread::scope(|scope| {
        for (ds, record) in &datasets {
            let pool = &pool;
            scope.spawn(move || {
                for n in 0..LOGGED_FILES {
                    let file = ds.create_file(&format!("f{n}")).unwrap();
                    drawn(n, *record, 8, false).into_iter().for_each(|op| on_engine(&file, op, &[], pool));
                    file.sync().unwrap();
                }
            });
        }
    });
    assert!(pool.io_stats().unwrap().direct_write_count > 500);
    writeln!(std::io::stdout().lock(), "\nall synced").unwrap();
    std::thread::sleep(Duration::from_secs(600));
}

fn run_and_kill(vdev: &Path) {
    let mut child = common::victim(&[("POOLWRIGHT_DIRECT_VDEV", vdev.to_str().unwrap())])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let synced = out.lines().map_while(|line| line.ok()).any(|line| line == "all synced");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(synced, "the victim ended early");
}

#[test]
fn direct_writes_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    run_and_kill(&vdev);
    let pool = common::import_again(engine(), &[vdev]);
    for (name, logbias, record) in LOGGED {
        let ds = pool.open_dataset(name).unwrap();
        assert!(ds.replayed() > LOGGED_FILES, "only {} records were replayed", ds.replayed());
        let wrong: Vec<String> = (0..LOGGED_FILES)
            .filter_map(|n| {
                let mut should = Vec::new();
                drawn(n, *record, 8, false).into_iter().for_each(|op| on_model(&mut should, op));
                differs(&ds, &format!("f{n}"), &should)
            })
            .collect();
        assert!(wrong.is_empty(), "{logbias}, {record}: {} files: {wrong:#?}", wrong.len());
    }
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
}
