//! A whole trial on both targets: counts, provenance, amplification, order.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use poolwright_openzfs::Device;
use poolwright_openzfs::clock::{Costs, VirtualClock};
use poolwright_openzfs::property::Settings;
use poolwright_replay::capture::Options;
use poolwright_replay::{Capture, EngineOptions, SourceFiles, Spec, TargetSpec, child, trial};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};

const PAGE: u64 = 16384;
const PAGES: u64 = 1024;

/// 2000 random 16K reads and writes on a 16 MiB table by two threads, a sync every tenth, over 20 recorded seconds.
fn workload(dir: &Path) -> Trace {
    let path = dir.join("table.ibd");
    let mut content = Vec::new();
    while content.len() < (PAGE * PAGES) as usize {
        content
            .extend_from_slice(format!("{:08x} customer row with words; ", content.len() * 7919).as_bytes());
    }
    content.truncate((PAGE * PAGES) as usize);
    std::fs::write(&path, &content).unwrap();
    let mut events = Vec::new();
    for i in 0..2000u64 {
        let (tid, t_ns) = (1 + (i % 2) as u32, i * 10_000_000);
        let offset = (i * 7919 % PAGES) * PAGE;
        let op = if i % 3 == 0 { Op::Write } else { Op::Read };
        let event = Event {
            t_ns,
            dur_ns: 50_000,
            op,
            file: 0,
            offset,
            len: PAGE,
            pid: 1,
            tid,
            flags: Flags::default(),
            gap: None,
        };
        events.push(event);
        if i % 10 == 9 {
            events.push(Event { t_ns: t_ns + 100_000, op: Op::Fsync, offset: 0, len: 0, ..event });
        }
    }
    let file = File {
        path: path.display().to_string(),
        size: PAGE * PAGES,
        role: Some(Role::Data),
        ..File::default()
    };
    Trace { files: vec![file], events, ..Trace::default() }
}

fn prepare(dir: &Path, target: TargetSpec) -> Spec {
    let trace = workload(dir);
    trace.save(dir.join("t.parquet")).unwrap();
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 3, roles: vec![] };
    Capture::take(&trace, &options, &SourceFiles::at_recorded_paths(&trace), &dir.join("capture")).unwrap();
    Spec {
        trace: dir.join("t.parquet"),
        capture: dir.join("capture"),
        target,
        settings: BTreeMap::new(),
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

/// The engine's counters are per process: one trial at a time.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn engine(dir: &Path) -> TargetSpec {
    TargetSpec::Engine(EngineOptions {
        scratch: dir.to_owned(),
        ashift: 12,
        arc_bytes: 64 << 20,
        dirty_bytes: 128 << 20,
        device: Device::none(),
        txg_timeout_s: 5,
        tunables: BTreeMap::new(),
        clock: None,
    })
}

fn set(spec: &mut Spec, recordsize: &str, compression: &str) {
    let settings: Settings =
        [("recordsize".into(), recordsize.into()), ("compression".into(), compression.into())].into();
    spec.settings = BTreeMap::from([(Role::Data, settings)]);
}

#[test]
fn the_engine_does_what_the_trace_did() {
    let _guard = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut spec = prepare(dir.path(), engine(dir.path()));
    set(&mut spec, "16K", "off");
    let small = trial::run(&spec, &|| false).unwrap();
    assert_eq!(
        small.ops_by_kind,
        BTreeMap::from([("fsync".into(), 200), ("read".into(), 1333), ("write".into(), 667)])
    );
    assert_eq!((small.read_bytes, small.written_bytes), (1333 * PAGE, 667 * PAGE));
    assert_eq!((small.written_real, small.sampling_rate), (1.0, 1.0));
    assert_eq!(small.txgs, 3, "a txg timeout every 5 of 20 recorded seconds");
    assert_eq!(small.filled_bytes, PAGE * PAGES);
    assert!(small.allocated_bytes >= PAGE * PAGES && small.allocated_bytes < PAGE * PAGES * 11 / 10);
    assert!(small.zil.commits >= 200 && small.cpu_seconds > 0.0);
    assert!(small.latency_ns["read"].p50 <= small.latency_ns["read"].p999);

    set(&mut spec, "16K", "lz4");
    let packed = trial::run(&spec, &|| false).unwrap();
    assert!(packed.allocated_bytes < small.allocated_bytes * 2 / 3, "text compresses");
    set(&mut spec, "1M", "off");
    let large = trial::run(&spec, &|| false).unwrap();
    let (s, l) = (small.write_amplification.unwrap(), large.write_amplification.unwrap());
    assert!(l > s, "1M records under 16K writes: {l:.2}, 16K records: {s:.2}");
}

/// A trial on this machine's clock that is bound to one CPU is slower than the database.
#[test]
fn a_trial_may_use_all_cpus() {
    let allowed =
        |status: &str| status.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap().to_owned();
    let here = allowed(&std::fs::read_to_string("/proc/self/status").unwrap());
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("program");
    std::fs::write(&program, "#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let has_all = |spec: &Spec| {
        let mut ended =
            child::run_side_by_side(&program, std::slice::from_ref(spec), dir.path(), None, &|| false);
        let message = ended.remove(0).unwrap_err().to_string();
        assert!(message.contains(&here), "{message}, not {here}");
    };
    let mut spec = prepare(dir.path(), engine(dir.path()));
    has_all(&spec);
    let TargetSpec::Engine(options) = &mut spec.target else { unreachable!("it is the engine") };
    options.clock = Some(VirtualClock::of(2, 1, Costs::reference()));
    has_all(&spec);
    spec.target = TargetSpec::Directory(dir.path().to_owned());
    has_all(&spec);
}

#[test]
fn module_parameters_apply_to_the_trial() {
    let _guard = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut spec = prepare(dir.path(), engine(dir.path()));
    set(&mut spec, "16K", "lz4");
    // The engine of this process keeps the last value, which is the default.
    for enabled in [0, 1] {
        let TargetSpec::Engine(options) = &mut spec.target else { unreachable!("it is the engine") };
        options.tunables = [("zfs_compressed_arc_enabled".to_owned(), enabled)].into();
        let arc = trial::run(&spec, &|| false).unwrap().arc;
        let is_compressed = arc.compressed_size < arc.uncompressed_size * 3 / 4;
        assert_eq!(is_compressed, enabled == 1, "{arc:?}");
    }
}

#[test]
fn paced_replays_take_the_recorded_time() {
    let _guard = ONE_AT_A_TIME.lock();
    let dir = tempfile::tempdir().unwrap();
    let mut spec = prepare(dir.path(), engine(dir.path()));
    (spec.pace, spec.first_seconds, spec.warm_passes) = (Some(4.0), Some(6.0), 0);
    // With `sync=disabled`, a sync does not wait for the device.
    spec.settings = BTreeMap::from([(Role::Data, Settings::from([("sync".into(), "disabled".into())]))]);
    // The replay at four times the recorded speed should take 1.5 s; a slow machine may take longer, but not the
    // recorded 6 s.
    let mut seen = Vec::new();
    while seen.iter().all(|seconds| *seconds > 4.0) {
        let replay = trial::run(&spec, &|| false).unwrap();
        assert!(replay.seconds > 1.4, "6 s at four times the speed took {}", replay.seconds);
        assert_eq!(replay.ops, 601 + 60);
        seen.push(replay.seconds);
        assert!(seen.len() < 10, "6 s at four times the speed took {seen:?}");
    }
}

#[test]
fn a_pass_that_warms_up_has_the_pace_of_the_measured_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = prepare(dir.path(), TargetSpec::Directory(dir.path().to_owned()));
    (spec.pace, spec.first_seconds) = (Some(6.0), Some(6.0));
    let began = std::time::Instant::now();
    let replay = trial::run(&spec, &|| false).unwrap();
    let all = began.elapsed().as_secs_f64();
    assert_eq!(replay.warm_ops, replay.ops);
    assert!(all - replay.seconds > 0.9, "6 s at six times the speed took {} s of {all} s", replay.seconds);
}

#[test]
fn a_warm_share_is_not_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = prepare(dir.path(), TargetSpec::Directory(dir.path().to_owned()));
    (spec.warm_passes, spec.warm_share) = (0, 0.25);
    let replay = trial::run(&spec, &|| false).unwrap();
    assert_eq!((replay.warm_ops, replay.ops), (550, 1650));
    spec.warm_share = 1.0;
    assert!(trial::run(&spec, &|| false).is_err());
}

#[test]
fn a_directory_is_a_baseline() {
    let dir = tempfile::tempdir().unwrap();
    let spec = prepare(dir.path(), TargetSpec::Directory(dir.path().to_owned()));
    let replay = trial::run(&spec, &|| false).unwrap();
    assert_eq!(replay.ops, 2200);
    assert!(replay.allocated_bytes >= PAGE * PAGES);
    assert!(!dir.path().join(format!("poolwright-trial-{}", std::process::id())).exists());
}

#[test]
fn nothing_to_replay_and_interruption_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let mut spec = prepare(dir.path(), TargetSpec::Directory(dir.path().to_owned()));
    spec.roles = vec![Role::Wal];
    let why = trial::run(&spec, &|| false).unwrap_err().to_string();
    assert!(why.contains("is left to replay"), "{why}");
    spec.roles.clear();
    assert_eq!(trial::run(&spec, &|| true).unwrap_err().to_string(), "interrupted");
    let empty = Trace { files: workload(dir.path()).files, ..Trace::default() };
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 3, roles: vec![] };
    assert!(
        Capture::take(&empty, &options, &SourceFiles::at_recorded_paths(&empty), &dir.path().join("empty"))
            .unwrap_err()
            .to_string()
            .contains("no read or write")
    );
}
