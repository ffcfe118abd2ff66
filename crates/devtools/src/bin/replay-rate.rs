//! Measures which share of the engine's bare rate a replay reaches. The same operations run on the same pool in turn: through
//! the replay (order, barriers, latencies, content from the capture), and as plain calls from as many threads.
//!
//! `replay-rate [ROUNDS]` prints one line of JSON for each round, and the medians.

use std::collections::BTreeMap;
use std::time::Instant;

use poolwright_openzfs::Device;
use poolwright_replay::capture::Options;
use poolwright_replay::{Capture, EngineOptions, EngineTarget, Pace, Schedule, SourceFiles, Target, drive};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const PAGE: u64 = 16384;
const BYTES: u64 = 128 << 20;
const THREADS: u64 = 4;
const OPS: u64 = 60_000;

/// One write per three reads at random pages, and a sync after every 200th operation.
fn workload(path: &std::path::Path) -> Trace {
    let mut x = 42u64;
    let mut random = move || {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        x >> 33
    };
    let mut events = Vec::new();
    for i in 0..OPS {
        let op = if i % 200 == 199 {
            Op::Fdatasync
        } else if random() % 4 == 0 {
            Op::Write
        } else {
            Op::Read
        };
        let offset = random() % (BYTES / PAGE) * PAGE;
        let len = if op == Op::Fdatasync { 0 } else { PAGE };
        let tid = (1 + i % THREADS) as u32;
        events.push(Event {
            t_ns: i * 100_000,
            dur_ns: 90_000,
            op,
            file: 0,
            offset,
            len,
            pid: 1,
            tid,
            flags: Flags::default(),
            gap: None,
        });
    }
    let file =
        File { path: path.display().to_string(), size: BYTES, role: Some(Role::Data), ..File::default() };
    Trace { files: vec![file], events, ..Trace::default() }
}

/// Makes the same calls without the replay's schedule.
fn bare(schedule: &Schedule, capture: &Capture, target: &EngineTarget) -> f64 {
    let began = Instant::now();
    std::thread::scope(|scope| {
        for lane in &schedule.lanes {
            scope.spawn(move || {
                let mut buf = vec![0u8; PAGE as usize];
                for step in lane {
                    match step.op {
                        Op::Read => drop(target.read(0, step.offset, &mut buf, false).expect("reads work")),
                        Op::Write => {
                            let piece = capture.read(0, step.offset, step.len, &mut buf);
                            let (bytes, _) = piece.expect("the capture can be read");
                            target.write(0, step.offset, bytes, false, false).expect("writes work");
                        }
                        _ => target.sync(0).expect("syncs work"),
                    }
                }
            });
        }
    });
    schedule.len() as f64 / began.elapsed().as_secs_f64()
}

fn text() -> String {
    let mut text = String::new();
    while text.len() < BYTES as usize {
        text.push_str(&format!(
            "{:09} customer {:05} city {:03}; ",
            text.len(),
            text.len() * 7 % 99_991,
            text.len() % 701
        ));
    }
    text
}

fn main() {
    let rounds: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(7);
    let dir = std::env::temp_dir().join(format!("poolwright-rate-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    let table = dir.join("table");
    std::fs::write(&table, &text().as_bytes()[..BYTES as usize]).expect("the table");
    let trace = workload(&table);
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 1, roles: vec![] };
    let capture =
        Capture::take(&trace, &options, &SourceFiles::at_recorded_paths(&trace), &dir.join("capture"))
            .expect("a capture");
    let schedule = Schedule::build(&trace, |_| true);
    let scratch = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { dir.clone() };
    let engine = EngineOptions {
        scratch,
        ashift: 12,
        arc_bytes: 256 << 20,
        dirty_bytes: 512 << 20,
        device: Device::none(),
        txg_timeout_s: 5,
        tunables: BTreeMap::new(),
        clock: None,
    };
    let settings =
        [("recordsize".to_string(), "16K".to_string()), ("compression".to_string(), "lz4".to_string())];
    let settings = BTreeMap::from([(Role::Data, settings.into())]);
    let target = EngineTarget::create(&engine, &trace.files, &settings, false).expect("a pool");
    capture.fill(&target, &|| false).expect("filled");
    let mut ratios = Vec::new();
    for round in 0..=rounds {
        let replayed = || {
            let pass =
                drive(&schedule, &capture, &target, Pace::AsFastAsPossible, 3600, &|| false).expect("a pass");
            target.settle().expect("settled");
            schedule.len() as f64 / pass.seconds
        };
        let plain = || {
            let rate = bare(&schedule, &capture, &target);
            target.settle().expect("settled");
            rate
        };
        let (replay, bare) = if round % 2 == 0 {
            let r = replayed();
            (r, plain())
        } else {
            let b = plain();
            (replayed(), b)
        };
        if round > 0 {
            println!(
                "{{\"replay_ops_s\":{replay:.0},\"bare_ops_s\":{bare:.0},\"ratio\":{:.3}}}",
                replay / bare
            );
            ratios.push(replay / bare);
        }
    }
    ratios.sort_by(f64::total_cmp);
    let (low, median, high) = (ratios[0], ratios[ratios.len() / 2], ratios[ratios.len() - 1]);
    println!("{{\"median_ratio\":{median:.3},\"low\":{low:.3},\"high\":{high:.3},\"rounds\":{rounds}}}");
    let _ = std::fs::remove_dir_all(&dir);
}
