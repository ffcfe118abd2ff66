//! Selects the seconds of a recording that the trials replay, and measures how well they represent the whole recording.
//!
//! A second is **busy** unless its activity is below a twentieth of the mean activity of the fewest seconds that have three
//! quarters of all activity. The activity of a second is its share of the operations plus its share of the bytes moved.
//!
//! A slice has three defects, each from 0 to 1: the distance of its mixture of operations from that of the whole
//! ([`Profile::distance`]), its imbalance of bytes written ([`Profile::written`]), and the share of its time that is not
//! busy. The trials begin at the earliest time at which the sum of the three is at most [`ALIKE`] above the smallest sum:
//! at the start of the recording, at the first busy second, or at any busy second that leaves enough of the recording.

use std::collections::BTreeMap;
use std::sync::Arc;

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Op, Trace};

use poolwright_plan::ReplayedSlice;

/// Share of all activity that the busiest seconds have, whose mean activity is the reference.
const REFERENCE_SHARE: f64 = 0.75;
/// A second with less than this share of the reference activity is not busy.
const IDLE: f64 = 0.05;
/// Only this many seconds of a recording can be busy, because a trace can claim any length.
const MAX_SECONDS: usize = 1 << 20;
/// Slices whose sums of defects differ by less than this represent the recording equally well.
const ALIKE: f64 = 0.1;

/// Kind of operation, role, and the base-2 logarithm of the length.
type Class = (Op, Role, u32);

/// A contiguous part of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Slice {
    /// Its begin in seconds since the start of the recording.
    pub begin_s: f64,
    /// Its length in recorded seconds.
    pub seconds: f64,
}

impl Slice {
    /// Returns the end in seconds since the start of the recording.
    pub fn end_s(&self) -> f64 {
        self.begin_s + self.seconds
    }
}

/// A slice compared with the whole recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedSlice {
    pub slice: Slice,
    /// Length of the recording in seconds.
    pub recorded_s: f64,
    /// The result of [`Profile::distance`].
    pub distance: f64,
    /// The result of [`Profile::written`].
    pub written: f64,
}

impl ComparedSlice {
    pub fn to_plan(self) -> ReplayedSlice {
        ReplayedSlice { begin_s: self.slice.begin_s, end_s: self.slice.end_s(), distance: self.distance }
    }
}

/// The operations of a whole recording, with which slices are compared.
pub(crate) struct Profile {
    trace: Arc<Trace>,
    /// Length of the recording in seconds.
    recorded_s: f64,
    /// The number of each file's role.
    roles: Vec<Role>,
    /// The share of each class of operations.
    mixture: BTreeMap<Class, f64>,
    /// Whether each second is busy.
    busy: Vec<bool>,
    /// Bytes written per busy second; 0 if nothing is written.
    written_s: f64,
}

impl Profile {
    /// Creates the profile of a recording of `recorded_s` seconds.
    pub fn new(trace: Arc<Trace>, recorded_s: f64) -> Profile {
        let roles = trace.files.iter().map(File::known_role).collect();
        let busy = busy_seconds(&activity(&trace.events, recorded_s));
        let mut profile =
            Profile { trace, recorded_s, roles, mixture: BTreeMap::new(), busy, written_s: 0.0 };
        let whole = Slice { begin_s: 0.0, seconds: f64::INFINITY };
        profile.mixture = profile.mixture_of(&whole);
        profile.written_s = profile.written_per_busy_second(&whole);
        profile
    }

    /// Returns the time, in seconds since the start of the recording, at which trials of `seconds` recorded seconds
    /// begin, by the rule of this module.
    pub fn begin(&self, seconds: f64) -> f64 {
        let busy =
            || self.busy.iter().enumerate().filter(|(_, busy)| **busy).map(|(second, _)| second as f64);
        let first = busy().next().unwrap_or(0.0);
        let later = busy().filter(|begin| *begin > first && begin + seconds <= self.recorded_s);
        let scored = |begin_s: f64| (begin_s, self.defects(&Slice { begin_s, seconds }));
        let all: Vec<(f64, f64)> = [0.0, first].into_iter().chain(later).map(scored).collect();
        let least = all.iter().map(|(_, defects)| *defects).fold(f64::INFINITY, f64::min);
        all.iter().find(|(_, defects)| *defects <= least + ALIKE).map_or(0.0, |(begin, _)| *begin)
    }

    /// Returns the total variation distance between the operations of a slice and those of the whole recording, by kind,
    /// role and size: the share of operations that would have to differ to make the mixtures equal. 0 means the same
    /// mixture, 1 that they have nothing in common.
    pub fn distance(&self, slice: &Slice) -> f64 {
        let part = self.mixture_of(slice);
        if part.is_empty() {
            return if self.mixture.is_empty() { 0.0 } else { 1.0 };
        }
        let share = |class: &Class| part.get(class).copied().unwrap_or(0.0);
        self.mixture.iter().map(|(class, whole)| (whole - share(class)).abs()).sum::<f64>() / 2.0
    }

    /// Returns the bytes written per busy second of a slice, relative to those of the whole recording; 1 if nothing is
    /// written. A database that merges tables writes in bursts, which are hardly visible in a count of operations.
    pub fn written(&self, slice: &Slice) -> f64 {
        if self.written_s > 0.0 { self.written_per_busy_second(slice) / self.written_s } else { 1.0 }
    }

    pub fn compare(&self, slice: Slice) -> ComparedSlice {
        let (distance, written) = (self.distance(&slice), self.written(&slice));
        ComparedSlice { slice, recorded_s: self.recorded_s, distance, written }
    }

    /// Describes what trials that begin at `begin_s` seconds leave out, or returns `None` if they begin at the start.
    pub fn late_begin(&self, begin_s: f64) -> Option<String> {
        let share = 100.0 * self.share_before(begin_s);
        (begin_s > 0.0).then(|| {
            format!(
                "the trials begin at {begin_s:.0} s of the recording, with the files as they were then: what follows represents the \
                 recording better than its first seconds do; {share:.1} % of its operations are before that time"
            )
        })
    }

    /// Returns the share of the operations that begin before `begin_s` seconds, from 0 to 1.
    fn share_before(&self, begin_s: f64) -> f64 {
        let count = |events: &[Event]| events.iter().filter(|e| is_counted(e)).count() as f64;
        let before = Slice { begin_s: 0.0, seconds: begin_s };
        count(self.events(&before)) / count(&self.trace.events).max(1.0)
    }

    fn defects(&self, slice: &Slice) -> f64 {
        let length = slice.seconds.min(self.recorded_s - slice.begin_s).max(1e-9);
        let idle = 1.0 - (self.busy_s(slice) / length).min(1.0);
        self.distance(slice) + imbalance(self.written(slice)) + idle
    }

    /// Returns the events that begin in a slice.
    pub fn events(&self, slice: &Slice) -> &[Event] {
        let at = |seconds: f64| self.trace.events.partition_point(|e| (e.t_ns as f64) < seconds * 1e9);
        &self.trace.events[at(slice.begin_s)..at(slice.end_s())]
    }

    fn mixture_of(&self, slice: &Slice) -> BTreeMap<Class, f64> {
        let mut counts: BTreeMap<Class, f64> = BTreeMap::new();
        for event in self.events(slice).iter().filter(|e| is_counted(e)) {
            let class = (event.op, self.roles[event.file as usize], event.len.checked_ilog2().unwrap_or(0));
            *counts.entry(class).or_default() += 1.0;
        }
        let all: f64 = counts.values().sum();
        counts.values_mut().for_each(|n| *n /= all);
        counts
    }

    fn written_per_busy_second(&self, slice: &Slice) -> f64 {
        let writes = self.events(slice).iter().filter(|e| e.op == Op::Write);
        let (bytes, busy_s) = (writes.map(|e| e.len).sum::<u64>() as f64, self.busy_s(slice));
        if busy_s > 0.0 { bytes / busy_s } else { 0.0 }
    }

    /// Returns how much of a slice is busy, in seconds.
    fn busy_s(&self, slice: &Slice) -> f64 {
        let end = slice.end_s().min(self.recorded_s);
        let inside = |second: f64| ((second + 1.0).min(end) - second.max(slice.begin_s)).max(0.0);
        let seconds = slice.begin_s as usize..self.busy.len().min(end.ceil() as usize);
        seconds.filter(|second| self.busy[*second]).map(|second| inside(second as f64)).sum()
    }
}

/// Whether an operation belongs to the mixture: reads, writes and syncs.
fn is_counted(event: &Event) -> bool {
    matches!(event.op, Op::Read | Op::Write) || event.op.is_sync()
}

/// Returns the activity of each second: its share of the operations plus its share of the bytes moved.
fn activity(events: &[Event], recorded_s: f64) -> Vec<f64> {
    let mut seconds = vec![(0.0, 0.0); (recorded_s.ceil() as usize).clamp(1, MAX_SECONDS)];
    let (mut operations, mut bytes) = (0.0, 0.0);
    for event in events.iter().filter(|e| is_counted(e)) {
        let Some(second) = seconds.get_mut((event.t_ns / 1_000_000_000) as usize) else { continue };
        let moved = if event.op.is_sync() { 0.0 } else { event.len as f64 };
        (second.0, second.1) = (second.0 + 1.0, second.1 + moved);
        (operations, bytes) = (operations + 1.0, bytes + moved);
    }
    let share = |part: f64, all: f64| if all > 0.0 { part / all } else { 0.0 };
    seconds.into_iter().map(|(o, b)| share(o, operations) + share(b, bytes)).collect()
}

fn busy_seconds(activity: &[f64]) -> Vec<bool> {
    let mut sorted = activity.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let all: f64 = sorted.iter().sum();
    let (mut sum, mut n) = (0.0, 0.0);
    for one in sorted {
        if sum >= REFERENCE_SHARE * all {
            break;
        }
        (sum, n) = (sum + one, n + 1.0);
    }
    let least = IDLE * sum / f64::max(n, 1.0);
    activity.iter().map(|one| *one > 0.0 && *one >= least).collect()
}

/// Returns how far a ratio is from 1: 0 for 1, and nearly 1 for very small and very large ratios.
fn imbalance(ratio: f64) -> f64 {
    (ratio - 1.0).abs() / (ratio + 1.0)
}

#[cfg(test)]
mod tests;
