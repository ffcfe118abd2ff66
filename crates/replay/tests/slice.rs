//! A trial of a slice from the middle of a recording: it performs the recorded operations with the recorded sizes, and no
//! others.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_openzfs::Device;
use poolwright_replay::capture::Options;
use poolwright_replay::{
    ApplicationSpec, Capture, EngineOptions, Replay, SourceFiles, Spec, TargetSpec, trial,
};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Gap, Op, Trace};

const PAGE: u64 = 4096;
const MS: u64 = 1_000_000;
/// Where the slice begins, in milliseconds.
const BEGIN_MS: u64 = 60_000;

fn event(t_ms: u64, op: Op, file: u32, page: u64, pages: u64) -> Event {
    Event {
        t_ns: t_ms * MS,
        dur_ns: MS / 10,
        op,
        file,
        offset: page * PAGE,
        len: pages * PAGE,
        pid: 1,
        tid: 1,
        flags: Flags::default(),
        gap: None,
    }
}

/// A table (file 0), a log that is removed after 10 s (file 1), and its successor, which is created then (file 2) and
/// has 100 pages when the slice begins. The thread then sleeps until the slice begins, works for 200 ms and continues
/// later. In the slice, it reads everything that was written.
fn trace(dir: &Path) -> Trace {
    let mut events = vec![event(0, Op::Write, 1, 0, 300), event(10_000, Op::Unlink, 1, 0, 0)];
    events.push(event(10_001, Op::Create, 2, 0, 0));
    events.extend((0..100).map(|n| event(10_002 + n, Op::Write, 2, n, 1)));
    events.push(event(11_000, Op::Write, 2, 100, 20));
    events.push(event(12_000, Op::Truncate, 2, 100, 0));
    events.push(event(13_000, Op::Write, 0, 250, 14));
    let slept = Gap { cpu_ns: 1000, wake_ns: 1000, waker: Gap::TIMER, ..Gap::default() };
    for n in 0..100 {
        let t_ms = BEGIN_MS + 2 * n;
        let gap = Some(if n == 0 { slept } else { Gap { cpu_ns: MS, ..Gap::default() } });
        events.push(Event { gap, ..event(t_ms, Op::Read, 2, n, 1) });
        events.push(Event { gap: Some(Gap::default()), ..event(t_ms + 1, Op::Read, 0, 2 * n + 64, 1) });
    }
    events.push(event(BEGIN_MS + 250, Op::Write, 2, 100, 1));
    events.push(event(BEGIN_MS + 260, Op::Fsync, 2, 0, 0));
    events.extend((0..50).map(|n| event(BEGIN_MS + 5000 + n, Op::Write, 0, n, 1)));
    let file = |n: u32, pages: u64| {
        let path = dir.join(format!("source{n}"));
        if n != 1 {
            std::fs::write(&path, vec![n as u8 + 1; (pages * PAGE) as usize]).unwrap();
        }
        let path = path.display().to_string();
        File { path, size: pages * PAGE, role: Some(Role::Data), ..File::default() }
    };
    Trace { files: vec![file(0, 264), file(1, 300), file(2, 101)], events, ..Trace::default() }
}

fn replay(dir: &Path, target: TargetSpec) -> Replay {
    let trace = trace(dir);
    trace.save(dir.join("t.parquet")).unwrap();
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 3, roles: vec![] };
    // Another trial may have taken one.
    let _ = std::fs::remove_dir_all(dir.join("capture"));
    Capture::take(&trace, &options, &SourceFiles::at_recorded_paths(&trace), &dir.join("capture")).unwrap();
    let spec = Spec {
        trace: dir.join("t.parquet"),
        capture: dir.join("capture"),
        target,
        settings: BTreeMap::new(),
        roles: vec![],
        pace: None,
        application: Some(ApplicationSpec::default()),
        warm_passes: 0,
        warm_share: 0.2,
        from_seconds: Some(BEGIN_MS as f64 / 1000.0),
        first_seconds: Some(1.0),
        fill_only: false,
    };
    trial::run(&spec, &|| false).unwrap()
}

#[test]
fn a_slice_performs_the_recorded_operations_on_files_of_the_recorded_lengths() {
    let dir = tempfile::tempdir().unwrap();
    let engine = TargetSpec::Engine(EngineOptions {
        scratch: dir.path().to_owned(),
        ashift: 12,
        arc_bytes: 64 << 20,
        dirty_bytes: 128 << 20,
        device: Device::none(),
        txg_timeout_s: 5,
        tunables: BTreeMap::new(),
        clock: None,
    });
    for target in [TargetSpec::Directory(dir.path().to_owned()), engine] {
        let replay = replay(dir.path(), target);
        let ops = [("fsync", 1), ("read", 200), ("write", 1)].map(|(op, n)| (op.to_owned(), n));
        assert_eq!(replay.ops_by_kind, BTreeMap::from(ops), "{}", replay.target);
        // A read beyond the end of a file would be shorter.
        assert_eq!((replay.read_bytes, replay.written_bytes), (200 * PAGE, PAGE), "{}", replay.target);
        // The table, and the new log up to where it was cut; the old log is gone.
        assert_eq!(replay.filled_bytes, (264 + 100) * PAGE, "{}", replay.target);
        let application = replay.application.as_ref().unwrap();
        assert!(application.sleep_ns < 1000 * MS, "the sleep before the slice is left out: {application:?}");
        assert!(replay.work_rate.is_some_and(|rate| rate > 0.0));
    }
}
