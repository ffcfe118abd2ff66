//! What threads do between the steps of a schedule: they compute, sleep, and wait for each other.

use std::time::Duration;

use crate::contested::Contested;

/// A thread that polls a lock is late by at most this many times what it was in the recording.
const MOST_LATE: f64 = 1.5;

/// "The first `done` steps of lane `lane` are finished."
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// Which lane.
    pub lane: u32,
    /// How many of its steps.
    pub done: u32,
}

/// What a thread does before a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Think {
    /// CPU time used right after the thread's previous step, in nanoseconds.
    pub cpu_before_ns: u64,
    /// Time slept after that, in nanoseconds.
    pub sleep_before_ns: u64,
    /// The step of another thread whose end it then waits for.
    pub wake: Option<Dependency>,
    /// CPU time used after that, in nanoseconds.
    pub cpu_ns: u64,
    /// Time slept after that, in nanoseconds.
    pub sleep_ns: u64,
    /// How a lock that `wake` gives up is polled.
    pub polled: Option<Polled>,
    /// Begins when the foreground has done so many steps; 0 for a step that only waits for its own thread.
    pub after_work: u32,
}

/// A wait for a lock that the thread tries to get now and then. It is late by a share of the time that it waited: its
/// intervals grow with that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Polled {
    /// From the first refusal to the lock's being given up, in nanoseconds of the recording.
    pub waited_ns: u64,
    /// From there to the try that got it.
    pub late_ns: u64,
    /// From the holder's last operation to its giving up the lock.
    pub held_ns: u64,
}

impl Polled {
    /// How late the thread is after it has waited for `waited` for the holder's last operation, in nanoseconds: not more than
    /// it was in the recording and half of that.
    pub fn late_after(&self, waited: Duration) -> u64 {
        let waited = waited.as_nanos() as f64 + self.held_ns as f64;
        let share = waited / self.waited_ns.max(1) as f64;
        (self.late_ns as f64 * share.min(MOST_LATE)) as u64
    }
}

/// What makes a schedule an application's.
#[derive(Debug, Default)]
pub struct Application {
    /// By lane and step.
    pub thinks: Vec<Vec<Think>>,
    /// By lane.
    pub foreground: Vec<bool>,
    /// Recorded start times of the foreground's steps, sorted: the recorded time that so much work took.
    pub work: Vec<u64>,
    /// By lane, the recorded process that its locks belong to.
    pub processes: Vec<u32>,
    /// The file locks that the steps [`Op::Lock`](poolwright_trace::Op::Lock) and [`Op::Unlock`](poolwright_trace::Op::Unlock) take and give up.
    pub contested: Contested,
    /// CPU time of other processes that is used beside the work, in proportion to it, in nanoseconds.
    pub beside_ns: u64,
    /// What was inferred.
    pub inferred: Inferred,
}

/// What was read from the recording, in figures.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Inferred {
    /// Threads whose operations are the work.
    pub foreground_threads: u32,
    /// The others.
    pub background_threads: u32,
    /// Operations of the foreground.
    pub foreground_ops: u64,
    /// Operations of the background.
    pub background_ops: u64,
    /// Operations that began after another thread's operation had ended and that thread had woken theirs.
    pub wakes: u64,
    /// Waits for another process's file lock, which the thread polled.
    #[serde(default)]
    pub lock_waits: u64,
    /// Operations before which it is not known what their thread did.
    pub unknown_gaps: u64,
    /// CPU time of the foreground between its operations, in nanoseconds.
    pub cpu_ns: u64,
    /// Time that the foreground slept for other processes and timers, in nanoseconds.
    pub sleep_ns: u64,
    /// CPU time of other processes that is used in place of such sleep, in nanoseconds.
    pub others_cpu_ns: u64,
}
