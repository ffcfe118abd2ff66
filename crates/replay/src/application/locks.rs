//! Waits for file locks of other processes.
//!
//! A thread whose non-blocking `fcntl` or `flock` fails sleeps and tries again, as SQLite does. A timer ends each
//! sleep, so no wakeup names the process that holds the lock. All sleeps between the first failed attempt and the
//! successful one are treated as one wait for the process that released the lock last. The delay of the last attempt
//! after the release depends on the thread's intervals, which usually grow with the time waited.
//!
//! A thread that waits for a lock inside the call (`F_SETLKW`) is woken there, so no gap contains that wakeup either.
//!
//! Which thread gets a polled lock next depends on the speed of the storage. Therefore, the replay takes and polls such
//! locks itself ([`Contested`]). If a process waits for one polled lock while it holds another, the replay keeps the
//! recorded order, because another order could deadlock.

use std::collections::{HashMap, HashSet};

use poolwright_trace::{Event, Flags, Gap, Op};

use crate::contested::{Contested, Polls};
use crate::lock_range::LockRange;

/// A lock call that takes longer than this has waited, in nanoseconds.
const WAITED_NS: u64 = 20_000;

/// The waits for locks, by the index of the event that follows the wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Sleeps of threads that poll a lock.
    pub polls: HashMap<usize, Poll>,
    /// Waits inside the thread's last call, which took a lock.
    pub calls: HashMap<usize, Call>,
    /// The indices of the events that released a lock for which a thread waited.
    pub releases: HashSet<usize>,
    /// The locks that the replay takes and polls itself.
    pub contested: Contested,
}

/// A sleep of a thread that polls a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Poll {
    /// The next attempt failed too.
    Refused,
    /// The next attempt succeeded.
    Granted {
        /// The index of the event that released the lock.
        release: usize,
        /// The time of the release, in nanoseconds of the recording.
        at_ns: u64,
        /// The time of the first failed attempt, in nanoseconds of the recording.
        since_ns: u64,
    },
}

/// A wait for a lock inside a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    /// The index of the event that took the lock.
    pub lock: usize,
    /// The index of the event that released the lock, if the trace contains it.
    pub release: Option<usize>,
    /// The time from the release to the end of the call in nanoseconds, or the whole call if the release is unknown.
    pub slept_ns: u64,
}

/// A lock that a thread failed to take and has not got yet.
struct Wanted {
    file: u32,
    range: LockRange,
    since: u64,
    /// The time of the last failed attempt, in nanoseconds.
    refused: u64,
    /// The times of the failed attempts that were followed by a sleep and another attempt.
    tries: Vec<u64>,
    /// Whether the thread has not slept since its last failed attempt.
    tried: bool,
    /// The indices of the events before which the thread slept, since the first failed attempt.
    sleeps: Vec<usize>,
}

/// The release of a lock.
struct Release {
    index: usize,
    pid: u32,
    at: u64,
    range: LockRange,
}

#[derive(Default)]
struct Files {
    /// The locks held, by file and process.
    held: HashMap<(u32, u32), Vec<LockRange>>,
    released: HashMap<u32, Vec<Release>>,
}

impl Files {
    fn lock(&mut self, event: &Event) {
        let range = LockRange::of(event);
        let held = self.held.entry((event.file, event.pid)).or_default();
        // A process's new lock replaces its lock of the same range.
        held.retain(|other| (other.offset, other.len) != (range.offset, range.len));
        held.push(range);
    }

    fn unlock(&mut self, index: usize, event: &Event) {
        let freed = LockRange::of(event);
        let held = self.held.entry((event.file, event.pid)).or_default();
        let was: Vec<LockRange> = held.extract_if(.., |range| range.overlaps(&freed)).collect();
        // The lock was taken before the recording began, so its kind is unknown.
        let was = if was.is_empty() { vec![LockRange { shared: false, ..freed }] } else { was };
        let released = self.released.entry(event.file).or_default();
        for range in was {
            released.retain(|older| (older.pid, older.range) != (event.pid, range));
            released.push(Release { index, pid: event.pid, at: event.t_ns + event.dur_ns, range });
        }
    }

    /// Returns the last release by another process of the range that `event` locks, not before `refused`.
    fn freed(&self, event: &Event, refused: u64) -> Option<&Release> {
        let range = LockRange::of(event);
        let end = event.t_ns + event.dur_ns;
        let released = self.released.get(&event.file)?;
        released.iter().rev().find(|release| {
            release.pid != event.pid
                && (refused..=end).contains(&release.at)
                && release.range.conflicts(&range)
        })
    }
}

/// Finds the waits of all threads.
pub(super) fn waits(events: &[Event]) -> Waits {
    let mut waits = Waits::default();
    let mut polls = Polls::default();
    let mut files = Files::default();
    // By thread: one attempt may fail on several locks, and the thread may continue without some of them.
    let mut wanted: HashMap<u32, Vec<Wanted>> = HashMap::new();
    // The last event of each thread, if it is a call that waited for a lock.
    let mut called: HashMap<u32, usize> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(call) = called.remove(&event.tid) {
            waits.add_call(index, call, &events[call], &files);
        }
        let wanted = wanted.entry(event.tid).or_default();
        if event.gap.is_some_and(slept) {
            sleep(wanted, index);
        }
        match event.op {
            Op::Lock if event.flags.contains(Flags::FAILED) => refuse(wanted, event),
            Op::Lock => {
                for granted in wanted.extract_if(.., |w| w.is_for(event)) {
                    if waits.grant(&files, event, &granted) {
                        polls.add(index, event, &granted.tries);
                    }
                }
                if event.dur_ns > WAITED_NS {
                    called.insert(event.tid, index);
                }
                files.lock(event);
            }
            Op::Unlock => files.unlock(index, event),
            // A thread that polls may read what others have changed, but changes nothing.
            Op::Read | Op::Map | Op::Open | Op::Close => {}
            _ => wanted.clear(),
        }
    }
    waits.contested = polls.contested(events);
    let contested = &waits.contested;
    waits.calls.retain(|_, call| contested.step(&events[call.lock]).is_none());
    waits
}

fn slept(gap: Gap) -> bool {
    gap.waker == Gap::TIMER
}

/// Records that a thread slept before the event `index`. The thread does not wait for locks that it has not tried again
/// since its last sleep.
fn sleep(wanted: &mut Vec<Wanted>, index: usize) {
    wanted.retain(|w| w.tried);
    for one in wanted {
        one.tried = false;
        one.sleeps.push(index);
    }
}

fn refuse(wanted: &mut Vec<Wanted>, event: &Event) {
    let at = event.t_ns;
    match wanted.iter_mut().find(|w| w.is_for(event)) {
        Some(known) => {
            if !known.tried {
                known.tries.push(at);
            }
            (known.refused, known.tried) = (at, true);
        }
        None => wanted.push(Wanted {
            file: event.file,
            range: LockRange::of(event),
            since: at,
            refused: at,
            tries: vec![at],
            tried: true,
            sleeps: Vec::new(),
        }),
    }
}

impl Wanted {
    fn is_for(&self, event: &Event) -> bool {
        self.file == event.file && self.range == LockRange::of(event)
    }
}

impl Waits {
    /// Records that a thread got a lock after failed attempts. Returns whether the sleeps were a wait for it, which
    /// requires that another process released the lock.
    fn grant(&mut self, files: &Files, event: &Event, wanted: &Wanted) -> bool {
        let (Some((last, earlier)), Some(release)) =
            (wanted.sleeps.split_last(), files.freed(event, wanted.refused))
        else {
            return false;
        };
        self.polls.extend(earlier.iter().map(|index| (*index, Poll::Refused)));
        self.polls.insert(
            *last,
            Poll::Granted { release: release.index, at_ns: release.at, since_ns: wanted.since },
        );
        self.releases.insert(release.index);
        true
    }

    /// Records that the event `index` follows a call that waited for a lock.
    fn add_call(&mut self, index: usize, lock: usize, call: &Event, files: &Files) {
        let release = files.freed(call, call.t_ns);
        let slept_ns = call.t_ns + call.dur_ns - release.map_or(call.t_ns, |r| r.at);
        self.releases.extend(release.map(|r| r.index));
        self.calls.insert(index, Call { lock, release: release.map(|r| r.index), slept_ns });
    }
}
