//! Waits for file locks of other processes.
//!
//! A thread that is refused a lock (`fcntl` or `flock` without waiting, as SQLite's locks are) sleeps and tries again. No
//! wakeup says whom it waits for: each sleep ends by a timer. From a refusal to the lock's being taken the sleeps are one wait
//! for the process that gave the lock up last. How late the last try comes after that depends on the thread's own intervals,
//! which grow with the time waited, as a rule.
//!
//! A thread that waits for a lock inside the call (`F_SETLKW`) is woken inside it, so no gap shows that wakeup either.
//!
//! Which thread gets a polled lock next depends on how fast the storage is. The replay therefore takes and polls such locks
//! itself ([`Contested`]). Only where a process waits for one polled lock while it holds another one does the replay keep the
//! recorded order, because another order could end in a deadlock.

use std::collections::{HashMap, HashSet};

use poolwright_trace::{Event, Flags, Gap, Op};

use crate::contested::{Contested, Polls};
use crate::lock_range::LockRange;

/// A lock call that takes longer than this has waited, in nanoseconds.
const WAITED_NS: u64 = 20_000;

/// The waits, by the index of the event that they come before.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Sleeps of threads that poll a lock.
    pub polls: HashMap<usize, Poll>,
    /// Waits inside the thread's last call, which took a lock.
    pub calls: HashMap<usize, Call>,
    /// The events that gave up the locks that were waited for.
    pub releases: HashSet<usize>,
    /// The locks that the replay takes and polls itself.
    pub contested: Contested,
}

/// What a sleep of a thread that polls a lock is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Poll {
    /// It was followed by another refusal.
    Refused,
    /// The lock was free after it.
    Granted {
        /// The event that gave the lock up.
        release: usize,
        /// When, in nanoseconds of the recording.
        at_ns: u64,
        /// When the first try was refused.
        since_ns: u64,
    },
}

/// A wait for a lock inside a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Call {
    /// The event that is the call.
    pub lock: usize,
    /// The event that gave the lock up, if one was seen.
    pub release: Option<usize>,
    /// From there to the end of the call, or all of the call, in nanoseconds.
    pub slept_ns: u64,
}

/// A lock that a thread was refused and has not got yet.
struct Wanted {
    file: u32,
    range: LockRange,
    since: u64,
    /// The last refusal.
    refused: u64,
    /// The refusals that the thread slept after, the next one being another try.
    tries: Vec<u64>,
    /// No sleep came after the last refusal yet.
    tried: bool,
    /// Events before which the thread slept, since the first refusal.
    sleeps: Vec<usize>,
}

/// A lock that was given up.
struct Release {
    index: usize,
    pid: u32,
    at: u64,
    range: LockRange,
}

#[derive(Default)]
struct Files {
    /// By file and process.
    held: HashMap<(u32, u32), Vec<LockRange>>,
    released: HashMap<u32, Vec<Release>>,
}

impl Files {
    fn lock(&mut self, event: &Event) {
        let range = LockRange::of(event);
        let held = self.held.entry((event.file, event.pid)).or_default();
        // A process's lock of a range replaces the one that it has there.
        held.retain(|other| (other.offset, other.len) != (range.offset, range.len));
        held.push(range);
    }

    fn unlock(&mut self, index: usize, event: &Event) {
        let freed = LockRange::of(event);
        let held = self.held.entry((event.file, event.pid)).or_default();
        let was: Vec<LockRange> = held.extract_if(.., |range| range.overlaps(&freed)).collect();
        // Taken before the recording: of what kind is not known.
        let was = if was.is_empty() { vec![LockRange { shared: false, ..freed }] } else { was };
        let released = self.released.entry(event.file).or_default();
        for range in was {
            released.retain(|older| (older.pid, older.range) != (event.pid, range));
            released.push(Release { index, pid: event.pid, at: event.t_ns + event.dur_ns, range });
        }
    }

    /// The last time that another process gave up what `event` locks, from `refused` on.
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

/// The waits of all threads.
pub(super) fn waits(events: &[Event]) -> Waits {
    let mut waits = Waits::default();
    let mut polls = Polls::default();
    let mut files = Files::default();
    // By thread: one try may be refused several locks, of which it can do without some.
    let mut wanted: HashMap<u32, Vec<Wanted>> = HashMap::new();
    // By thread, its last event if that is a call that waited for a lock.
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
            // While it polls, a thread may look at what others have changed; it changes nothing.
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

/// A thread slept before the event of that index. What it has not tried to lock again since its last sleep it does not wait for.
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
    /// A lock that could not be had before: the sleeps were a wait for it, unless no other process gave it up. Whether they
    /// were.
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

    /// A call that waited for a lock came before the event of that index.
    fn add_call(&mut self, index: usize, lock: usize, call: &Event, files: &Files) {
        let release = files.freed(call, call.t_ns);
        let slept_ns = call.t_ns + call.dur_ns - release.map_or(call.t_ns, |r| r.at);
        self.releases.extend(release.map(|r| r.index));
        self.calls.insert(index, Call { lock, release: release.map(|r| r.index), slept_ns });
    }
}
