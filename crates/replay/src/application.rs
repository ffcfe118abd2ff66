//! From a trace to the application that made it: what each thread does between its operations, whom it waits for, and
//! which threads' progress is the work.
//!
//! A trace whose events carry a [`Gap`] says how long a thread computed before an operation, how long it waited for a CPU
//! and who woke it from its last sleep. From this each step gets a [`Think`]: CPU time to use, time to sleep, and the step
//! of another thread whose end the sleep waited for. Time that a thread waited for a CPU is left out: the replay has the
//! same contention, so it appears again by itself. Nothing else orders the threads but the lives of files ([`lifetime`]): a
//! dependency that is not seen in the recording is not assumed.
//!
//! Threads are *foreground* or *background*. A foreground thread runs in a closed loop: its next operation begins when the
//! previous one has ended and the recorded think time has passed. Work is counted in foreground operations. A background
//! thread (a checkpointer, a page cleaner) mostly waits for a timer or for other threads; its operations begin when the
//! foreground has done the work that it had done at that point of the recording, so that a slower foreground also makes
//! fewer of them. The foreground waits for a background thread that is more than [`AHEAD_NS`] behind.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use poolwright_trace::{Event, Flags, Gap, Trace};

use self::lifetime::Lifetimes;
use self::locks::Poll;
use crate::Schedule;
use crate::schedule::{Builder, Dependency};

/// How far the foreground may be ahead of a background operation, in recorded nanoseconds. A database bounds the same by
/// its log's size and its number of dirty pages.
pub const AHEAD_NS: u64 = 1_000_000_000;
/// A thread that sleeps for more than this share of its time is a background thread.
const BACKGROUND_SHARE: f64 = 0.5;
/// Unless another process, or a thread that does no I/O itself, wakes it before more than this share of its operations: a
/// thread that serves clients may sleep most of its time.
const SERVED_SHARE: f64 = 0.05;
/// In a trace without gaps, a thread that pauses for longer than this waits for a timer.
const LONG_PAUSE_NS: u64 = 100_000_000;
/// A thread that polls a lock is late by at most this many times what it was in the recording.
const MOST_LATE: f64 = 1.5;
/// Ends of operations kept per thread to find the one before a wakeup.
const RECENT: usize = 16;

/// What a thread does before a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Think {
    /// CPU time used right after the thread's previous step, in nanoseconds.
    pub cpu_before_ns: u64,
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
}

impl Polled {
    /// How late the thread is after it has waited for `waited`, in nanoseconds: not more than it was in the recording and
    /// half of that.
    pub fn late_after(&self, waited: Duration) -> u64 {
        let share = waited.as_nanos() as f64 / self.waited_ns.max(1) as f64;
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

/// CPU time that was used on the recorded machine beside the recorded threads, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// Used by other processes over the whole recording, in nanoseconds: a client on the same machine, for example.
    pub cpu_ns: u64,
}

/// A thread's time in the recording, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    ops: u64,
    first: u64,
    last_end: u64,
    cpu: u64,
    ready: u64,
    /// Asleep until another process or a thread without recorded operations woke it.
    served: u64,
    served_wakes: u64,
    /// Asleep until a timer, or until a thread with recorded operations.
    waiting: u64,
    /// Of gaps of which nothing is known.
    unknown: u64,
    unknown_long: u64,
    known: u64,
}

impl Usage {
    /// `polls`: the gap is a wait for a lock.
    fn take(&mut self, event: &Event, polls: bool) {
        if self.ops == 0 {
            self.first = event.t_ns;
        } else {
            let whole = event.t_ns.saturating_sub(self.last_end);
            match &event.gap {
                Some(gap) => self.take_gap(gap, whole, polls),
                None => {
                    self.unknown += whole;
                    self.unknown_long += if whole > LONG_PAUSE_NS { whole } else { 0 };
                }
            }
        }
        self.ops += 1;
        self.last_end = self.last_end.max(event.t_ns + event.dur_ns);
    }

    fn take_gap(&mut self, gap: &Gap, whole: u64, polls: bool) {
        self.known += 1;
        self.cpu += gap.cpu_ns;
        self.ready += u64::from(gap.ready_ns);
        let asleep = asleep(gap, whole);
        match gap.waker {
            0 => {}
            // A thread that waits for a lock has work to do.
            _ if polls => {}
            Gap::OTHER => {
                self.served += asleep;
                self.served_wakes += 1;
            }
            _ => self.waiting += asleep,
        }
    }

    fn is_background(&self) -> bool {
        let span = self.last_end.saturating_sub(self.first).max(1) as f64;
        // The gaps of asynchronous operations are never known; a thread with such ones only waits between them.
        let unknown = if self.known > 0 { self.unknown } else { self.unknown_long };
        let share = (self.waiting + self.served + unknown) as f64 / span;
        let served = self.served_wakes as f64 / self.ops.max(1) as f64;
        share > BACKGROUND_SHARE && served < SERVED_SHARE
    }
}

fn asleep(gap: &Gap, whole: u64) -> u64 {
    whole.saturating_sub(gap.cpu_ns).saturating_sub(u64::from(gap.ready_ns))
}

/// The end of an operation: when, and which step it is.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: u64,
    step: Dependency,
}

/// What of a foreground thread's sleep for others is their CPU time, and what is their waiting for a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    cpu: f64,
    ready: f64,
}

struct Inference<'a> {
    /// Threads whose operations are the work.
    foreground: HashSet<u32>,
    others: Others,
    shares: Shares,
    builder: Builder,
    application: Application,
    /// By thread, the last operations that are replayed.
    ends: HashMap<u32, Vec<Ended>>,
    /// By thread, what it did before and in operations that are not replayed, to be done before its next step.
    carried: HashMap<u32, Carried>,
    lifetimes: Lifetimes,
    /// By index of the event that they come before, the sleeps of threads that poll a lock.
    polls: HashMap<usize, Poll>,
    /// Of the present event.
    index: usize,
    wanted: &'a dyn Fn(&Event) -> bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// End of the last operation, replayed or not.
    end: Option<u64>,
    cpu_ns: u64,
    sleep_ns: u64,
    wake: Option<Dependency>,
    polled: Option<Polled>,
}

impl Schedule {
    /// The application's schedule: the events for which `wanted` is true, with what their threads did between them.
    pub fn of_application(trace: &Trace, others: Others, wanted: &dyn Fn(&Event) -> bool) -> Schedule {
        let polls = locks::polls(&trace.events);
        let usage = usage(trace, &polls);
        let inference = Inference {
            foreground: foreground_of(&usage),
            others,
            shares: shares(&usage, others),
            builder: Builder::default(),
            application: Application::default(),
            ends: HashMap::new(),
            carried: HashMap::new(),
            lifetimes: Lifetimes::default(),
            polls,
            index: 0,
            wanted,
        };
        inference.run(trace)
    }
}

/// The threads whose operations are the work.
pub fn foreground_threads(trace: &Trace) -> HashSet<u32> {
    foreground_of(&usage(trace, &locks::polls(&trace.events)))
}

fn foreground_of(usage: &HashMap<u32, Usage>) -> HashSet<u32> {
    usage.iter().filter(|(_, usage)| !usage.is_background()).map(|(tid, _)| *tid).collect()
}

/// Every thread's time, over the whole trace: also of the operations that are not replayed.
fn usage(trace: &Trace, polls: &HashMap<usize, Poll>) -> HashMap<u32, Usage> {
    let mut usage: HashMap<u32, Usage> = HashMap::new();
    for (index, event) in trace.events.iter().enumerate() {
        usage.entry(event.tid).or_default().take(event, polls.contains_key(&index));
    }
    if usage.values().all(Usage::is_background) {
        // Without a foreground there would be no progress to measure.
        for thread in usage.values_mut() {
            (thread.waiting, thread.served, thread.unknown, thread.unknown_long) = (0, 0, 0, 0);
        }
    }
    usage
}

fn shares(usage: &HashMap<u32, Usage>, others: Others) -> Shares {
    let foreground = || usage.values().filter(|u| !u.is_background());
    let served: u64 = foreground().map(|u| u.served).sum();
    if served == 0 {
        return Shares::default();
    }
    // A client's thread waits for a CPU as often as the application's own: what is left of a sleep is CPU time.
    let (cpu, ready) = foreground().fold((0, 0), |(c, r), u| (c + u.cpu, r + u.ready));
    let waiting = if cpu == 0 { 0.0 } else { ready as f64 / cpu as f64 };
    let share = (others.cpu_ns as f64 / served as f64).min(1.0 / (1.0 + waiting));
    Shares { cpu: share, ready: share * waiting }
}

impl Inference<'_> {
    fn run(mut self, trace: &Trace) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.start_ns = u64::MAX;
        let mut end = 0;
        for (index, event) in trace.events.iter().enumerate() {
            self.index = index;
            let wanted = (self.wanted)(event);
            let Some(op) = crate::schedule::replayed(event).filter(|_| wanted) else {
                if wanted {
                    *schedule.skipped.entry(event.op.name().to_owned()).or_default() += 1;
                }
                self.skip(event);
                continue;
            };
            schedule.start_ns = schedule.start_ns.min(event.t_ns);
            end = end.max(event.t_ns + event.dur_ns);
            self.add(&Event { op, ..*event }, schedule.start_ns);
        }
        self.count_threads();
        let seconds = trace.meta.duration_ns.max(1) as f64;
        let replayed = end.saturating_sub(schedule.start_ns) as f64;
        let others = (self.others.cpu_ns as f64 * (replayed / seconds).min(1.0)) as u64;
        self.application.beside_ns = others.saturating_sub(self.application.inferred.others_cpu_ns);
        schedule.start_ns = schedule.start_ns.min(end);
        schedule.duration_ns = end - schedule.start_ns;
        self.builder.finish(&mut schedule);
        schedule.application = Some(self.application);
        schedule
    }

    fn count_threads(&mut self) {
        let foreground = self.ends.keys().filter(|tid| self.foreground.contains(tid)).count() as u32;
        let inferred = &mut self.application.inferred;
        inferred.foreground_threads = foreground;
        inferred.background_threads = self.ends.len() as u32 - foreground;
    }

    /// An operation that is not replayed: what its thread did before it is kept for the next step.
    fn skip(&mut self, event: &Event) {
        let foreground = self.foreground.contains(&event.tid);
        let think = self.think(event, foreground);
        let carried = self.carried.entry(event.tid).or_default();
        carried.end = carried.end.max(Some(event.t_ns + event.dur_ns));
        carried.cpu_ns += think.cpu_before_ns + think.cpu_ns;
        carried.sleep_ns += if foreground { think.sleep_ns } else { 0 };
        if think.wake.is_some() {
            (carried.wake, carried.polled) = (think.wake, think.polled);
        }
    }

    fn add(&mut self, event: &Event, start: u64) {
        let lane = self.builder.place(event);
        let foreground = self.foreground.contains(&event.tid);
        while self.application.thinks.len() <= lane as usize {
            self.application.thinks.push(Vec::new());
            self.application.foreground.push(foreground);
        }
        let mut before = self.builder.same_thread_before(event, lane);
        self.lifetimes.before(event, lane, &mut before);
        let mut think = self.think(event, foreground);
        let carried = self.carried.entry(event.tid).or_default();
        if think.wake.is_none() {
            (think.wake, think.polled) = (carried.wake, carried.polled);
        }
        (carried.wake, carried.polled) = (None, None);
        let first = !self.ends.contains_key(&event.tid);
        if (first && event.t_ns > start) || (!foreground && think.wake.is_none()) {
            think.after_work = self.application.work.len() as u32;
            if !foreground {
                think.sleep_ns = 0;
            }
        }
        let carried = self.carried.entry(event.tid).or_default();
        think.cpu_before_ns += std::mem::take(&mut carried.cpu_ns);
        think.sleep_ns += std::mem::take(&mut carried.sleep_ns);
        carried.end = carried.end.max(Some(event.t_ns + event.dur_ns));
        let inferred = &mut self.application.inferred;
        if foreground {
            inferred.foreground_ops += 1;
            inferred.cpu_ns += think.cpu_ns + think.cpu_before_ns;
            inferred.sleep_ns += think.sleep_ns;
            self.application.work.push(event.t_ns);
        } else {
            inferred.background_ops += 1;
        }
        inferred.wakes += u64::from(think.wake.is_some());
        inferred.lock_waits += u64::from(think.polled.is_some());
        inferred.unknown_gaps += u64::from(event.gap.is_none());
        self.application.thinks[lane as usize].push(think);
        let done = self.builder.push(lane, event, &before);
        self.lifetimes.add(event, Dependency { lane, done });
        let ends = self.ends.entry(event.tid).or_default();
        if ends.len() == RECENT {
            ends.remove(0);
        }
        ends.push(Ended { at: event.t_ns + event.dur_ns, step: Dependency { lane, done } });
    }

    /// What the thread of `event` does between its latest operation that had ended and `event`.
    fn think(&mut self, event: &Event, foreground: bool) -> Think {
        let Some(previous) = self.previous_end(event) else { return Think::default() };
        let whole = event.t_ns - previous;
        let asynchronous = event.flags.contains(Flags::AIO) || event.flags.contains(Flags::URING);
        let Some(gap) = event.gap.filter(|_| !asynchronous) else {
            return Think { sleep_ns: whole, ..Think::default() };
        };
        let cpu = gap.cpu_ns.min(whole);
        let ready = u64::from(gap.ready_ns).min(whole - cpu);
        let asleep = whole - cpu - ready;
        if let Some(poll) = self.polls.get(&self.index) {
            return self.polling(*poll, event, cpu, previous);
        }
        match gap.waker {
            0 => Think { cpu_ns: cpu, ..Think::default() },
            Gap::OTHER if foreground => {
                let others = (asleep as f64 * self.shares.cpu) as u64;
                let ready = (asleep as f64 * self.shares.ready) as u64;
                self.application.inferred.others_cpu_ns += others;
                Think { cpu_ns: cpu + others, sleep_ns: asleep - others - ready, ..Think::default() }
            }
            Gap::OTHER | Gap::TIMER => Think { cpu_ns: cpu, sleep_ns: asleep, ..Think::default() },
            waker => self.woken(event, &gap, waker, previous).unwrap_or(Think {
                cpu_ns: cpu,
                sleep_ns: asleep,
                ..Think::default()
            }),
        }
    }

    /// End of the latest operation of the event's thread that had ended when the event began.
    fn previous_end(&self, event: &Event) -> Option<u64> {
        let ends = self.ends.get(&event.tid).into_iter().flatten().map(|e| e.at);
        let skipped = self.carried.get(&event.tid).and_then(|c| c.end);
        ends.chain(skipped).filter(|at| *at <= event.t_ns).max()
    }

    /// A sleep between two tries to get a lock: it lasts until the lock is free, and as much longer as the next try is late.
    fn polling(&self, poll: Poll, event: &Event, cpu: u64, previous: u64) -> Think {
        let think = Think { cpu_before_ns: cpu, ..Think::default() };
        let Poll::Granted { by, at_ns, since_ns } = poll else { return think };
        let ends = self.ends.get(&by).into_iter().flatten();
        let last = ends.filter(|e| e.at <= at_ns).max_by_key(|e| e.at);
        let polled = Polled {
            waited_ns: at_ns.saturating_sub(since_ns).max(1),
            late_ns: event.t_ns.saturating_sub(at_ns),
        };
        // Between its last operation and giving up the lock the other thread only computed.
        let sleep_ns = at_ns.saturating_sub(last.map_or(at_ns, |e| e.at).max(previous));
        Think { wake: last.map(|e| e.step), sleep_ns, polled: last.map(|_| polled), ..think }
    }

    /// A sleep that another thread ended: it lasts from that thread's last operation before the wakeup, if that ended later
    /// than the sleeper's own last one. Otherwise the waker did no operation meanwhile.
    fn woken(&self, event: &Event, gap: &Gap, waker: u32, previous: u64) -> Option<Think> {
        let woken = event.t_ns.saturating_sub(u64::from(gap.wake_ns));
        let last = self.ends.get(&waker)?.iter().filter(|e| e.at <= woken).max_by_key(|e| e.at)?;
        if last.at <= previous {
            return None;
        }
        let after = event.t_ns - last.at;
        let cpu = gap.cpu_ns.min(u64::from(gap.wake_ns));
        let ready = u64::from(gap.ready_ns).min(u64::from(gap.wake_ns) - cpu);
        Some(Think {
            cpu_before_ns: gap.cpu_ns - cpu,
            wake: Some(last.step),
            cpu_ns: cpu,
            sleep_ns: after.saturating_sub(cpu + ready),
            ..Think::default()
        })
    }
}

mod lifetime;
mod locks;
#[cfg(test)]
mod tests;
