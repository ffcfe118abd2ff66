//! A recording with too small a buffer reports its lost events, and nothing remains in the kernel afterwards.

mod common;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

use common::{Live, ops_on, python, scratch};
use libbpf_rs::query::ProgInfoIter;
use poolwright_record::{Options, Subject};
use poolwright_trace::Op;

#[test]
fn lost_events_are_counted() {
    const WRITES: u64 = 100_000;
    let scratch = scratch();
    let dir = scratch.path().join("db");
    std::fs::create_dir(&dir).unwrap();
    let mut options = Options::new(scratch.path().join("t.parquet"));
    options.ring_bytes = 1 << 16; // room for 819 events
    let held = Arc::new(Mutex::new(()));
    let Some(live) = Live::start_held(Subject::Dir(dir.clone()), options, Arc::clone(&held)) else { return };
    let write = |name: &str| {
        let open = format!("import os\nfd = os.open('{name}', 65)\n");
        python(&dir, &(open + &format!("for i in range({WRITES}): os.pwrite(fd, b'x', i)")));
    };
    // First the buffer is not read, then it is read while events arrive at full speed.
    let nobody = held.lock().unwrap();
    write("f");
    drop(nobody);
    write("g");
    let (summary, trace) = live.finish();
    let written = trace.events.iter().filter(|e| e.op == Op::Write).count() as u64;
    assert!(summary.meta.lost_events >= WRITES - 2000, "{} events were lost", summary.meta.lost_events);
    // The open is the only other event on a file.
    let others = trace.events.len() as u64 - written;
    assert!(others <= 2);
    assert_eq!(written + others + summary.meta.lost_events, 2 * (WRITES + 1));
    assert_eq!(trace.meta.lost_events, summary.meta.lost_events);
}

/// Returns the programs to which this process holds descriptors.
fn own_programs() -> HashSet<u32> {
    let entries = std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
    let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.path()).ok());
    let id = |text: String| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok());
    texts.filter_map(id).collect()
}

#[test]
fn nothing_stays_in_the_kernel() {
    let scratch = scratch();
    let out = scratch.path().join("t.parquet");
    let Some(live) = Live::start(Subject::Dir(scratch.path().to_owned()), &out) else { return };
    let ours = own_programs();
    assert!(ours.len() >= 2, "entry and exit of system calls at least: {ours:?}");
    live.stop();
    // The kernel frees programs shortly after the last descriptor is closed, and the other test of this file may be
    // recording.
    let deadline = Instant::now() + Duration::from_secs(300);
    while ProgInfoIter::default().any(|info| ours.contains(&info.id)) {
        assert!(Instant::now() < deadline, "programs are left: {ours:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn recorders_that_start_together_follow_their_own_directories() {
    const FILES: usize = 3000; // announcing them takes long enough for the two to overlap
    let together = Barrier::new(2);
    let record = |name: &str| {
        let scratch = scratch();
        let dir = scratch.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        for number in 0..FILES {
            std::fs::write(dir.join(format!("{name}-{number}")), b"x").unwrap();
        }
        together.wait();
        let out = scratch.path().join("t.parquet");
        let Some(live) = Live::start(Subject::Dir(dir.clone()), &out) else { return };
        together.wait();
        python(&dir, &format!("open('{name}-1', 'r+b', buffering=0).write(b'y')"));
        together.wait();
        let (_, trace) = live.finish();
        let foreign = trace.files.iter().filter(|file| !Path::new(&file.path).starts_with(&dir)).count();
        assert_eq!(foreign, 0, "{name} follows files of the other recorder");
        assert_eq!(
            ops_on(&trace, &format!("{name}-1")).iter().filter(|(op, ..)| *op == Op::Write).count(),
            1
        );
    };
    std::thread::scope(|scope| {
        scope.spawn(|| record("a"));
        scope.spawn(|| record("b"));
    });
}
