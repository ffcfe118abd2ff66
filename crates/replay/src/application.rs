//! Infers an application's behaviour from a trace: what each thread does between its operations, which thread it waits
//! for, and which threads' progress counts as work.
//!
//! An event's [`Gap`] records how long the thread computed before the operation, how long it waited for a CPU, and
//! which thread woke it from its last sleep. Each step's [`Think`] is derived from the gap: CPU time to use, time to
//! sleep, and the step of another thread for which the sleep waited. Time spent waiting for a CPU is left out, because
//! the replay has the same contention. Threads depend on each other only through these wakeups, the lifetime of files
//! ([`lifetime`]) and polled file locks ([`Contested`](crate::contested::Contested)). A dependency that the recorder
//! did not see is not assumed.
//!
//! Threads are *foreground* or *background*. A foreground thread runs in a closed loop: its next operation begins when
//! the previous one has ended and the recorded think time has passed. Work is counted in foreground operations. A
//! background thread (a checkpointer, a page cleaner) mostly waits for a timer or for other threads. Its operation
//! begins when the foreground has done as much work as at that point of the recording, so a slower foreground also
//! causes fewer background operations. The foreground waits for a background thread that is more than [`AHEAD_NS`]
//! behind.

use std::collections::{HashMap, HashSet};

use poolwright_trace::{Event, Gap, Op, Trace};

use self::faults::{is_fault, longest_fault, share_after_fault};
use self::lifetime::Lifetimes;
use self::locks::Waits;
use self::pools::{Pool, pools};
use self::usage::{Shares, foreground_of, is_asynchronous, shares, usage};
use crate::Schedule;
pub use crate::behaviour::{Application, Inferred, Think};
use crate::schedule::{Builder, Dependency};

/// The maximum lead of the foreground over a background operation, in nanoseconds of recorded time. A database limits
/// this lead by the size of its log and its number of dirty pages.
pub const AHEAD_NS: u64 = 1_000_000_000;
/// The number of recent operations kept per thread, to find the last one before a wakeup.
const RECENT: usize = 16;

/// CPU time that processes without recorded threads used on the recorded machine, as far as the trace contains it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// CPU time of other processes (for example, a client on the same machine) over the whole recording, in
    /// nanoseconds.
    pub cpu_ns: u64,
}

/// The end of an operation: its time in nanoseconds of the recording, its step and its kind.
#[derive(Clone, Copy, Debug)]
struct Ended {
    at: u64,
    step: Dependency,
    /// The file, if the operation was a sync.
    sync: Option<u32>,
}

struct Inference<'a> {
    /// The threads whose operations count as work.
    foreground: HashSet<u32>,
    others: Others,
    pools: HashMap<u32, Pool>,
    shares: Shares,
    builder: Builder,
    application: Application,
    /// The most recent replayed operations of each thread, by thread id.
    ends: HashMap<u32, Vec<Ended>>,
    /// What each thread did before and during operations that are not replayed; added to its next step.
    carried: HashMap<u32, Carried>,
    lifetimes: Lifetimes,
    /// Waits for file locks.
    waits: Waits,
    /// The last operation that a thread finished before it released a lock, by the index of the releasing event.
    given_up: HashMap<usize, Ended>,
    /// The index of the current event.
    index: usize,
    /// The threads whose last event was a page fault.
    faulted: HashSet<u32>,
    /// The longest sleep attributed to a page fault, in nanoseconds.
    longest_fault: u64,
    /// See [`share_after_fault`].
    share_after_fault: f64,
    wanted: &'a dyn Fn(&Event) -> bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    /// The end of the last operation, replayed or not, in nanoseconds of the recording.
    end: Option<u64>,
    cpu_ns: u64,
    /// Time slept before the wait, in nanoseconds.
    sleep_before_ns: u64,
    is_request: bool,
    wake: Option<Dependency>,
    sync: Option<u32>,
    /// Time slept after the wait, or without a wait, in nanoseconds.
    sleep_ns: u64,
}

impl Carried {
    /// Records that the thread then waits for another step or for syncs. This wait replaces an earlier one, which ended before it
    /// began.
    fn wait(&mut self, wake: Option<Dependency>, sync: Option<u32>) {
        if wake.is_some() || sync.is_some() {
            self.sleep_before_ns += std::mem::take(&mut self.sleep_ns);
            (self.wake, self.sync) = (wake, sync);
        }
    }
}

impl Schedule {
    /// Builds the schedule of the application: the events for which `wanted` returns true, and what their threads did
    /// between them.
    pub fn of_application(trace: &Trace, others: Others, wanted: &dyn Fn(&Event) -> bool) -> Schedule {
        let waits = locks::waits(&trace.events);
        let longest_fault = longest_fault(&trace.events);
        let usage = usage(&trace.events, &waits.polls, longest_fault);
        let foreground = foreground_of(&usage);
        let pools = pools(&trace.events, &foreground, longest_fault);
        let inference = Inference {
            foreground,
            others,
            shares: shares(&usage, &pools, others),
            pools,
            builder: Builder::default(),
            application: Application::default(),
            ends: HashMap::new(),
            carried: HashMap::new(),
            lifetimes: Lifetimes::default(),
            waits,
            given_up: HashMap::new(),
            index: 0,
            faulted: HashSet::new(),
            longest_fault,
            share_after_fault: share_after_fault(&trace.events),
            wanted,
        };
        inference.run(trace)
    }
}

/// Returns the ids of the threads that are foreground in a replay of these events of a trace.
pub fn foreground_threads(events: &[Event]) -> HashSet<u32> {
    foreground_of(&usage(events, &locks::waits(events).polls, longest_fault(events)))
}

impl Inference<'_> {
    fn run(mut self, trace: &Trace) -> Schedule {
        let mut schedule = Schedule::default();
        schedule.start_ns = u64::MAX;
        let mut end = 0;
        for (index, event) in trace.events.iter().enumerate() {
            self.index = index;
            self.end_locks(event);
            let wanted = (self.wanted)(event);
            let storage = crate::schedule::replayed(event).map(|op| Event { op, ..*event });
            let Some(step) = storage.or_else(|| self.waits.contested.step(index, event)).filter(|_| wanted)
            else {
                if wanted {
                    *schedule.skipped.entry(event.op.name().to_owned()).or_default() += 1;
                }
                self.skip(event);
                self.note_fault(event);
                continue;
            };
            schedule.start_ns = schedule.start_ns.min(event.t_ns);
            end = end.max(event.t_ns + event.dur_ns);
            self.add(&step, schedule.start_ns);
            self.note_fault(event);
        }
        self.count_threads();
        self.application.inferred.lock_waits = self.waits.granted;
        let seconds = trace.meta.duration_ns.max(1) as f64;
        let replayed = end.saturating_sub(schedule.start_ns) as f64;
        let others = (self.others.cpu_ns as f64 * (replayed / seconds).min(1.0)) as u64;
        self.application.beside_ns = others.saturating_sub(self.application.inferred.others_cpu_ns);
        schedule.start_ns = schedule.start_ns.min(end);
        schedule.duration_ns = end - schedule.start_ns;
        self.builder.finish(&mut schedule);
        self.application.contested = std::mem::take(&mut self.waits.contested);
        self.application.clients = self.pools.iter().map(|(pid, pool)| (*pid, pool.clients)).collect();
        schedule.application = Some(self.application);
        schedule
    }

    fn count_threads(&mut self) {
        let foreground = self.ends.keys().filter(|tid| self.foreground.contains(tid)).count() as u32;
        let inferred = &mut self.application.inferred;
        inferred.foreground_threads = foreground;
        inferred.background_threads = self.ends.len() as u32 - foreground;
    }

    /// Records the effects of file locks on this event: it releases a lock for which another thread waits, or its
    /// thread waited for a lock in its last call.
    fn end_locks(&mut self, event: &Event) {
        if self.waits.releases.contains(&self.index) {
            let end = event.t_ns + event.dur_ns;
            let ends = self.ends.get(&event.tid).into_iter().flatten();
            let last = ends.filter(|e| e.at <= end).max_by_key(|e| e.at).copied();
            self.given_up.extend(last.map(|last| (self.index, last)));
        }
        if let Some(call) = self.waits.calls.get(&self.index) {
            let wake = call.release.and_then(|release| self.given_up.get(&release)).map(|e| e.step);
            let carried = self.carried.entry(event.tid).or_default();
            carried.wait(wake, None);
            carried.sleep_ns += call.slept_ns;
        }
    }

    fn note_fault(&mut self, event: &Event) {
        if is_fault(event) {
            self.faulted.insert(event.tid);
        } else {
            self.faulted.remove(&event.tid);
        }
    }

    /// Carries what the thread did before an operation that is not replayed over to its next step.
    fn skip(&mut self, event: &Event) {
        let foreground = self.foreground.contains(&event.tid);
        let think = self.think(event, foreground);
        let carried = self.carried.entry(event.tid).or_default();
        carried.end = carried.end.max(Some(event.t_ns + event.dur_ns));
        carried.wait(think.wake, think.sync);
        carried.is_request |= think.is_request;
        carried.cpu_ns += think.cpu_before_ns + think.cpu_ns;
        carried.sleep_before_ns += if foreground { think.sleep_before_ns } else { 0 };
        carried.sleep_ns += if foreground { think.sleep_ns } else { 0 };
    }

    /// Adds what was carried over from operations that are not replayed, and resets it except for the end of this
    /// operation.
    fn take_carried(&mut self, event: &Event, think: &mut Think) {
        let carried = self.carried.entry(event.tid).or_default();
        let end = carried.end.max(Some(event.t_ns + event.dur_ns));
        let Carried { cpu_ns, sleep_before_ns, sleep_ns, is_request, wake, sync, .. } =
            std::mem::replace(carried, Carried { end, ..Carried::default() });
        think.is_request |= is_request;
        think.cpu_before_ns += cpu_ns;
        think.sleep_before_ns += sleep_before_ns;
        if think.wake.is_some() || think.sync.is_some() {
            think.sleep_before_ns += sleep_ns;
        } else {
            think.sleep_ns += sleep_ns;
            (think.wake, think.sync) = (wake, sync);
        }
    }

    fn add(&mut self, event: &Event, start: u64) {
        let lane = self.builder.location(event);
        let foreground = self.foreground.contains(&event.tid);
        while self.application.thinks.len() <= lane as usize {
            self.application.thinks.push(Vec::new());
            self.application.foreground.push(foreground);
            self.application.processes.push(event.pid);
        }
        // Progress is counted by lane. When all lanes are in use, a thread shares a lane, possibly with a thread of the
        // other kind.
        let foreground = self.application.foreground[lane as usize];
        let mut before = self.builder.same_thread_before(event, lane);
        self.lifetimes.before(event, lane, &mut before);
        let mut think = self.think(event, foreground);
        // A wakeup for one of a background thread's skipped calls does not pace this step.
        let paces_itself = think.wake.is_none() && think.sleep_ns > 0;
        self.take_carried(event, &mut think);
        let first = !self.ends.contains_key(&event.tid);
        if (first && event.t_ns > start) || (!foreground && (paces_itself || think.wake.is_none())) {
            think.after_work = self.application.work.len() as u32;
        }
        if !foreground {
            // It sleeps until there is work, also after the operation of the thread that woke it.
            (think.sleep_before_ns, think.sleep_ns) = (0, 0);
        }
        let inferred = &mut self.application.inferred;
        let takes_or_gives_up_a_lock = matches!(event.op, Op::Lock | Op::Unlock);
        if foreground {
            inferred.foreground_ops += u64::from(!takes_or_gives_up_a_lock);
            inferred.cpu_ns += think.cpu_ns + think.cpu_before_ns;
            inferred.sleep_ns += think.sleep_before_ns + think.sleep_ns;
            self.application.work.push(event.t_ns);
        } else {
            inferred.background_ops += u64::from(!takes_or_gives_up_a_lock);
        }
        inferred.wakes += u64::from(think.wake.is_some() || think.sync.is_some());
        inferred.unknown_gaps += u64::from(event.gap.is_none());
        self.application.thinks[lane as usize].push(think);
        let done = self.builder.push(lane, event, &before);
        self.lifetimes.add(event, Dependency { lane, done });
        let ends = self.ends.entry(event.tid).or_default();
        if ends.len() == RECENT {
            ends.remove(0);
        }
        let sync = event.op.is_sync().then_some(event.file);
        ends.push(Ended { at: event.t_ns + event.dur_ns, step: Dependency { lane, done }, sync });
    }

    /// Returns what the thread of `event` does between its last operation that had ended and `event`.
    fn think(&mut self, event: &Event, foreground: bool) -> Think {
        let Some(previous) = self.previous_end(event) else { return Think::default() };
        let whole = event.t_ns - previous;
        let Some(gap) = event.gap.filter(|_| !is_asynchronous(event)) else {
            return Think { sleep_ns: whole, ..Think::default() };
        };
        // The replayed read takes the storage's part of a page fault.
        let faulted = self.faulted.contains(&event.tid);
        let share = if faulted && gap.waker == 0 { self.share_after_fault } else { 1.0 };
        let cpu = (gap.cpu_ns.min(whole) as f64 * share) as u64;
        let in_fault = if faulted { self.longest_fault } else { 0 };
        let asleep = gap.sleep_ns(whole).saturating_sub(in_fault);
        if self.waits.polls.contains(&self.index) {
            // The replay polls the lock itself.
            return Think { cpu_before_ns: cpu, ..Think::default() };
        }
        match gap.waker {
            0 => Think { cpu_ns: cpu, ..Think::default() },
            Gap::SIBLING if foreground && self.pools.contains_key(&event.pid) => {
                let cpu_ns = cpu.min(u64::from(gap.wake_ns));
                self.request(event.pid, Think { cpu_before_ns: cpu - cpu_ns, cpu_ns, ..Think::default() })
            }
            Gap::OTHER | Gap::SIBLING if foreground => {
                let (others, sleep_ns) = self.clients_part(asleep);
                Think { cpu_ns: cpu + others, sleep_ns, ..Think::default() }
            }
            Gap::OTHER | Gap::SIBLING | Gap::TIMER => {
                Think { cpu_ns: cpu, sleep_ns: asleep, ..Think::default() }
            }
            waker => {
                let slept = Think { cpu_ns: cpu, sleep_ns: asleep, ..Think::default() };
                let think = self.woken(event, &gap, waker, previous).unwrap_or(slept);
                let idle = gap.idle_ns(whole);
                if idle > 0 && foreground && self.pools.contains_key(&event.pid) {
                    let sleep_ns = think.sleep_ns.min(asleep.saturating_sub(idle));
                    return self.request(event.pid, Think { sleep_ns, ..think });
                }
                think
            }
        }
    }

    /// Returns the think time of a gap in which a thread of a process's pool got a request.
    fn request(&mut self, pid: u32, think: Think) -> Think {
        let (others, sleep_before_ns) = self.clients_part(self.pools[&pid].think_ns);
        let cpu_before_ns = think.cpu_before_ns + others;
        Think { cpu_before_ns, sleep_before_ns, is_request: true, ..think }
    }

    /// Divides a sleep for a client into the client's CPU time and its sleep, both in nanoseconds.
    fn clients_part(&mut self, asleep: u64) -> (u64, u64) {
        let others = (asleep as f64 * self.shares.cpu) as u64;
        let ready = (asleep as f64 * self.shares.ready) as u64;
        self.application.inferred.others_cpu_ns += others;
        (others, asleep - others - ready)
    }

    /// Returns the end of the last operation of the event's thread that had ended when the event began.
    fn previous_end(&self, event: &Event) -> Option<u64> {
        let ends = self.ends.get(&event.tid).into_iter().flatten().map(|e| e.at);
        let skipped = self.carried.get(&event.tid).and_then(|c| c.end);
        ends.chain(skipped).filter(|at| *at <= event.t_ns).max()
    }

    /// Returns the think time of a sleep that another thread ended. It waits for that thread's last operation before
    /// the wakeup, if that operation ended after the sleeper's own last one. Returns `None` if the waker did no
    /// operation in the meantime. If the operation was a sync and both are foreground threads, this is a group commit, whose leader depends on
    /// the order of the threads in the replay: the sleeper waits for whichever sync of the file is under way.
    fn woken(&self, event: &Event, gap: &Gap, waker: u32, previous: u64) -> Option<Think> {
        let woken = event.t_ns.saturating_sub(u64::from(gap.wake_ns));
        let last = self.ends.get(&waker)?.iter().filter(|e| e.at <= woken).max_by_key(|e| e.at)?;
        if last.at <= previous {
            return None;
        }
        let cpu = gap.cpu_ns.min(u64::from(gap.wake_ns));
        let both_foreground = [event.tid, waker].iter().all(|tid| self.foreground.contains(tid));
        let sync = last.sync.filter(|_| both_foreground);
        Some(Think {
            cpu_before_ns: gap.cpu_ns - cpu,
            wake: Some(last.step).filter(|_| sync.is_none()),
            sync,
            cpu_ns: cpu,
            sleep_ns: woken - last.at,
            ..Think::default()
        })
    }
}

mod faults;
mod lifetime;
mod locks;
mod pools;
#[cfg(test)]
mod tests;
mod usage;
