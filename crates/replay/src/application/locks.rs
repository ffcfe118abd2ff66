//! Waits for file locks of other processes that the waiting thread polls.
//!
//! A thread that is refused a lock (`fcntl` or `flock` without waiting, as SQLite's locks are) sleeps and tries again. No
//! wakeup says whom it waits for: each sleep ends by a timer. From a refusal to the lock's being taken the sleeps are one wait
//! for the process that gave the lock up last. How late the last try comes after that depends on the thread's own intervals,
//! which grow with the time waited, as a rule.

use std::collections::HashMap;

use poolwright_trace::{Event, Flags, Gap, Op};

/// Ends of locks kept per file.
const RECENT: usize = 256;

/// What a sleep of a thread that polls a lock is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Poll {
    /// It was followed by another refusal.
    Refused,
    /// The lock was free after it.
    Granted {
        /// The thread that gave the lock up.
        by: u32,
        /// When, in nanoseconds of the recording.
        at_ns: u64,
        /// When the first try was refused.
        since_ns: u64,
    },
}

/// A byte range, and whether it is locked for reading.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range {
    offset: u64,
    /// 0: to the end of the file.
    len: u64,
    shared: bool,
}

impl Range {
    fn of(event: &Event) -> Range {
        Range { offset: event.offset, len: event.len, shared: event.flags.contains(Flags::SHARED) }
    }

    fn end(&self) -> u64 {
        if self.len == 0 { u64::MAX } else { self.offset.saturating_add(self.len) }
    }

    fn overlaps(&self, other: &Range) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    fn conflicts(&self, other: &Range) -> bool {
        self.overlaps(other) && !(self.shared && other.shared)
    }
}

/// A lock that a thread was refused and has not got yet.
struct Wanted {
    file: u32,
    range: Range,
    since: u64,
    /// The last refusal.
    refused: u64,
    /// Events before which the thread slept, since the first refusal.
    sleeps: Vec<usize>,
}

/// A lock that was given up.
struct Release {
    pid: u32,
    tid: u32,
    at: u64,
    range: Range,
}

#[derive(Default)]
struct Files {
    /// By file and process.
    held: HashMap<(u32, u32), Vec<Range>>,
    released: HashMap<u32, Vec<Release>>,
}

impl Files {
    fn lock(&mut self, event: &Event) {
        let range = Range::of(event);
        let held = self.held.entry((event.file, event.pid)).or_default();
        // A process's lock of a range replaces the one that it has there.
        held.retain(|other| (other.offset, other.len) != (range.offset, range.len));
        held.push(range);
    }

    fn unlock(&mut self, event: &Event) {
        let freed = Range::of(event);
        let held = self.held.entry((event.file, event.pid)).or_default();
        let was: Vec<Range> = held.extract_if(.., |range| range.overlaps(&freed)).collect();
        // Taken before the recording: of what kind is not known.
        let was = if was.is_empty() { vec![Range { shared: false, ..freed }] } else { was };
        let released = self.released.entry(event.file).or_default();
        for range in was {
            if released.len() == RECENT {
                released.remove(0);
            }
            released.push(Release { pid: event.pid, tid: event.tid, at: event.t_ns + event.dur_ns, range });
        }
    }

    /// The last time that another process gave up what `event` locks, after `refused`.
    fn freed(&self, event: &Event, refused: u64) -> Option<&Release> {
        let range = Range::of(event);
        let end = event.t_ns + event.dur_ns;
        let released = self.released.get(&event.file)?;
        released.iter().rev().find(|release| {
            release.pid != event.pid
                && (refused..=end).contains(&release.at)
                && release.range.conflicts(&range)
        })
    }
}

/// By the event that it comes before, each sleep of a thread that polls a lock of another process.
pub(super) fn polls(events: &[Event]) -> HashMap<usize, Poll> {
    let mut polls = HashMap::new();
    let mut files = Files::default();
    let mut wanted: HashMap<u32, Wanted> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(wanted) = wanted.get_mut(&event.tid).filter(|_| event.gap.is_some_and(slept)) {
            wanted.sleeps.push(index);
        }
        match event.op {
            Op::Lock if event.flags.contains(Flags::FAILED) => refuse(&mut wanted, event),
            Op::Lock => {
                let same = |w: &Wanted| w.file == event.file && w.range == Range::of(event);
                if wanted.get(&event.tid).is_some_and(same) {
                    let wanted = wanted.remove(&event.tid).expect("it was just there");
                    grant(&mut polls, &files, event, &wanted);
                }
                files.lock(event);
            }
            Op::Unlock => files.unlock(event),
            // While it polls, a thread may look at what others have changed; it changes nothing.
            Op::Read | Op::Map | Op::Open | Op::Close => {}
            _ => {
                wanted.remove(&event.tid);
            }
        }
    }
    polls
}

fn slept(gap: Gap) -> bool {
    gap.waker == Gap::TIMER
}

fn refuse(wanted: &mut HashMap<u32, Wanted>, event: &Event) {
    let range = Range::of(event);
    match wanted.get_mut(&event.tid) {
        Some(known) if known.file == event.file && known.range == range => known.refused = event.t_ns,
        _ => {
            let (since, refused) = (event.t_ns, event.t_ns);
            wanted.insert(event.tid, Wanted { file: event.file, range, since, refused, sleeps: Vec::new() });
        }
    }
}

/// A lock that could not be had before: the sleeps were a wait for it, unless no other process gave it up.
fn grant(polls: &mut HashMap<usize, Poll>, files: &Files, event: &Event, wanted: &Wanted) {
    let (Some((last, earlier)), Some(release)) =
        (wanted.sleeps.split_last(), files.freed(event, wanted.refused))
    else {
        return;
    };
    polls.extend(earlier.iter().map(|index| (*index, Poll::Refused)));
    polls.insert(*last, Poll::Granted { by: release.tid, at_ns: release.at, since_ns: wanted.since });
}
