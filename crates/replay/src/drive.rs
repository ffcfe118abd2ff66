//! Runs a schedule on a target and times each operation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use poolwright_openzfs::clock::{Event, Threads, Time};
use poolwright_trace::{Flags, Op};

use crate::lock_range::LockRange;
use crate::pacer::{Due, Pacer};
use crate::schedule::{Dependency, Step};
use crate::servers::Servers;
use crate::thread_time::{sleep_precisely, sleep_until};
use crate::{Capture, Error, Result, Schedule, Target};

/// The pace of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each operation begins as soon as its dependencies are done.
    AsFastAsPossible,
    /// Operations begin at their recorded times, sped up by this factor. Latency counts from the intended start.
    Recorded(f64),
    /// Operations begin as the application would issue them: after the recorded think times and wakeups. Requires a
    /// schedule from [`Schedule::of_application`].
    Application {
        /// Share of the work done before the measurement begins, 0 to 0.9.
        warm_share: f64,
        /// CPU time of a call that this target does not make, in nanoseconds.
        call_ns: u64,
        /// Ends the pass after this time, even if work is left. Warming up takes at most a quarter of it.
        longest: Option<Duration>,
        /// The number of threads that serve the calls on each role's files; `None`: each thread serves its own calls.
        servers: Option<u32>,
    },
}

/// The measurements of one pass over a schedule.
#[derive(Debug)]
pub struct Pass {
    /// Duration in seconds of the target's clock.
    pub seconds: f64,
    /// The number of operations, by name.
    pub ops: BTreeMap<String, u64>,
    /// Latency in nanoseconds, by name.
    pub latency: BTreeMap<String, Histogram<u64>>,
    /// Requested bytes to read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Of the bytes written, those that the real file has at that offset.
    pub written_real: u64,
    /// How many times the recorded clock passed a txg timeout.
    pub started_txgs: u64,
    /// The largest delay behind the recorded time in nanoseconds; 0 unless paced.
    pub max_lag_ns: u64,
    /// The work of an application's replay.
    pub work: Option<Work>,
}

/// The work of an application's replay.
#[derive(Debug)]
pub struct Work {
    /// Duration of the measurement in seconds.
    pub seconds: f64,
    /// Time that the same work took in the recording, in seconds.
    pub recorded_seconds: f64,
    /// Share of the work that was done: 1 unless a time limit ended the pass.
    pub share: f64,
    /// CPU time that the replay used to imitate the application, over the whole pass, in seconds.
    pub cpu_seconds: f64,
    /// Latency of background operations in nanoseconds, by name; [`Pass::latency`] covers foreground operations.
    pub background: BTreeMap<String, Histogram<u64>>,
}

/// How often dirty data is sent to disk, in nanoseconds of recorded time: OpenZFS's default `zfs_txg_timeout` of 5 s.
/// In real time, a replay ten times as fast as the recording would gather ten times as many overwrites in one
/// transaction group.
const DEFAULT_TXG_NS: u64 = 5_000_000_000;

/// The maximum length of one read or write in bytes, and the size of a lane's buffer. A longer one is split.
const LONGEST: u64 = 4 << 20;

/// How often a waiting thread checks whether the pass has been stopped.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A lane's progress, and the threads that wait for it.
#[derive(Default)]
struct Progress {
    done: AtomicU32,
    moved: Event,
}

impl Progress {
    fn finish(&self, done: u32) {
        self.done.store(done, Ordering::SeqCst);
        self.moved.notify();
    }

    fn wait(&self, done: u32, stop: &AtomicBool) {
        let is_done = || self.done.load(Ordering::SeqCst) >= done;
        // Often, the other lane is about to finish, and a sleep would take longer.
        for _ in 0..32 {
            if is_done() {
                return;
            }
            std::hint::spin_loop();
        }
        while !is_done() && !stop.load(Ordering::Relaxed) {
            self.moved.wait(CHECK_EVERY, is_done);
        }
    }
}

struct Run<'a> {
    schedule: &'a Schedule,
    capture: &'a Capture,
    target: &'a dyn Target,
    pace: Pace,
    start: Time,
    progress: Vec<Progress>,
    stop: AtomicBool,
    next_txg: AtomicU64,
    txg_ns: u64,
    started_txgs: AtomicU64,
    pacer: Option<Pacer<'a>>,
    servers: Option<Servers>,
}

/// The measurements of one lane, merged into a [`Pass`].
#[derive(Default)]
struct LaneResult {
    foreground: bool,
    ops: BTreeMap<Op, u64>,
    latency: BTreeMap<&'static str, Histogram<u64>>,
    read_bytes: u64,
    written_bytes: u64,
    written_real: u64,
    max_lag_ns: u64,
}

/// Runs the whole schedule once. It calls `interrupted` about twenty times a second. `txg_timeout_s` is in seconds of
/// recorded time; 0 selects the default of 5.
///
/// # Errors
///
/// Returns an error if an operation fails, if a thread cannot be started, if `interrupted` returns true, or if the
/// schedule does not fit the pace.
pub fn drive(
    schedule: &Schedule,
    capture: &Capture,
    target: &dyn Target,
    pace: Pace,
    txg_timeout_s: u32,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Pass> {
    let txg_ns = if txg_timeout_s == 0 { DEFAULT_TXG_NS } else { u64::from(txg_timeout_s) * 1_000_000_000 };
    let run = Run {
        schedule,
        capture,
        target,
        pace,
        start: Time::now(),
        progress: schedule.lanes.iter().map(|_| Progress::default()).collect(),
        stop: AtomicBool::new(false),
        next_txg: AtomicU64::new(schedule.start_ns + txg_ns),
        txg_ns,
        started_txgs: AtomicU64::new(0),
        pacer: pacer(schedule, pace)?,
        servers: match pace {
            Pace::Application { servers, .. } => servers.map(|threads| Servers::new(&capture.roles, threads)),
            Pace::AsFastAsPossible | Pace::Recorded(_) => None,
        },
    };
    let lanes = run.lanes(longest(pace), interrupted);
    let seconds = run.start.elapsed().as_secs_f64();
    if interrupted() {
        return Err(Error::Interrupted);
    }
    let mut pass = gather(lanes.into_iter().collect::<Result<Vec<_>>>()?, seconds);
    pass.started_txgs = run.started_txgs.into_inner();
    if let (Some(pacer), Some(work)) = (&run.pacer, &mut pass.work) {
        pacer.end_measurement();
        work.cpu_seconds = pacer.burned_ns() as f64 / 1e9;
        work.share = pacer.share();
        (work.seconds, work.recorded_seconds) = pacer.measured().ok_or_else(|| {
            Error::Nothing("too little of the application is left to replay: its work takes no time".into())
        })?;
    } else {
        pass.work = None;
    }
    Ok(pass)
}

fn pacer(schedule: &Schedule, pace: Pace) -> Result<Option<Pacer<'_>>> {
    let Pace::Application { warm_share, call_ns, longest, .. } = pace else { return Ok(None) };
    let Some(application) = &schedule.application else {
        return Err(Error::Nothing("the schedule contains no application behaviour".into()));
    };
    Ok(Some(Pacer::new(application, warm_share, call_ns, longest.map(|longest| longest / 4))))
}

fn longest(pace: Pace) -> Option<Duration> {
    match pace {
        Pace::Application { longest, .. } => longest,
        Pace::AsFastAsPossible | Pace::Recorded(_) => None,
    }
}

fn gather(lanes: Vec<LaneResult>, seconds: f64) -> Pass {
    let mut pass = Pass {
        seconds,
        ops: BTreeMap::new(),
        latency: BTreeMap::new(),
        read_bytes: 0,
        written_bytes: 0,
        written_real: 0,
        started_txgs: 0,
        max_lag_ns: 0,
        work: None,
    };
    let mut background = BTreeMap::new();
    for lane in lanes {
        let into = if lane.foreground { &mut pass.latency } else { &mut background };
        for (kind, histogram) in lane.latency {
            into.entry(kind.to_owned()).or_insert_with(new_histogram).add(histogram).expect("same bounds");
        }
        for (op, n) in lane.ops {
            *pass.ops.entry(op.name().to_owned()).or_default() += n;
        }
        pass.read_bytes += lane.read_bytes;
        pass.written_bytes += lane.written_bytes;
        pass.written_real += lane.written_real;
        pass.max_lag_ns = pass.max_lag_ns.max(lane.max_lag_ns);
    }
    pass.work = Some(Work { seconds: 0.0, recorded_seconds: 0.0, share: 1.0, cpu_seconds: 0.0, background });
    pass
}

fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(3_600_000_000_000, 3).expect("an hour at three digits is within bounds")
}

impl Run<'_> {
    /// Runs every lane in a thread, and returns when all have ended. `longest` limits the time.
    fn lanes(
        &self,
        longest: Option<Duration>,
        interrupted: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Result<LaneResult>> {
        let over = AtomicBool::new(false);
        let (threads, beside) = (Threads::default(), Threads::default());
        std::thread::scope(|scope| {
            let start = |lane| {
                let body = move || {
                    let result = self.lane(lane);
                    if result.is_err() {
                        self.stop.store(true, Ordering::Relaxed);
                    }
                    result
                };
                threads.spawn(scope, format!("lane{lane}"), body)
            };
            let handles: Vec<_> = (0..self.schedule.lanes.len()).map(start).collect();
            let mut all_started = handles.iter().all(std::result::Result::is_ok);
            if let Some(pacer) = &self.pacer {
                let (stop, over) = (&self.stop, &over);
                all_started &=
                    beside.spawn(scope, "beside".into(), move || pacer.run_beside(over, stop)).is_ok();
            }
            if !all_started {
                // Other lanes would wait for the steps that this lane did not finish.
                self.stop.store(true, Ordering::Relaxed);
            }
            while !threads.wait(CHECK_EVERY) {
                self.stop_in_time(longest, interrupted);
            }
            over.store(true, Ordering::Relaxed);
            beside.wait(Duration::MAX);
            let join = |h: std::io::Result<std::thread::ScopedJoinHandle<'_, Result<LaneResult>>>| match h {
                Ok(handle) => handle.join().expect("a lane does not panic"),
                Err(why) => Err(Error::Child(format!("cannot start a replay thread: {why}"))),
            };
            handles.into_iter().map(join).collect()
        })
    }

    fn stop_in_time(&self, longest: Option<Duration>, interrupted: &(dyn Fn() -> bool + Sync)) {
        let is_late = longest.is_some_and(|longest| self.start.elapsed() >= longest);
        if let Some(pacer) = self.pacer.as_ref().filter(|_| is_late) {
            pacer.end_measurement();
        }
        if is_late || interrupted() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn lane(&self, lane: usize) -> Result<LaneResult> {
        let steps = &self.schedule.lanes[lane];
        let most =
            steps.iter().filter(|s| matches!(s.op, Op::Read | Op::Write)).map(|s| s.len).max().unwrap_or(0);
        let most = most.min(LONGEST) as usize;
        let mut raw = vec![0u8; most + 4096];
        let skip = raw.as_ptr().align_offset(4096);
        let buf = &mut raw[skip..][..most];
        let foreground = self.pacer.as_ref().is_none_or(|pacer| pacer.is_foreground(lane));
        let mut result = LaneResult { foreground, ..LaneResult::default() };
        let mut due = Due::default();
        if self.pacer.is_some() {
            sleep_precisely();
        }
        for (i, step) in steps.iter().enumerate() {
            if let Some(pacer) = &self.pacer {
                pacer.begin(lane, step.t_ns);
                let think = pacer.think(lane, i);
                pacer.spend(&mut due, think.cpu_before_ns, think.sleep_before_ns, &self.stop);
                pacer.wait_for_client(lane, think, step.t_ns, &self.stop);
            }
            for dependency in self.schedule.before(step) {
                self.wait_for(*dependency);
            }
            if let Some(pacer) = &self.pacer {
                self.think(pacer, &mut due, lane, i, step.t_ns);
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            if let Some(pacer) = self.pacer.as_ref().filter(|_| matches!(step.op, Op::Lock | Op::Unlock)) {
                let range = LockRange {
                    offset: step.offset,
                    len: step.len,
                    shared: step.flags.contains(Flags::SHARED),
                };
                match step.op {
                    Op::Lock => pacer.lock(lane, step.file, range, &self.stop),
                    _ => pacer.unlock(lane, step.file, range),
                }
            } else {
                self.storage_step(step, buf, &mut result)?;
                if let Some(pacer) = self.pacer.as_ref().filter(|_| step.op != Op::Read) {
                    pacer.end_wait(lane);
                }
            }
            self.progress[lane].finish(i as u32 + 1);
            if let Some(pacer) = &self.pacer {
                pacer.finish(lane);
            }
        }
        // Other lanes must not wait for a lane that stopped early.
        self.progress[lane].finish(u32::MAX);
        if let Some(pacer) = &self.pacer {
            pacer.end(lane, steps.last().map_or(0, |step| step.t_ns));
        }
        Ok(result)
    }

    fn storage_step(&self, step: &Step, buf: &mut [u8], result: &mut LaneResult) -> Result<()> {
        let intended = self.wait_for_its_time(step);
        self.pass_txg_timeouts(step)?;
        let begin = Time::now();
        self.execute(step, buf, result)?;
        let from = intended.unwrap_or(begin).min(begin);
        result.max_lag_ns = result.max_lag_ns.max(begin.since(from).as_nanos() as u64);
        let took = from.elapsed().as_nanos() as u64;
        *result.ops.entry(step.op).or_default() += 1;
        if self.pacer.as_ref().is_none_or(Pacer::is_measuring) {
            let kind = if step.op.is_commit(step.flags) { Op::Fsync } else { step.op };
            result.latency.entry(kind.name()).or_insert_with(new_histogram).saturating_record(took.max(1));
        }
        Ok(())
    }

    /// Does what the thread does before a step, except waiting for other lanes of the same thread.
    fn think(&self, pacer: &Pacer<'_>, due: &mut Due, lane: usize, step: usize, t_ns: u64) {
        let think = pacer.think(lane, step);
        if let Some(step) = think.wake {
            self.wait_for(step);
        }
        if let Some(file) = think.sync {
            pacer.wait_for_syncs(file, &self.stop);
        }
        pacer.wait_for_progress(lane, think, t_ns, &self.stop);
        // The kernel keeps the locks of a mounted file system without calling the file system.
        let is_call = !matches!(self.schedule.lanes[lane][step].op, Op::Lock | Op::Unlock);
        let call_ns = if is_call { pacer.call_ns() } else { 0 };
        pacer.spend(due, think.cpu_ns + call_ns, think.sleep_ns, &self.stop);
    }

    /// Waits for steps of another lane.
    fn wait_for(&self, Dependency { lane, done }: Dependency) {
        let lane = lane as usize;
        let wait = || self.progress[lane].wait(done, &self.stop);
        match &self.pacer {
            Some(pacer) if self.progress[lane].done.load(Ordering::SeqCst) < done => {
                pacer.clients.while_wanted(lane, wait);
            }
            _ => wait(),
        }
    }

    fn wait_for_its_time(&self, step: &Step) -> Option<Time> {
        let Pace::Recorded(speed) = self.pace else { return None };
        let after = (step.t_ns - self.schedule.start_ns) as f64 / speed;
        let intended = self.start + Duration::from_nanos(after as u64);
        sleep_until(intended, &self.stop);
        Some(intended)
    }

    fn pass_txg_timeouts(&self, step: &Step) -> Result<()> {
        if self.pace != Pace::AsFastAsPossible {
            return Ok(()); // the engine's timer starts transaction groups
        }
        let due = self.next_txg.load(Ordering::Relaxed);
        if step.t_ns < due {
            return Ok(());
        }
        let next = due + (step.t_ns - due).div_euclid(self.txg_ns) * self.txg_ns + self.txg_ns;
        if self.next_txg.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.started_txgs.fetch_add(1, Ordering::Relaxed);
            self.target.start_txg()?;
        }
        Ok(())
    }

    fn execute(&self, step: &Step, buf: &mut [u8], result: &mut LaneResult) -> Result<()> {
        let direct = step.flags.contains(Flags::DIRECT);
        let _serving = self.servers.as_ref().map(|servers| servers.serve(step.file));
        match step.op {
            Op::Read => self.read(step, buf, direct, result),
            Op::Write => self.write(step, buf, direct, result),
            Op::Fsync | Op::Fdatasync => {
                let _under_way = self.pacer.as_ref().map(|pacer| pacer.begin_sync(step.file));
                self.target.sync(step.file)
            }
            Op::Truncate => self.target.truncate(step.file, step.offset),
            Op::Punch => self.target.punch(step.file, step.offset, step.len),
            Op::Create => self.target.create(step.file),
            Op::Unlink => self.target.unlink(step.file),
            // ZFS allocates on write; fallocate reserves nothing there.
            Op::Allocate | Op::Open | Op::Close | Op::Rename | Op::Map | Op::Lock | Op::Unlock => Ok(()),
        }
    }

    fn read(&self, step: &Step, buf: &mut [u8], direct: bool, result: &mut LaneResult) -> Result<()> {
        let mut done = 0;
        while done < step.len {
            let len = (step.len - done).min(LONGEST) as usize;
            let n = self.target.read(step.file, step.offset.saturating_add(done), &mut buf[..len], direct)?;
            done += n as u64;
            if n < len {
                break; // the end of the file
            }
        }
        result.read_bytes += done;
        Ok(())
    }

    /// Writes a step's data, in one piece unless it comes from several extents or is longer than `buf`. A synchronous
    /// write becomes durable with the last piece.
    fn write(&self, step: &Step, buf: &mut [u8], direct: bool, result: &mut LaneResult) -> Result<()> {
        let sync = step.flags.contains(Flags::SYNC);
        let mut done = 0;
        while done < step.len {
            let offset = step.offset.saturating_add(done);
            let (bytes, real) = self.capture.read(step.file, offset, step.len - done, buf)?;
            if bytes.is_empty() {
                break;
            }
            done += bytes.len() as u64;
            self.target.write(step.file, offset, bytes, sync && done == step.len, direct)?;
            result.written_bytes += bytes.len() as u64;
            result.written_real += real;
        }
        Ok(())
    }
}
