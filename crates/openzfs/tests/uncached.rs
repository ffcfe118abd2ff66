//! The cost of primarycache=none for a program that reads less than a record at a time. With the dbuf cache, which keeps a record until its
//! end has been read, there is none. Without it, as before OpenZFS 2.2, each read reads a whole record. The test needs a separate process.

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, File, Pool, Spec};

const RECORD: u64 = 128 << 10;
const CALL: u64 = 8 << 10;
const FILE: u64 = 8 << 20;

/// Reads the whole file; returns the bytes read from the vdev, as a multiple of the file's length.
fn read_through(engine: Engine, file: &File) -> f64 {
    let before = engine.vdev_stats().read_bytes;
    for at in (0..FILE).step_by(CALL as usize) {
        file.read_at(at, &mut vec![0; CALL as usize]).unwrap();
    }
    (engine.vdev_stats().read_bytes - before) as f64 / FILE as f64
}

#[test]
fn a_record_is_read_once_or_at_every_call() {
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine, &Spec::single("uncached", dir.path().join("v"), 12)).unwrap();
    let settings = [("recordsize", "128K"), ("compression", "off"), ("primarycache", "none")];
    let settings: Settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).into();
    let ds = pool.create_dataset("d", &settings).unwrap();
    let file = ds.create_file("f").unwrap();
    file.write_at(0, &vec![7; FILE as usize]).unwrap();
    pool.sync().unwrap();

    let once = read_through(engine, &file);
    assert!((0.9..1.5).contains(&once), "with the dbuf cache the file was read {once:.2} times");

    engine.set_tunable("dbuf_cache_max_bytes", 0).unwrap();
    let calls = (RECORD / CALL) as f64;
    let again = read_through(engine, &file);
    // Not at every call: while the engine is busy, it may still have the record of the call before.
    assert!(again > 0.5 * calls, "without it the file was read {again:.2} times, by {calls} calls a record");

    ds.set("primarycache", "all").unwrap();
    read_through(engine, &file);
    let kept = read_through(engine, &file);
    assert!(kept < 0.1, "from the ARC the file was read {kept:.2} times");

    for name in Engine::tunables() {
        engine.set_tunable(name, 64 << 20).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
    let why = engine.set_tunable("zfs_no_such_thing", 1).unwrap_err().to_string();
    assert!(why.contains("zfs_no_such_thing"), "{why}");
}
