//! Compares the model that screens settings with the engine: the predicted bytes and the order of the settings.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use poolwright_openzfs::Device;
use poolwright_openzfs::property::Settings;
use poolwright_replay::capture::Options;
use poolwright_replay::{Capture, EngineOptions, SourceFiles, Spec, TargetSpec, trial};
use poolwright_trace::{Event, File, Flags, Op, Trace};
use poolwright_tune::model::{Packing, Surroundings, predict};

const PAGE: u64 = 16384;
const PAGES: u64 = 16384; // 256 MiB: four times the size of the cache

/// 16K reads and writes over 30 recorded seconds, half of them on a fifth of the pages.
fn workload(path: &std::path::Path, flags: Flags) -> Trace {
    let mut x = 7u64;
    let mut random = move |n: u64| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (x >> 24) % n
    };
    let mut events = Vec::new();
    for i in 0..9_000u64 {
        let page = if random(2) == 0 { random(PAGES / 5) } else { random(PAGES) };
        let op = if i % 3 == 0 { Op::Write } else { Op::Read };
        let t_ns = i * 3_300_000;
        let event = Event {
            t_ns,
            dur_ns: 9_000,
            op,
            file: 0,
            offset: page * PAGE,
            len: PAGE,
            pid: 1,
            tid: 1,
            flags,
            gap: None,
        };
        events.push(event);
        if i % 100 == 99 {
            events.push(Event { t_ns: t_ns + 10_000, op: Op::Fsync, offset: 0, len: 0, ..event });
        }
    }
    let file =
        File { path: path.display().to_string(), size: PAGE * PAGES, role: "data".into(), ..File::default() };
    Trace { files: vec![file], events, ..Trace::default() }
}

const ARC_BYTES: u64 = 64 << 20;
/// Record size and logbias.
const SETTINGS: [(&str, &str); 6] = [
    ("8K", "latency"),
    ("16K", "latency"),
    ("64K", "latency"),
    ("256K", "latency"),
    ("16K", "throughput"),
    ("128K", "throughput"),
];

/// Returns the incompressible content of the table.
fn noise() -> Vec<u8> {
    let mut x = 1u64;
    let mut byte = || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (x >> 56) as u8
    };
    (0..PAGE * PAGES).map(|_| byte()).collect()
}

/// Returns the specification of a trial of the trace and the capture in a directory.
fn spec(dir: &std::path::Path, settings: &Settings) -> Spec {
    Spec {
        trace: dir.join("t.parquet"),
        capture: dir.join("capture"),
        target: TargetSpec::Engine(EngineOptions {
            scratch: dir.to_owned(),
            ashift: 12,
            arc_bytes: ARC_BYTES,
            dirty_bytes: 512 << 20,
            device: Device::none(),
            txg_timeout_s: 5,
            tunables: BTreeMap::new(),
            clock: None,
        }),
        settings: BTreeMap::from([("data".to_string(), settings.clone())]),
        roles: vec![],
        pace: None,
        application: None,
        warm_passes: 1,
        warm_share: 0.0,
        from_seconds: None,
        first_seconds: None,
        fill_only: false,
    }
}

/// Writes the table and captures it; returns the trace.
fn prepare(dir: &std::path::Path, flags: Flags) -> Trace {
    let path = dir.join("table");
    // The data is incompressible and compression is `off`, so the model's packing is exact. The tests cover
    // caching, coalescing and the log.
    std::fs::write(&path, noise()).unwrap();
    let trace = workload(&path, flags);
    trace.save(dir.join("t.parquet")).unwrap();
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 1, roles: vec![] };
    Capture::take(&trace, &options, &SourceFiles::at_recorded_paths(&trace), &dir.join("capture")).unwrap();
    trace
}

/// Bytes written and read, predicted and measured.
struct Bytes {
    written: (f64, f64),
    read: (f64, f64),
}

/// Trials in one process share the engine's counters.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn compare(dir: &std::path::Path, trace: &Trace, settings: &[(&str, &str)]) -> Bytes {
    let around = Surroundings {
        arc_bytes: ARC_BYTES,
        dirty_bytes: 512 << 20,
        txg_ns: 5_000_000_000,
        device: Device::none(),
        cores: 2.0,
        direct_io: true,
    };
    let packing = Packing { ratio: 1.0, compress_bytes_s: f64::INFINITY, decompress_bytes_s: f64::INFINITY };
    let settings: Settings = settings
        .iter()
        .chain(&[("compression", "off")])
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let replay = trial::run(&spec(dir, &settings), &|| false).unwrap();
    drop(one);
    // The engine is measured in its second pass, so the model's first pass is subtracted.
    let later = trace.events.iter().map(|e| Event { t_ns: e.t_ns + 30_000_000_000, ..*e });
    let again: Vec<Event> = trace.events.iter().copied().chain(later).collect();
    let model =
        |events: &[Event]| predict(trace, events.iter(), &settings, packing, &around, &|_| true).unwrap();
    let (once, twice) = (model(&trace.events), model(&again));
    let bytes = Bytes {
        written: (twice.write_bytes - once.write_bytes, replay.vdev.write_bytes as f64),
        read: (twice.read_bytes - once.read_bytes, replay.vdev.read_bytes as f64),
    };
    println!(
        "{settings:?}: written {:.0} MB (model {:.0}), read {:.0} MB (model {:.0})",
        bytes.written.1 / 1e6,
        bytes.written.0 / 1e6,
        bytes.read.1 / 1e6,
        bytes.read.0 / 1e6
    );
    bytes
}

#[test]
fn predicted_bytes_are_near_the_engines() {
    let dir = tempfile::tempdir().unwrap();
    let trace = prepare(dir.path(), Flags::default());
    let mut measured = Vec::new();
    for (recordsize, logbias) in SETTINGS {
        let bytes = compare(dir.path(), &trace, &[("recordsize", recordsize), ("logbias", logbias)]);
        let ((pw, mw), (pr, mr)) = (bytes.written, bytes.read);
        let name = format!("{recordsize} {logbias}");
        assert!((0.6..1.67).contains(&(pw / mw)), "{name}: {pw:.0} predicted, {mw:.0} written");
        // The engine also prefetches, and reads indirect blocks. At 16K with logbias=throughput it reads 47
        // to 58 MB in equal runs on an idle and on a busy machine; the model predicts 44. The cause of the
        // difference is not known.
        let least = if logbias == "throughput" { 0.7 } else { 0.8 };
        assert!((least..1.25).contains(&(pr / mr)), "{name}: {pr:.0} predicted, {mr:.0} read");
        measured.push((pw, mw));
    }
    // Screening needs the correct order.
    for pair in measured.windows(2) {
        assert_eq!(pair[0].0 < pair[1].0, pair[0].1 < pair[1].1, "{measured:?}");
    }
}

#[test]
fn direct_reads_are_predicted() {
    let dir = tempfile::tempdir().unwrap();
    let trace = prepare(dir.path(), Flags::DIRECT);
    let mut read = Vec::new();
    for (recordsize, direct) in [("16K", "standard"), ("128K", "standard"), ("128K", "disabled")] {
        let bytes = compare(dir.path(), &trace, &[("recordsize", recordsize), ("direct", direct)]);
        let ((pw, mw), (pr, mr)) = (bytes.written, bytes.read);
        assert!(
            (0.6..1.67).contains(&(pw / mw)),
            "{recordsize} {direct}: {pw:.0} predicted, {mw:.0} written"
        );
        assert!((0.75..1.33).contains(&(pr / mr)), "{recordsize} {direct}: {pr:.0} predicted, {mr:.0} read");
        read.push(mr);
    }
    assert!(read[1] > 5.0 * read[0] && read[1] > 1.2 * read[2], "{read:?}");
}

#[test]
fn what_may_not_be_cached_is_read_each_time() {
    let trace = workload(std::path::Path::new("/db/table"), Flags::default());
    let around = Surroundings {
        arc_bytes: 1 << 30,
        dirty_bytes: 512 << 20,
        txg_ns: 5_000_000_000,
        device: Device::none(),
        cores: 2.0,
        direct_io: true,
    };
    let packing = Packing { ratio: 1.0, compress_bytes_s: f64::INFINITY, decompress_bytes_s: f64::INFINITY };
    let read = |primarycache: &str| {
        let settings: Settings =
            [("recordsize".into(), "16K".into()), ("primarycache".into(), primarycache.into())].into();
        predict(&trace, trace.events.iter(), &settings, packing, &around, &|_| true).unwrap().read_bytes
            / PAGE as f64
    };
    let (all, metadata) = (read("all"), read("metadata"));
    // 6000 reads of at most 16384 pages, some of which were written before. With `all`, each page is read once;
    // with `metadata`, each read reads the device unless the page is still dirty.
    assert!(all < 5_000.0 && (5_500.0..=6_000.0).contains(&metadata), "{all} {metadata}");
}
