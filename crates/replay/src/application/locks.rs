//! Waits for file locks of other processes.
//!
//! A thread whose non-blocking `fcntl` or `flock` fails sleeps and tries again, as SQLite does. A timer ends each
//! sleep, so no wakeup names the process that holds the lock. All sleeps between the first failed attempt and the
//! successful one are treated as one wait if another process released the lock meanwhile. Which thread gets a polled lock next depends
//! on the speed of the storage. Therefore, the replay takes and polls such locks itself ([`Contested`]). Attempts that failed are left
//! out if the process released its locks before it slept, as SQLite does before it waits for the lock of a writer.
//!
//! A thread that waits for a lock inside the call (`F_SETLKW`) is woken inside it, so no gap contains that wakeup either.

use std::collections::{HashMap, HashSet};

use poolwright_trace::{Event, Flags, Gap, Op};

use crate::contested::{Contested, Polls, Wait};
use crate::lock_range::LockRange;

/// A lock call that takes longer than this has waited, in nanoseconds.
const WAITED_NS: u64 = 20_000;

/// The waits for locks, by the index of the event that follows the wait.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Sleeps of threads that poll a lock.
    pub polls: HashSet<usize>,
    /// The number of waits for polled locks.
    pub granted: u64,
    /// Waits inside the thread's last call, which took a lock.
    pub calls: HashMap<usize, Call>,
    /// The indices of the events that released a lock for which a thread waited inside a call.
    pub releases: HashSet<usize>,
    /// The locks that the replay takes and polls itself.
    pub contested: Contested,
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
    /// The time of the last failed attempt, in nanoseconds.
    refused: u64,
    /// Whether the thread has not slept since its last failed attempt.
    tried: bool,
}

/// A thread's wait for a lock: failed attempts, each followed by a sleep, until one succeeds.
#[derive(Default)]
struct Waiting {
    wanted: Vec<Wanted>,
    /// The times of the failed attempts, in nanoseconds. They may have failed on different locks.
    attempts: Vec<u64>,
    /// The number of attempts whose intervals were counted when the thread got a lock.
    counted: usize,
    /// Whether the thread has failed to take a lock since it last slept.
    tried: bool,
    /// The indices of the events before which the thread slept, as far as they are not part of a wait yet.
    sleeps: Vec<usize>,
    slept: bool,
    /// The file of the lock that the last attempt failed to take.
    file: u32,
    /// The indices of the thread's lock operations since its process last held no lock of their file. Those before the last sleep in which
    /// the process held no lock of the file had no effect.
    locking: Vec<usize>,
    /// The number of `locking` before that sleep.
    vain: usize,
    /// Whether the process held no lock of the file in the last sleep, if it held one when the attempt failed.
    yields: Option<bool>,
    held_one: bool,
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
    /// The locks held, by process and file.
    held: HashMap<(u32, u32), Vec<LockRange>>,
    released: HashMap<u32, Vec<Release>>,
}

impl Files {
    /// Whether a process holds a lock of a file.
    fn holds(&self, pid: u32, file: u32) -> bool {
        self.held.get(&(pid, file)).is_some_and(|held| !held.is_empty())
    }

    fn lock(&mut self, event: &Event) {
        let range = LockRange::of(event);
        let held = self.held.entry((event.pid, event.file)).or_default();
        // A process's new lock replaces its lock of the same range.
        held.retain(|other| (other.offset, other.len) != (range.offset, range.len));
        held.push(range);
    }

    fn unlock(&mut self, index: usize, event: &Event) {
        let freed = LockRange::of(event);
        let held = self.held.entry((event.pid, event.file)).or_default();
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
    let mut threads: HashMap<u32, Waiting> = HashMap::new();
    // The last event of each thread, if it is a call that waited for a lock.
    let mut called: HashMap<u32, usize> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        if let Some(call) = called.remove(&event.tid) {
            waits.add_call(index, call, &events[call], &files);
        }
        let waiting = threads.entry(event.tid).or_default();
        if event.gap.is_some_and(slept) {
            waiting.sleep(index, files.holds(event.pid, waiting.file));
        }
        match event.op {
            Op::Lock if event.flags.contains(Flags::FAILED) => {
                waiting.refuse(event, files.holds(event.pid, event.file));
            }
            Op::Lock => {
                waiting.locking.push(index);
                waiting.grant(event, &files, &mut waits, &mut polls);
                if event.dur_ns > WAITED_NS {
                    called.insert(event.tid, index);
                }
                files.lock(event);
            }
            Op::Unlock => {
                files.unlock(index, event);
                waiting.locking.push(index);
                if !files.holds(event.pid, event.file) && !waiting.tried {
                    *waiting = Waiting::default();
                }
            }
            // A process loses all its locks of a file when it closes any descriptor of the file.
            Op::Close if files.holds(event.pid, event.file) => {
                files.unlock(index, &Event { offset: 0, len: 0, ..*event });
            }
            // A thread that polls may read what others have changed, but changes nothing.
            Op::Read | Op::Map | Op::Open | Op::Close => {}
            _ => waiting.end(),
        }
    }
    waits.contested = polls.contested();
    let contested = &waits.contested;
    waits.calls.retain(|_, call| !contested.concerns(&events[call.lock]));
    waits
}

fn slept(gap: Gap) -> bool {
    gap.waker == Gap::TIMER
}

impl Waiting {
    /// Records that the thread slept before the event `index`. The thread does not wait for locks that it has not tried again
    /// since its last sleep, and for nothing if it has not tried any.
    fn sleep(&mut self, index: usize, holds: bool) {
        if !self.tried {
            let locking = std::mem::take(&mut self.locking);
            *self = Waiting { locking, ..Waiting::default() };
            return;
        }
        self.wanted.retain(|wanted| wanted.tried);
        for wanted in &mut self.wanted {
            wanted.tried = false;
        }
        self.sleeps.push(index);
        (self.tried, self.slept) = (false, true);
        self.yields = self.held_one.then_some(!holds);
        if !holds {
            self.vain = self.locking.len();
        }
    }

    fn refuse(&mut self, event: &Event, holds: bool) {
        let at = event.t_ns;
        if !self.tried {
            self.attempts.push(at);
            (self.tried, self.held_one, self.file) = (true, holds, event.file);
        }
        match self.wanted.iter_mut().find(|wanted| wanted.is_for(event)) {
            Some(known) => (known.refused, known.tried) = (at, true),
            None => self.wanted.push(Wanted {
                file: event.file,
                range: LockRange::of(event),
                refused: at,
                tried: true,
            }),
        }
    }

    /// Records that the event took a lock. It ended a wait if an attempt to take it failed before the last sleep, and another process
    /// released the lock since then.
    fn grant(&mut self, event: &Event, files: &Files, waits: &mut Waits, polls: &mut Polls) {
        let Some(at) = self.wanted.iter().position(|wanted| wanted.is_for(event)) else { return };
        let wanted = self.wanted.swap_remove(at);
        if !self.slept || files.freed(event, wanted.refused).is_none() {
            return;
        }
        waits.polls.extend(self.sleeps.drain(..));
        waits.granted += 1;
        let counted = std::mem::replace(&mut self.counted, self.attempts.len());
        polls.add(&Wait { event, attempts: &self.attempts, counted, yields: self.yields });
        for index in self.locking.drain(..std::mem::take(&mut self.vain)) {
            polls.abandon(index);
        }
    }

    /// Records that the thread did something else.
    fn end(&mut self) {
        *self = Waiting { locking: Vec::new(), ..Waiting::default() };
    }
}

impl Wanted {
    fn is_for(&self, event: &Event) -> bool {
        self.file == event.file && self.range == LockRange::of(event)
    }
}

impl Waits {
    /// Records that the event `index` follows a call that waited for a lock.
    fn add_call(&mut self, index: usize, lock: usize, call: &Event, files: &Files) {
        let release = files.freed(call, call.t_ns);
        let slept_ns = call.t_ns + call.dur_ns - release.map_or(call.t_ns, |r| r.at);
        self.releases.extend(release.map(|r| r.index));
        self.calls.insert(index, Call { lock, release: release.map(|r| r.index), slept_ns });
    }
}
