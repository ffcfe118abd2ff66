//! The file locks that threads poll: which they are, and how long a thread sleeps between two tries.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use poolwright_trace::{Event, Flags, Op};

use crate::lock_range::LockRange;

/// A thread takes a lock that it has polled for so many times the longest wait of the recording: the lock's holder may wait for
/// this thread. A database would report an error there (SQLite's `SQLITE_BUSY`).
const LONGEST: u32 = 4;
/// At least this long.
const LEAST_LONGEST: Duration = Duration::from_millis(500);
/// Tries of one wait whose intervals are told apart; later ones have that of the last.
const TRIES: usize = 64;

/// The locks that the replay takes and polls itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contested {
    /// By file.
    ranges: HashMap<u32, Vec<LockRange>>,
    /// How long a thread sleeps after its first refusal, its second one and so on: medians of the recording, in nanoseconds.
    intervals_ns: Vec<u64>,
    /// After how long a thread goes on without the lock.
    pub longest: Duration,
}

impl Contested {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// What the replay does for an event: it takes a lock, or gives up one or (where a file is closed) all of a file.
    pub(crate) fn step(&self, event: &Event) -> Option<Event> {
        let ranges = self.ranges.get(&event.file)?;
        let is_contested = || ranges.iter().any(|range| range.overlaps(&LockRange::of(event)));
        match event.op {
            Op::Lock if event.flags.contains(Flags::FAILED) => None,
            Op::Lock | Op::Unlock => is_contested().then_some(*event),
            // A process loses its locks of a file with the first descriptor of it that it closes.
            Op::Close => Some(Event { op: Op::Unlock, offset: 0, len: 0, ..*event }),
            _ => None,
        }
    }

    /// How long a thread sleeps after it was refused a lock for the `n`-th time, from 0.
    pub fn interval(&self, n: usize) -> Duration {
        let last = self.intervals_ns.len().saturating_sub(1);
        Duration::from_nanos(self.intervals_ns.get(n.min(last)).copied().unwrap_or(1_000_000))
    }
}

/// The waits for polled locks, as they are found in a recording.
#[derive(Default)]
pub(crate) struct Polls {
    ranges: HashMap<u32, Vec<LockRange>>,
    /// Events that got a lock after a wait.
    granted: HashSet<usize>,
    /// By try, the times from there to the next one in nanoseconds.
    intervals: Vec<Vec<u64>>,
    longest_ns: u64,
}

impl Polls {
    /// The event of that index got a lock that was refused at `tries`.
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

    /// The locks that the replay may take in another order than the recorded one: none if a process held one of them while it
    /// waited for another.
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

/// Whether a process held a contested lock when it waited for another one.
fn is_nested(contested: &Contested, granted: &HashSet<usize>, events: &[Event]) -> bool {
    let mut held: HashMap<u32, Vec<(u32, LockRange)>> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        let Some(step) = contested.step(event) else { continue };
        let (range, held) = (LockRange::of(&step), held.entry(step.pid).or_default());
        // A process's lock of a range replaces the one that it has there.
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
