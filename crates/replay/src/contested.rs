//! The file locks that threads poll, and how long a thread sleeps between two attempts.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use poolwright_trace::{Event, Flags, Op};

use crate::lock_range::LockRange;

/// A thread takes a lock by force after polling it for this multiple of the longest recorded wait, because the lock's
/// owner may be waiting for this thread. A database would report an error instead (SQLite's `SQLITE_BUSY`).
const LONGEST: u32 = 4;
/// The minimum of that time.
const LEAST_LONGEST: Duration = Duration::from_millis(500);
/// The number of attempts of one wait with separate intervals; later attempts use the last interval.
const TRIES: usize = 64;

/// The locks that the replay takes and polls itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contested {
    /// The locked ranges, by file.
    ranges: HashMap<u32, Vec<LockRange>>,
    /// How long a thread sleeps after its first failed attempt, its second and so on: medians of the recording, in
    /// nanoseconds.
    intervals_ns: Vec<u64>,
    /// The time after which a thread continues without the lock.
    pub longest: Duration,
}

impl Contested {
    /// Whether there are no such locks.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the step that replays the event: taking a lock, releasing one, or releasing all locks of a file when it
    /// is closed.
    pub(crate) fn step(&self, event: &Event) -> Option<Event> {
        let ranges = self.ranges.get(&event.file)?;
        let is_contested = || ranges.iter().any(|range| range.overlaps(&LockRange::of(event)));
        match event.op {
            Op::Lock if event.flags.contains(Flags::FAILED) => None,
            Op::Lock | Op::Unlock => is_contested().then_some(*event),
            // A process loses all its locks of a file when it closes any descriptor of the file (`fcntl(2)`).
            Op::Close => Some(Event { op: Op::Unlock, offset: 0, len: 0, ..*event }),
            _ => None,
        }
    }

    /// Returns how long a thread sleeps after its `n`-th failed attempt, counted from 0.
    pub fn interval(&self, n: usize) -> Duration {
        let last = self.intervals_ns.len().saturating_sub(1);
        Duration::from_nanos(self.intervals_ns.get(n.min(last)).copied().unwrap_or(1_000_000))
    }
}

/// Collects the waits for polled locks in a recording.
#[derive(Default)]
pub(crate) struct Polls {
    ranges: HashMap<u32, Vec<LockRange>>,
    /// The indices of the events that got a lock after a wait.
    granted: HashSet<usize>,
    /// For each attempt, the times to the next attempt in nanoseconds.
    intervals: Vec<Vec<u64>>,
    longest_ns: u64,
}

impl Polls {
    /// Records that the event `index` got a lock after failed attempts at the times `tries`.
    pub fn add(&mut self, index: usize, event: &Event, tries: &[u64]) {
        let range = LockRange { shared: false, ..LockRange::of(event) };
        let ranges = self.ranges.entry(event.file).or_default();
        if !ranges.contains(&range) {
            ranges.push(range);
        }
        self.granted.insert(index);
        let next = tries.iter().skip(1).copied().chain([event.t_ns]);
        for (n, (from, to)) in tries.iter().zip(next).take(TRIES).enumerate() {
            if self.intervals.len() == n {
                self.intervals.push(Vec::new());
            }
            self.intervals[n].push(to.saturating_sub(*from));
        }
        let since = tries.first().copied().unwrap_or(event.t_ns);
        self.longest_ns = self.longest_ns.max(event.t_ns.saturating_sub(since));
    }

    /// Returns the locks that the replay may take in another order than the recorded one. There are none if a process
    /// held one of them while it waited for another.
    pub fn contested(self, events: &[Event]) -> Contested {
        let median = |mut of: Vec<u64>| {
            let middle = of.len() / 2;
            *of.select_nth_unstable(middle).1
        };
        let longest = (Duration::from_nanos(self.longest_ns) * LONGEST).max(LEAST_LONGEST);
        let contested = Contested {
            intervals_ns: self.intervals.into_iter().map(median).collect(),
            ranges: self.ranges,
            longest,
        };
        if is_nested(&contested, &self.granted, events) { Contested::default() } else { contested }
    }
}

/// Whether a process held a contested lock while it waited for another one.
fn is_nested(contested: &Contested, granted: &HashSet<usize>, events: &[Event]) -> bool {
    let mut held: HashMap<u32, Vec<(u32, LockRange)>> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        let Some(step) = contested.step(event) else { continue };
        let (range, held) = (LockRange::of(&step), held.entry(step.pid).or_default());
        // A process's new lock replaces its lock of the same range.
        held.retain(|(file, other)| *file != step.file || !other.overlaps(&range));
        if step.op == Op::Lock {
            if granted.contains(&index) && !held.is_empty() {
                return true;
            }
            held.push((step.file, range));
        }
    }
    false
}
