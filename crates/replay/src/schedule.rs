//! Arranges a trace as lanes with dependencies.
//!
//! One thread of the replay runs the steps of a lane. Operations of one traced thread stay in order; where they
//! overlapped (asynchronous I/O), they are distributed over several lanes. A sync waits for every write to its file
//! that had ended before the sync began, and each operation that began after a sync had ended waits for that sync.
//! Therefore, no acknowledgement is overtaken, however fast the replay runs.

use std::collections::{BinaryHeap, HashMap};

use poolwright_trace::{Event, Flags, Op, Trace};

use crate::behaviour::Application;
pub use crate::behaviour::Dependency;

/// Below this number of lanes, overlapping operations of one thread get additional lanes. Later ones queue in a lane.
pub const MAX_LANES: usize = 64;
/// The maximum number of lanes. Up to this number, each thread has its own lane, so that no thread waits for another
/// one's operation.
pub const MAX_THREADS: usize = 1024;

/// One operation to replay.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Its start in the recording, in nanoseconds.
    pub t_ns: u64,
    /// The kind of operation.
    pub op: Op,
    /// The file's number in the trace.
    pub file: u32,
    /// Offset in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// The event's flags.
    pub flags: Flags,
    first_dependency: u32,
    dependencies: u32,
}

/// The operations of a trace, ready to replay.
#[derive(Debug, Default)]
pub struct Schedule {
    /// The steps of each lane, in order.
    pub lanes: Vec<Vec<Step>>,
    dependencies: Vec<Dependency>,
    /// Recorded time from the first step to the end of the last, in nanoseconds.
    pub duration_ns: u64,
    /// Recorded time of the first step, in nanoseconds.
    pub start_ns: u64,
    /// Events that are not replayed as storage operations (open, close, map, rename, lock, unlock), by name.
    pub skipped: std::collections::BTreeMap<String, u64>,
    /// The behaviour of the threads between operations; only in an application's schedule.
    pub application: Option<Application>,
}

/// Returns the operation that replays an event, if any. A page fault (a `map` without a duration) reads from storage
/// unless the page was cached: OpenZFS keeps the pages of mapped files in the page cache too. The `mmap` call reads
/// nothing.
pub(crate) fn replayed(event: &Event) -> Option<Op> {
    match event.op {
        Op::Open | Op::Close | Op::Rename | Op::Lock | Op::Unlock => None,
        Op::Map => (event.is_read() && event.len > 0).then_some(Op::Read),
        op => Some(op),
    }
}

#[derive(Default)]
struct Lane {
    end: u64,
    steps: Vec<Step>,
}

#[derive(Default)]
pub(crate) struct Builder {
    lanes: Vec<Lane>,
    by_thread: HashMap<u32, Vec<u32>>,
    dependencies: Vec<Dependency>,
    /// Syncs not yet known to have ended before the current event: (end, lane, done), soonest first.
    pending: BinaryHeap<std::cmp::Reverse<(u64, u32, u32)>>,
    last_sync: Option<Dependency>,
    /// The last two writes of each lane to each file, as (end, done).
    writes: HashMap<u32, HashMap<u32, [(u64, u32); 2]>>,
}

impl Schedule {
    /// Splits the schedule at a recorded time in nanoseconds: the steps that begin before it, and the rest. Running the
    /// whole first part satisfies the dependencies across the cut.
    pub fn split(self, at_ns: u64) -> (Schedule, Schedule) {
        let mut parts = (Schedule::default(), Schedule::default());
        let cuts: Vec<u32> =
            self.lanes.iter().map(|lane| lane.partition_point(|s| s.t_ns < at_ns) as u32).collect();
        for (number, lane) in self.lanes.iter().enumerate() {
            let (early, late) = lane.split_at(cuts[number] as usize);
            for (part, steps, second) in [(&mut parts.0, early, false), (&mut parts.1, late, true)] {
                let moved = steps
                    .iter()
                    .map(|step| self.moved(step, &cuts, second, &mut part.dependencies))
                    .collect();
                part.lanes.push(moved);
            }
        }
        let end = self.start_ns + self.duration_ns;
        let cut = at_ns.clamp(self.start_ns, end);
        (parts.0.start_ns, parts.0.duration_ns) = (self.start_ns, cut - self.start_ns);
        (parts.1.start_ns, parts.1.duration_ns) = (cut, end - cut);
        parts.1.skipped = self.skipped;
        parts
    }

    /// Returns a step whose dependencies are counted from the start of its part.
    fn moved(&self, step: &Step, cuts: &[u32], second: bool, into: &mut Vec<Dependency>) -> Step {
        let first = into.len() as u32;
        for d in self.before(step) {
            let cut = cuts[d.lane as usize];
            if !second {
                into.push(*d);
            } else if d.done > cut {
                into.push(Dependency { lane: d.lane, done: d.done - cut });
            }
        }
        Step { first_dependency: first, dependencies: into.len() as u32 - first, ..*step }
    }

    /// Builds the schedule of the events for which `wanted` returns true. The events must be sorted by start time.
    pub fn build(trace: &Trace, wanted: impl Fn(&Event) -> bool) -> Schedule {
        let mut builder = Builder::default();
        let mut schedule = Schedule { start_ns: u64::MAX, ..Schedule::default() };
        let mut end = 0;
        for event in trace.events.iter().filter(|e| wanted(e)) {
            let Some(op) = replayed(event) else {
                *schedule.skipped.entry(event.op.name().to_owned()).or_default() += 1;
                continue;
            };
            schedule.start_ns = schedule.start_ns.min(event.t_ns);
            end = end.max(event.t_ns + event.dur_ns);
            builder.add(&Event { op, ..*event });
        }
        schedule.start_ns = schedule.start_ns.min(end);
        schedule.duration_ns = end - schedule.start_ns;
        builder.finish(&mut schedule);
        schedule
    }

    /// Returns the dependencies of `step`.
    pub fn before(&self, step: &Step) -> &[Dependency] {
        let first = step.first_dependency as usize;
        &self.dependencies[first..first + step.dependencies as usize]
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(Vec::is_empty)
    }
}

impl Builder {
    /// Moves the lanes and dependencies into `schedule`.
    pub(crate) fn finish(self, schedule: &mut Schedule) {
        schedule.dependencies = self.dependencies;
        schedule.lanes = self.lanes.into_iter().map(|lane| lane.steps).collect();
    }

    fn add(&mut self, event: &Event) {
        let lane = self.location(event);
        let mut before: Vec<Dependency> = self.same_thread_before(event, lane);
        while let Some(&std::cmp::Reverse((end, l, done))) = self.pending.peek() {
            if end > event.t_ns {
                break;
            }
            self.pending.pop();
            self.last_sync = Some(Dependency { lane: l, done });
        }
        before.extend(self.last_sync);
        if event.op.is_sync() {
            before.extend(self.writes_before(event));
        }
        before.retain(|d| d.lane != lane);
        before.sort_unstable();
        before.dedup_by(|later, earlier| {
            later.lane == earlier.lane && {
                earlier.done = earlier.done.max(later.done);
                true
            }
        });
        self.push(lane, event, &before);
    }

    /// Returns the lane for an event: of its thread's free lanes, the one that ended last; otherwise a new one.
    pub(crate) fn location(&mut self, event: &Event) -> u32 {
        let own = self.by_thread.entry(event.tid).or_default();
        let ended = own.iter().copied().filter(|l| self.lanes[*l as usize].end <= event.t_ns);
        let latest = ended.max_by_key(|l| self.lanes[*l as usize].end);
        if let Some(lane) = latest {
            return lane;
        }
        let most = if own.is_empty() { MAX_THREADS } else { MAX_LANES };
        if self.lanes.len() < most {
            let lane = self.lanes.len() as u32;
            self.lanes.push(Lane::default());
            own.push(lane);
            return lane;
        }
        // No lane is free: queue in the lane that is free first, preferably one of the same thread.
        let all: Vec<u32> = if own.is_empty() { (0..self.lanes.len() as u32).collect() } else { own.clone() };
        let lane = all.into_iter().min_by_key(|l| self.lanes[*l as usize].end).expect("there are lanes");
        if !own.contains(&lane) {
            own.push(lane);
        }
        lane
    }

    /// Returns the steps that the same thread had finished in lanes other than `lane` when the event began.
    pub(crate) fn same_thread_before(&self, event: &Event, lane: u32) -> Vec<Dependency> {
        let lanes = self.by_thread.get(&event.tid).map_or(&[][..], Vec::as_slice);
        let ended = |l: &&u32| **l != lane && self.lanes[**l as usize].end <= event.t_ns;
        let all =
            |lane: &u32| Dependency { lane: *lane, done: self.lanes[*lane as usize].steps.len() as u32 };
        lanes.iter().filter(ended).map(all).filter(|d| d.done > 0).collect()
    }

    /// Returns, for a sync, each lane's last write to the same file that had ended when the sync began.
    fn writes_before(&self, event: &Event) -> Vec<Dependency> {
        let Some(lanes) = self.writes.get(&event.file) else { return Vec::new() };
        let last = |(lane, ends): (&u32, &[(u64, u32); 2])| {
            let done = ends.iter().filter(|(end, _)| *end <= event.t_ns).map(|(_, done)| *done).max()?;
            (done > 0).then_some(Dependency { lane: *lane, done })
        };
        lanes.iter().filter_map(last).collect()
    }

    /// Appends a step to a lane and returns the lane's new number of steps.
    pub(crate) fn push(&mut self, lane: u32, event: &Event, before: &[Dependency]) -> u32 {
        let l = &mut self.lanes[lane as usize];
        l.steps.push(Step {
            t_ns: event.t_ns,
            op: event.op,
            file: event.file,
            offset: event.offset,
            len: event.len,
            flags: event.flags,
            first_dependency: self.dependencies.len() as u32,
            dependencies: before.len() as u32,
        });
        self.dependencies.extend_from_slice(before);
        let end = event.t_ns + event.dur_ns;
        l.end = l.end.max(end);
        let done = l.steps.len() as u32;
        if event.op.is_sync() {
            self.pending.push(std::cmp::Reverse((end, lane, done)));
        } else if !matches!(event.op, Op::Read | Op::Lock | Op::Unlock) {
            let ends = self.writes.entry(event.file).or_default().entry(lane).or_default();
            *ends = [ends[1], (end, done)];
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(t: u64, dur: u64, op: Op, file: u32, tid: u32) -> Event {
        Event {
            t_ns: t,
            dur_ns: dur,
            op,
            file,
            offset: 0,
            len: 1,
            pid: 1,
            tid,
            flags: Flags::default(),
            gap: None,
        }
    }

    fn trace(events: Vec<Event>) -> Trace {
        Trace { events, ..Trace::default() }
    }

    #[test]
    fn a_sync_waits_for_other_threads_writes_and_holds_back_what_came_after() {
        let s = Schedule::build(
            &trace(vec![
                event(0, 10, Op::Write, 0, 1),
                event(5, 10, Op::Write, 0, 2),
                event(20, 10, Op::Fsync, 0, 1),
                event(25, 1, Op::Write, 1, 2), // began before the sync ended: does not wait
                event(40, 1, Op::Write, 0, 2), // began after it: waits
            ]),
            |_| true,
        );
        assert_eq!(s.lanes.len(), 2);
        assert_eq!(s.before(&s.lanes[0][1]), [Dependency { lane: 1, done: 1 }]);
        assert!(s.before(&s.lanes[1][1]).is_empty());
        assert_eq!(s.before(&s.lanes[1][2]), [Dependency { lane: 0, done: 2 }]);
    }

    #[test]
    fn overlapping_operations_of_one_thread_spread_over_lanes() {
        let s = Schedule::build(&trace((0..4).map(|i| event(i, 100, Op::Write, 0, 7)).collect()), |_| true);
        assert_eq!(s.lanes.len(), 4);
        let s =
            Schedule::build(&trace((0..4).map(|i| event(i * 200, 100, Op::Write, 0, 7)).collect()), |_| true);
        assert_eq!(s.lanes.len(), 1);
    }

    #[test]
    fn a_split_keeps_every_step_and_no_dependency_on_the_past() {
        let events: Vec<Event> = (0..100)
            .map(|i| event(i * 10, 5, if i % 7 == 6 { Op::Fsync } else { Op::Write }, 0, (i % 3) as u32))
            .collect();
        let (early, late) = Schedule::build(&trace(events), |_| true).split(500);
        assert_eq!((early.len(), late.len()), (50, 50));
        for part in [&early, &late] {
            for step in part.lanes.iter().flatten() {
                for d in part.before(step) {
                    assert!(d.done as usize <= part.lanes[d.lane as usize].len(), "{d:?}");
                }
            }
        }
        assert_eq!((early.duration_ns, late.start_ns), (500, 500));
    }

    proptest! {
        /// For any trace, running the lanes in any order that respects the dependencies terminates.
        #[test]
        fn no_schedule_deadlocks(
            raw in prop::collection::vec((0u64..500, 0u64..60, 0u8..3, 0u32..4, 0u32..90), 1..300)
        ) {
            let mut events: Vec<Event> = raw
                .into_iter()
                .map(|(t, dur, op, file, tid)| event(t, dur, [Op::Read, Op::Write, Op::Fsync][op as usize], file, tid))
                .collect();
            events.sort_by_key(|e| e.t_ns);
            let n = events.len();
            let threads = events.iter().map(|e| e.tid).collect::<std::collections::HashSet<_>>().len();
            let s = Schedule::build(&trace(events), |_| true);
            prop_assert_eq!(s.len(), n);
            prop_assert!(s.lanes.len() <= MAX_LANES + threads);
            let mut done = vec![0u32; s.lanes.len()];
            loop {
                let mut moved = false;
                for lane in 0..s.lanes.len() {
                    while let Some(step) = s.lanes[lane].get(done[lane] as usize) {
                        if s.before(step).iter().any(|d| done[d.lane as usize] < d.done) {
                            break;
                        }
                        done[lane] += 1;
                        moved = true;
                    }
                }
                if !moved {
                    break;
                }
            }
            prop_assert_eq!(done.iter().sum::<u32>() as usize, n);
        }
    }
}
