//! An application's replay follows only the recorded wakeups: if one thread is delayed, the threads that it woke in the
//! recording are late too, and the others continue.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use poolwright_replay::application::Others;
use poolwright_replay::capture::Options;
use poolwright_replay::{Capture, Counters, Directory, Pace, Result, Schedule, SourceFiles, Target, drive};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Gap, Op, Trace};

const WRITES: u32 = 30;
const PAGE: u64 = 4096;
const MS: u64 = 1_000_000;
/// Long enough for any machine; a replay that waits for the wrong thread takes all of it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Thread 1 writes file 0 and wakes thread 2 each time, which then writes file 1; thread 3 writes file 2 by itself.
fn trace(dir: &std::path::Path) -> Trace {
    let write = |t_ms: u64, tid: u32, n: u32, gap: Option<Gap>| Event {
        t_ns: t_ms * MS,
        dur_ns: MS,
        op: Op::Write,
        file: tid - 1,
        offset: u64::from(n) * PAGE,
        len: PAGE,
        pid: 1,
        tid,
        flags: Flags::default(),
        gap: gap.filter(|_| n > 0),
    };
    let computes = Gap { cpu_ns: MS / 10, ..Gap::default() };
    let woken = Gap { cpu_ns: MS / 10, wake_ns: MS as u32 / 2, waker: 1, ..Gap::default() };
    let mut events = Vec::new();
    for n in 0..WRITES {
        let t = u64::from(n) * 4;
        events.push(write(t, 1, n, Some(computes)));
        events.push(write(t, 3, n, Some(computes)));
        events.push(write(t + 2, 2, n, Some(woken)));
    }
    let file = |n: u32| {
        let path = dir.join(format!("file{n}"));
        std::fs::write(&path, vec![n as u8 + 1; (u64::from(WRITES) * PAGE) as usize]).unwrap();
        File {
            path: path.display().to_string(),
            size: u64::from(WRITES) * PAGE,
            role: Some(Role::Data),
            ..File::default()
        }
    };
    Trace { files: (0..3).map(file).collect(), events, ..Trace::default() }
}

/// A directory in which the last write of file 0 ends only after all writes of file 2.
struct Delayed {
    directory: Directory,
    /// Writes of each file that have ended.
    ended: Mutex<[u32; 3]>,
    changed: Condvar,
    /// Writes of file 1 that began before the write of file 0 that woke their thread had ended.
    early: AtomicU32,
    timed_out: AtomicU32,
}

impl Target for Delayed {
    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()> {
        let n = (offset / PAGE) as u32;
        let mut ended = self.ended.lock().unwrap();
        if file == 1 && n > 0 && ended[0] <= n {
            self.early.fetch_add(1, Ordering::Relaxed);
        }
        if file == 0 && n == WRITES - 1 {
            let unwritten = |ended: &mut [u32; 3]| ended[2] < WRITES;
            let (guard, waited) = self.changed.wait_timeout_while(ended, PATIENCE, unwritten).unwrap();
            self.timed_out.fetch_add(u32::from(waited.timed_out()), Ordering::Relaxed);
            ended = guard;
        }
        drop(ended);
        self.directory.write(file, offset, buf, sync, direct)?;
        self.ended.lock().unwrap()[file as usize] += 1;
        self.changed.notify_all();
        Ok(())
    }

    fn create(&self, file: u32) -> Result<()> {
        self.directory.create(file)
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize> {
        self.directory.read(file, offset, buf, direct)
    }

    fn sync(&self, file: u32) -> Result<()> {
        self.directory.sync(file)
    }

    fn truncate(&self, file: u32, size: u64) -> Result<()> {
        self.directory.truncate(file, size)
    }

    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()> {
        self.directory.punch(file, offset, len)
    }

    fn unlink(&self, file: u32) -> Result<()> {
        self.directory.unlink(file)
    }

    fn start_txg(&self) -> Result<()> {
        self.directory.start_txg()
    }

    fn settle(&self) -> Result<()> {
        self.directory.settle()
    }

    fn counters(&self) -> Result<Counters> {
        self.directory.counters()
    }

    fn logical_bytes(&self) -> Result<u64> {
        self.directory.logical_bytes()
    }

    fn allocated_bytes(&self) -> Result<u64> {
        self.directory.allocated_bytes()
    }
}

#[test]
fn a_delayed_thread_delays_those_that_it_woke_and_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let trace = trace(dir.path());
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 1, roles: vec![] };
    let capture =
        Capture::take(&trace, &options, &SourceFiles::at_recorded_paths(&trace), &dir.path().join("capture"))
            .unwrap();
    let schedule = Schedule::of_application(&trace, Others::default(), &|_| true);
    let inferred = schedule.application.as_ref().unwrap().inferred.clone();
    assert_eq!(inferred.wakes, u64::from(WRITES) - 1, "{inferred:?}");
    assert_eq!((inferred.foreground_threads, inferred.background_threads), (2, 1), "{inferred:?}");
    let target = Delayed {
        directory: Directory::create(dir.path(), trace.files.len()).unwrap(),
        ended: Mutex::default(),
        changed: Condvar::new(),
        early: AtomicU32::new(0),
        timed_out: AtomicU32::new(0),
    };
    let pace = Pace::Application { warm_share: 0.2, call_ns: 0, longest: None, servers: None };
    let pass = drive(&schedule, &capture, &target, pace, 0, &|| false).unwrap();
    assert_eq!(pass.ops["write"], 3 * u64::from(WRITES));
    assert_eq!(target.timed_out.into_inner(), 0, "a thread waited that no thread had woken in the recording");
    assert_eq!(target.early.into_inner(), 0, "a thread did not wait for the one that woke it");
    let work = pass.work.unwrap();
    assert!(work.seconds > 0.0 && work.recorded_seconds > 0.0, "{work:?}");
}

/// A background thread that the foreground wakes after longer than it may be ahead: it waits for the foreground meanwhile, and
/// is not behind.
#[test]
fn a_background_thread_that_waits_does_not_hold_the_foreground_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let write = |t_ns: u64, dur_ns: u64, tid: u32, flags: Flags, gap: Option<Gap>| Event {
        t_ns,
        dur_ns,
        op: Op::Write,
        file: 0,
        offset: 0,
        len: PAGE,
        pid: 1,
        tid,
        flags,
        gap,
    };
    let computes = Gap { cpu_ns: MS / 10, ..Gap::default() };
    let mut events: Vec<Event> = (0..400)
        .map(|n| write(n * 10 * MS, 9 * MS, 1, Flags::default(), Some(computes).filter(|_| n > 0)))
        .collect();
    let woken = Gap { wake_ns: MS as u32 / 2, waker: 1, ..Gap::default() };
    events.push(write(MS, MS, 2, Flags::default(), None));
    // The foreground's write of 3000 ms ends at 3009 ms.
    events.push(write(3009 * MS + MS / 2, MS, 2, Flags::default(), Some(woken)));
    events.sort_by_key(|e| e.t_ns);
    let file =
        File { path: path.display().to_string(), size: 1 << 20, role: Some(Role::Data), ..File::default() };
    let trace = Trace { files: vec![file], events, ..Trace::default() };
    let options = Options { region: 1 << 20, max_bytes: 1 << 30, side_by_side: 1, seed: 1, roles: vec![] };
    let capture =
        Capture::take(&trace, &options, &SourceFiles::at_recorded_paths(&trace), &dir.path().join("capture"))
            .unwrap();
    let schedule = Schedule::of_application(&trace, Others::default(), &|_| true);
    assert_eq!(schedule.application.as_ref().unwrap().foreground, [true, false]);
    assert_eq!(schedule.application.as_ref().unwrap().inferred.wakes, 1);
    let target = Directory::create(dir.path(), 1).unwrap();
    let pace = Pace::Application { warm_share: 0.2, call_ns: 0, longest: None, servers: Some(1) };
    let began = std::time::Instant::now();
    let pass = drive(&schedule, &capture, &target, pace, 0, &|| began.elapsed() > PATIENCE).unwrap();
    assert_eq!(pass.ops["write"], 402);
}
