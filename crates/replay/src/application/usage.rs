//! How each thread spent its time in the recording, and which threads are foreground.

use std::collections::{HashMap, HashSet};

use poolwright_trace::{Event, Flags, Gap, Op};

use super::Others;
use super::faults::is_fault;
use super::pools::Pool;

/// A thread that sleeps for more than this share of its time is a background thread.
const BACKGROUND_SHARE: f64 = 0.5;
/// Exception: a thread that other processes, or threads without recorded I/O, wake before more than this share of its
/// operations is foreground, because a thread that serves clients may sleep most of its time.
const SERVED_SHARE: f64 = 0.05;
/// The exception does not apply to a thread that did less than this share of the busiest thread's operations: a thread without recorded I/O
/// wakes such a thread from time to time, and replaying its sleeps would delay the threads that depend on it.
const MINOR_SHARE: f64 = 0.1;
/// A thread that did less than this share of the busiest thread's operations is a helper: threads that serve clients do about as much as each
/// other.
const HELPER_WORK: f64 = 0.5;
/// A helper that sleeps for more than this share of its time is a background thread: a checkpoint may take most of its period on a slow disk.
const HELPER_SLEEP: f64 = 0.2;
/// Fewer operations of foreground threads than these two, a number and a share of the busiest thread's operations, are not the application's work: a
/// main thread opens and closes the file that another one reads.
const LEAST_WORK: u64 = 20;
const LEAST_WORK_SHARE: f64 = 0.01;
/// In a trace without gaps, a thread that pauses for longer than this waits for a timer. In nanoseconds.
const LONG_PAUSE_NS: u64 = 100_000_000;

/// Whether the thread that issued the operation continued while it was in progress.
pub(super) fn is_asynchronous(event: &Event) -> bool {
    event.flags.contains(Flags::AIO) || event.flags.contains(Flags::URING)
}

/// The time of a thread in the recording, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    process: u32,
    ops: u64,
    /// The number of events except lock operations.
    done: u64,
    first: u64,
    last_end: u64,
    cpu: u64,
    ready: u64,
    /// Time asleep until another process or a thread without recorded operations woke the thread.
    served: u64,
    served_wakes: u64,
    /// Time asleep until a timer or a thread with recorded operations woke the thread.
    waiting: u64,
    /// Time in gaps without information.
    unknown: u64,
    unknown_long: u64,
    known: u64,
    /// Whether the last event was a page fault.
    faulted: bool,
}

impl Usage {
    /// Adds an event. `polls`: whether the gap is a wait for a lock. `longest_fault`: see [`longest_fault`](super::faults::longest_fault).
    fn take(&mut self, event: &Event, polls: bool, longest_fault: u64) {
        if self.ops == 0 {
            self.process = event.pid;
            self.first = event.t_ns;
        } else {
            let whole = event.t_ns.saturating_sub(self.last_end);
            match &event.gap {
                Some(gap) => {
                    let waits_for_storage = self.faulted && gap.sleep_ns(whole) <= longest_fault;
                    self.take_gap(gap, whole, polls || waits_for_storage);
                }
                None => {
                    self.unknown += whole;
                    self.unknown_long += if whole > LONG_PAUSE_NS { whole } else { 0 };
                }
            }
        }
        self.faulted = is_fault(event);
        self.ops += 1;
        self.done += u64::from(!matches!(event.op, Op::Lock | Op::Unlock));
        // A thread does not wait for an asynchronous operation that it has issued.
        let busy = if is_asynchronous(event) { 0 } else { event.dur_ns };
        self.last_end = self.last_end.max(event.t_ns + busy);
    }

    fn take_gap(&mut self, gap: &Gap, whole: u64, works: bool) {
        self.known += 1;
        self.cpu += gap.cpu_ns;
        self.ready += u64::from(gap.ready_ns);
        // A thread that waits for a lock or for storage has work to do.
        if gap.waker != 0 && !works {
            let idle = gap.idle_ns(whole);
            self.served += idle;
            self.served_wakes += u64::from(idle > 0 || matches!(gap.waker, Gap::OTHER | Gap::SIBLING));
            self.waiting += gap.sleep_ns(whole) - idle;
        }
    }

    fn is_background(&self, busiest: u64) -> bool {
        let span = self.last_end.saturating_sub(self.first).max(1) as f64;
        // Asynchronous operations never have gaps; a thread that issues some only waits between them.
        let unknown = if self.known > 0 { self.unknown } else { self.unknown_long };
        let share = (self.waiting + self.served + unknown) as f64 / span;
        let served = self.served_wakes as f64 / self.done.max(1) as f64;
        let is_minor = (self.done as f64) < MINOR_SHARE * busiest as f64;
        let is_helper = (self.done as f64) < HELPER_WORK * busiest as f64;
        let least = if is_helper { HELPER_SLEEP } else { BACKGROUND_SHARE };
        share > least && (served < SERVED_SHARE || is_minor)
    }
}

/// How the sleep of foreground threads for other processes divides into those processes' CPU time and their waiting for
/// a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shares {
    pub cpu: f64,
    pub ready: f64,
}

pub(super) fn foreground_of(usage: &HashMap<u32, Usage>) -> HashSet<u32> {
    foreground(usage).map(|(tid, _)| *tid).collect()
}

fn foreground(usage: &HashMap<u32, Usage>) -> impl Iterator<Item = (&u32, &Usage)> {
    let busiest = busiest(usage);
    usage.iter().filter(move |(_, usage)| !usage.is_background(busiest))
}

/// The operations of the thread that did most.
fn busiest(usage: &HashMap<u32, Usage>) -> u64 {
    usage.values().map(|thread| thread.done).max().unwrap_or(0)
}

/// Returns the usage of each thread over all events, including operations that are not replayed. `longest_fault`:
/// see [`longest_fault`](super::faults::longest_fault).
pub(super) fn usage(events: &[Event], polls: &HashSet<usize>, longest_fault: u64) -> HashMap<u32, Usage> {
    let mut usage: HashMap<u32, Usage> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        usage.entry(event.tid).or_default().take(event, polls.contains(&index), longest_fault);
    }
    let work: u64 = foreground(&usage).map(|(_, thread)| thread.done).sum();
    let is_little = work < LEAST_WORK && (work as f64) < LEAST_WORK_SHARE * busiest(&usage) as f64;
    if is_little || foreground(&usage).next().is_none() {
        // Without the work of foreground threads there would be no progress to measure.
        for thread in usage.values_mut() {
            (thread.waiting, thread.served, thread.unknown, thread.unknown_long) = (0, 0, 0, 0);
        }
    }
    usage
}

pub(super) fn shares(usage: &HashMap<u32, Usage>, pools: &HashMap<u32, Pool>, others: Others) -> Shares {
    let is_in_pool = |usage: &Usage| pools.contains_key(&usage.process);
    let connected: u64 = foreground(usage).filter(|(_, u)| !is_in_pool(u)).map(|(_, u)| u.served).sum();
    let served = connected + pools.values().map(|pool| pool.total_ns).sum::<u64>();
    if served == 0 {
        return Shares::default();
    }
    // A client's thread is assumed to wait for a CPU as often as the application's threads; the rest of a sleep is CPU
    // time.
    let (cpu, ready) = foreground(usage).fold((0, 0), |(c, r), (_, u)| (c + u.cpu, r + u.ready));
    let waiting = if cpu == 0 { 0.0 } else { ready as f64 / cpu as f64 };
    let share = (others.cpu_ns as f64 / served as f64).min(1.0 / (1.0 + waiting));
    Shares { cpu: share, ready: share * waiting }
}
