//! The file locks that threads poll, and how long a thread sleeps between two attempts.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use poolwright_trace::{Event, Flags, Op};

use crate::lock_range::LockRange;

/// After polling a lock for this multiple of the longest recorded wait, a thread continues without it, because the lock's owner may be
/// waiting for this thread. A database would report an error instead (SQLite's `SQLITE_BUSY`).
const LONGEST: u32 = 4;
/// The minimum of that time.
const MIN_LONGEST: Duration = Duration::from_millis(500);
/// The number of attempts of one wait with separate intervals; later attempts use the last interval.
const TRIES: usize = 64;

/// The locks that the replay takes and polls itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contested {
    /// The locked ranges, by file.
    ranges: HashMap<u32, Vec<Range>>,
    /// The indices of events that locked or released a range in attempts that failed, and that the replay leaves out.
    abandoned: HashSet<usize>,
    /// How long a thread sleeps after its first failed attempt, its second and so on: medians of the recording, in
    /// nanoseconds.
    intervals_ns: Vec<u64>,
    /// The time after which a thread continues without the lock.
    pub longest: Duration,
}

/// A range for which threads waited.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    of: LockRange,
    /// Whether processes that hold other locks release them before they wait for this one; `None` if none held one.
    yields: Option<bool>,
}

impl Contested {
    /// Whether there are no such locks.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn overlapping<'a>(&'a self, file: u32, range: &'a LockRange) -> impl Iterator<Item = &'a Range> {
        self.ranges.get(&file).into_iter().flatten().filter(|contested| contested.of.overlaps(range))
    }

    /// Whether the event takes or releases a lock for which threads waited, also in an attempt that the replay leaves out.
    pub(crate) fn concerns(&self, event: &Event) -> bool {
        self.overlapping(event.file, &LockRange::of(event)).next().is_some()
    }

    /// Whether a process releases its other locks before it waits for a range.
    pub(crate) fn is_yielding(&self, file: u32, range: &LockRange) -> bool {
        let mut alike = self.overlapping(file, range).filter(|contested| contested.of.shared == range.shared);
        alike.any(|contested| contested.yields == Some(true))
    }

    /// Returns the step that replays the event `index`: taking a lock, releasing one, or releasing all locks of a file when it
    /// is closed.
    pub(crate) fn step(&self, index: usize, event: &Event) -> Option<Event> {
        if !self.ranges.contains_key(&event.file) || self.abandoned.contains(&index) {
            return None;
        }
        match event.op {
            Op::Lock if event.flags.contains(Flags::FAILED) => None,
            Op::Lock | Op::Unlock => self.concerns(event).then_some(*event),
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

/// A wait for a polled lock in the recording.
pub(crate) struct Wait<'a> {
    /// The event that got the lock.
    pub event: &'a Event,
    /// The times of the failed attempts, in nanoseconds.
    pub attempts: &'a [u64],
    /// The number of attempts after which the thread got another lock before, and then failed again.
    pub counted: usize,
    /// Whether the process held no lock of the file while it slept, if it had one when the attempt failed.
    pub yields: Option<bool>,
}

/// Collects the waits for polled locks in a recording.
#[derive(Default)]
pub(crate) struct Polls {
    contested: Contested,
    /// For each attempt, the times to the next attempt in nanoseconds.
    intervals: Vec<Vec<u64>>,
    longest_ns: u64,
}

impl Polls {
    pub fn add(&mut self, wait: &Wait<'_>) {
        let Wait { event, attempts, counted, yields } = *wait;
        let of = LockRange::of(event);
        let ranges = self.contested.ranges.entry(event.file).or_default();
        match ranges.iter_mut().find(|range| range.of == of) {
            Some(known) => {
                known.yields = known.yields.into_iter().chain(yields).reduce(|all, one| all && one)
            }
            None => ranges.push(Range { of, yields }),
        }
        let next = attempts.iter().skip(1).copied().chain([event.t_ns]);
        for (n, (from, to)) in attempts.iter().zip(next).enumerate().take(TRIES) {
            if self.intervals.len() == n {
                self.intervals.push(Vec::new());
            }
            if n >= counted {
                self.intervals[n].push(to.saturating_sub(*from));
            }
        }
        let since = attempts.first().copied().unwrap_or(event.t_ns);
        self.longest_ns = self.longest_ns.max(event.t_ns.saturating_sub(since));
    }

    /// Records that the event `index` locked or released a range in an attempt that failed.
    pub fn abandon(&mut self, index: usize) {
        self.contested.abandoned.insert(index);
    }

    /// Returns the locks for which threads waited.
    pub fn contested(self) -> Contested {
        let median = |mut of: Vec<u64>| {
            let middle = of.len() / 2;
            *of.select_nth_unstable(middle).1
        };
        Contested {
            intervals_ns: self.intervals.into_iter().map(median).collect(),
            longest: (Duration::from_nanos(self.longest_ns) * LONGEST).max(MIN_LONGEST),
            ..self.contested
        }
    }
}
