//! Slices of small recordings.

use poolwright_trace::layout::Role;
use poolwright_trace::{File, Flags};

use super::*;

const NEEDED_S: f64 = 6.25;

fn event(t_ms: u64, op: Op, len: u64) -> Event {
    Event {
        t_ns: t_ms * 1_000_000,
        dur_ns: 1,
        op,
        file: 0,
        offset: 0,
        len,
        pid: 1,
        tid: 1,
        flags: Flags::default(),
        gap: None,
    }
}

/// The profile of a recording of `seconds` seconds.
fn profile(seconds: u64, mut events: Vec<Event>) -> Profile {
    events.sort_by_key(|e| e.t_ns);
    let file = File { path: "/d".into(), role: Some(Role::Data), ..File::default() };
    Profile::new(Arc::new(Trace { files: vec![file], events, ..Trace::default() }), seconds as f64)
}

/// A hundred operations in each of these seconds: three reads of a page, a write of a page and a sync, in turn.
fn work(seconds: std::ops::Range<u64>) -> Vec<Event> {
    let one = |n: u64| {
        let (op, len) =
            [(Op::Read, 4096), (Op::Read, 4096), (Op::Read, 4096), (Op::Write, 4096), (Op::Fsync, 0)]
                [n as usize % 5];
        event(n * 10, op, len)
    };
    (seconds.start * 100..seconds.end * 100).map(one).collect()
}

fn first(seconds: f64) -> Slice {
    Slice { begin_s: 0.0, seconds }
}

#[test]
fn the_distance_is_the_share_of_other_operations() {
    let ops = |all: &[(u64, Op, u64)]| {
        profile(10, all.iter().map(|(s, op, len)| event(s * 1000, *op, *len)).collect())
    };
    let same = ops(&[(0, Op::Read, 4096), (0, Op::Write, 100), (9, Op::Write, 127), (9, Op::Read, 5000)]);
    assert!(same.distance(&first(5.0)) < 1e-9);
    let half = ops(&[(0, Op::Read, 4096), (9, Op::Write, 4096)]);
    assert!((half.distance(&first(5.0)) - 0.5).abs() < 1e-9);
    let later = ops(&[(9, Op::Read, 4096)]);
    assert_eq!((later.distance(&first(5.0)), later.distance(&first(20.0))), (1.0, 0.0));
    assert_eq!(later.distance(&Slice { begin_s: 8.0, seconds: 2.0 }), 0.0);
    assert_eq!(ops(&[]).distance(&first(5.0)), 0.0);
}

#[test]
fn a_uniform_recording_is_replayed_from_its_start() {
    let uniform = profile(60, work(0..60));
    assert_eq!(uniform.begin(NEEDED_S), 0.0);
    assert!((uniform.written(&first(NEEDED_S)) - 1.0).abs() < 0.05);
    assert_eq!(profile(4, work(0..4)).begin(NEEDED_S), 0.0, "also if it is short");
    assert_eq!(profile(60, Vec::new()).begin(NEEDED_S), 0.0, "also if it is empty");
    // A load that comes and goes is idle everywhere for the same share of the time.
    let periodic = (0..30).flat_map(|n| work(2 * n..2 * n + 1)).collect();
    assert_eq!(profile(60, periodic).begin(NEEDED_S), 0.0);
}

#[test]
fn a_recording_that_begins_idle_is_replayed_from_its_first_busy_second() {
    let idle = profile(60, work(30..60));
    assert_eq!(idle.begin(NEEDED_S), 30.0);
    let slice = Slice { begin_s: 30.0, seconds: NEEDED_S };
    assert!((idle.written(&slice) - 1.0).abs() < 0.05, "idle time does not count");
    assert!(idle.late_begin(30.0).unwrap().contains("begin at 30 s") && idle.late_begin(0.0).is_none());
    // The start of the application, and a heartbeat.
    let mut events = work(30..60);
    events.extend((0..200).map(|n| event(n, Op::Read, 65536)));
    events.extend((0..60).map(|n| event(n * 1000, Op::Write, 4096)));
    let started = profile(60, events);
    assert_eq!(started.begin(NEEDED_S), 30.0);
    assert!(
        started.late_begin(30.0).unwrap().contains("7.1 % of its operations"),
        "{:?}",
        started.late_begin(30.0)
    );
    // Work that is shorter than a slice is replayed whole.
    assert_eq!(profile(33, work(30..33)).begin(NEEDED_S), 30.0);
}

#[test]
fn a_slice_has_its_share_of_a_burst() {
    // Half of the bytes are written in two seconds of forty.
    let mut events = work(0..40);
    events.extend((20_000..22_000).step_by(20).map(|t_ms| event(t_ms, Op::Write, 32_768)));
    let burst = profile(40, events);
    let begin = burst.begin(NEEDED_S);
    let slice = Slice { begin_s: begin, seconds: NEEDED_S };
    assert!((14.0..22.0).contains(&begin), "{begin}");
    assert!(burst.written(&first(NEEDED_S)) < 0.55 && burst.written(&slice) > 0.8, "{begin}");
    assert!((burst.written(&first(40.0)) - 1.0).abs() < 1e-9);
}
