//! Paces the replay of an application according to what its threads did between their operations.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use poolwright_openzfs::clock::{self, Time};

use crate::application::{AHEAD_NS, Application, Think};
use crate::clients::Clients;
use crate::lock_range::LockRange;
use crate::lock_table::{LockTable, Owner};
use crate::syncs::{Syncs, UnderWay};
use crate::thread_time::{MAX_WAIT, burn, sleep};
use crate::work_count::WorkCount;

/// CPU time below this, in nanoseconds, is deferred until more is due: reading the thread's CPU clock takes a tenth of
/// it.
const MIN_BURN_NS: u64 = 3_000;
/// A sleep below this, in nanoseconds, is deferred too.
const MIN_SLEEP_NS: u64 = 20_000;
/// The maximum lead of a foreground lane over another one in an application that polls file locks, in nanoseconds of recorded time.
const LEAD_NS: u64 = 300_000_000;
/// How often the foreground checks whether other lanes have caught up.
const CATCH_UP: Duration = Duration::from_micros(200);
/// How often the replay uses CPU time of other processes, and the maximum amount at once.
const BESIDE_EVERY: Duration = Duration::from_millis(1);
const MAX_BESIDE_NS: u64 = 4_000_000;
/// A lane with less than this share of the foreground's steps may end early without ending the measurement.
const MAJOR_SHARE: f64 = 0.05;
/// Such a lane must also have its last step before this share of the work to end early.
const LATE_SHARE: f64 = 0.9;
/// A lane that ends before this share of the work has been measured does not end the measurement: a figure of fewer
/// threads is better than one of a moment, or none.
const MIN_MEASURED: f64 = 0.25;

/// The time and work at which the measurement began or ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub at: Time,
    /// The number of finished foreground steps.
    pub work: u32,
}

/// The progress of an application's replay.
pub(crate) struct Pacer<'a> {
    application: &'a Application,
    work: WorkCount,
    /// The recorded time of each lane's next step, in nanoseconds; 0 before the first, `u64::MAX` after the last.
    next: Vec<AtomicU64>,
    /// The number of finished foreground steps at which the measurement begins.
    warm: u32,
    /// The latest time at which the measurement begins.
    warm_until: Option<Time>,
    began: OnceLock<Mark>,
    ended: OnceLock<Mark>,
    /// CPU time of a call that the replay does not make, in nanoseconds.
    call_ns: u64,
    /// CPU time used to imitate the application and other processes, in nanoseconds.
    burned_ns: AtomicU64,
    locks: LockTable,
    /// How many attempts to lock each lane has failed since it last got what it wanted.
    refused: Vec<AtomicU32>,
    syncs: Syncs,
    pub clients: Clients,
}

/// A lane's outstanding CPU time and sleep in nanoseconds. The sleep is negative if the lane has slept too long.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    cpu_ns: u64,
    sleep_ns: i64,
}

impl<'a> Pacer<'a> {
    /// Creates a pacer. The measurement begins when `warm_share` of the work is done, or after `longest_warm`.
    pub fn new(
        application: &'a Application,
        warm_share: f64,
        call_ns: u64,
        longest_warm: Option<Duration>,
    ) -> Pacer<'a> {
        Pacer {
            application,
            work: WorkCount::default(),
            next: (0..application.foreground.len())
                .map(|lane| AtomicU64::new(first_of(application, lane)))
                .collect(),
            warm: (application.work.len() as f64 * warm_share) as u32,
            warm_until: longest_warm.map(|longest| Time::now() + longest),
            began: OnceLock::new(),
            ended: OnceLock::new(),
            call_ns,
            burned_ns: AtomicU64::new(0),
            locks: LockTable::default(),
            refused: application.foreground.iter().map(|_| AtomicU32::new(0)).collect(),
            syncs: Syncs::default(),
            clients: Clients::new(application),
        }
    }

    /// Returns the CPU time used so far to imitate the application, its calls and other processes, in nanoseconds.
    pub fn burned_ns(&self) -> u64 {
        self.burned_ns.load(Ordering::Relaxed)
    }

    fn burn(&self, cpu_ns: u64, stop: &AtomicBool) {
        self.burned_ns.fetch_add(cpu_ns, Ordering::Relaxed);
        burn(cpu_ns, stop);
    }

    pub fn think(&self, lane: usize, step: usize) -> &Think {
        &self.application.thinks[lane][step]
    }

    /// Takes a file lock for the lane's process; polls it while another process holds it. If the application releases its other locks
    /// before it waits for this one, the lane does so too, and then takes them again together with this one. A thread that has
    /// waited for longer than [`Contested::longest`](crate::application::Contested::longest) takes the locks by force.
    pub fn lock(&self, lane: usize, file: u32, range: LockRange, stop: &AtomicBool) {
        let (owner, contested) =
            (Owner { process: self.application.processes[lane], lane }, &self.application.contested);
        let began = Time::now();
        let mut wanted = vec![(file, range)];
        while !self.locks.try_lock(owner, &wanted) && !stop.load(Ordering::Relaxed) {
            if began.elapsed() > contested.longest {
                return self.locks.force(owner, &wanted);
            }
            if contested.is_yielding(file, &range) {
                wanted.splice(0..0, self.locks.give_up(owner));
            }
            let n = self.refused[lane].fetch_add(1, Ordering::Relaxed);
            sleep(contested.interval(n as usize), stop);
        }
    }

    /// Releases the file locks of the lane's process in a range.
    pub fn unlock(&self, lane: usize, file: u32, range: LockRange) {
        let process = self.application.processes[lane];
        self.locks.unlock(process, file, range);
        if !self.locks.holds(process) {
            self.end_wait(lane);
        }
    }

    /// Records that the lane has got the locks that it wanted: its next wait begins with the first interval.
    pub fn end_wait(&self, lane: usize) {
        self.refused[lane].store(0, Ordering::Relaxed);
    }

    /// Waits until a client has a request for the lane's step, if the step begins one.
    pub fn wait_for_client(&self, lane: usize, think: &Think, t_ns: u64, stop: &AtomicBool) {
        if think.is_request || self.clients.is_idle(lane) {
            self.clients.next_request(lane, t_ns, MAX_WAIT, stop);
        }
    }

    /// Records that a sync of a file begins; it ends when the value is dropped.
    pub fn begin_sync(&self, file: u32) -> UnderWay {
        self.syncs.begin(file)
    }

    /// Waits until the syncs of a file that are under way have ended.
    pub fn wait_for_syncs(&self, file: u32, stop: &AtomicBool) {
        self.syncs.wait(file, MAX_WAIT, stop);
    }

    pub fn is_foreground(&self, lane: usize) -> bool {
        self.application.foreground[lane]
    }

    /// Whether the measurement has begun and not ended.
    pub fn is_measuring(&self) -> bool {
        self.began.get().is_some() && self.ended.get().is_none()
    }

    /// Records that the lane has reached a step that began at `t_ns` in the recording. Call it before the step waits: a
    /// background lane that waits for another lane must not count as behind.
    pub fn begin(&self, lane: usize, t_ns: u64) {
        self.next[lane].store(t_ns, Ordering::Relaxed);
    }

    /// Waits until the foreground has done as much work as it had when the step began in the recording. A foreground
    /// step also waits until no background lane is too far behind. If the application polls file locks, which lanes get depends on the
    /// replay; then it waits for the other major lanes too, unless it may keep them waiting: otherwise one lane could do its cheap steps
    /// and end, and the rest of the work would be another mixture than the recorded one.
    pub fn wait_for_progress(&self, lane: usize, think: &Think, t_ns: u64, stop: &AtomicBool) {
        if self.work.finished() < think.after_work {
            self.clients.while_lent(lane, || self.work.wait(think.after_work, MAX_WAIT, stop));
        }
        if !self.is_foreground(lane) {
            return;
        }
        let is_polled = !self.application.contested.is_empty();
        let keeps_pace = is_polled && !self.locks.holds(self.application.processes[lane]);
        let lead = |other: usize| match self.is_foreground(other) {
            false => Some(AHEAD_NS),
            true => Some(LEAD_NS).filter(|_| keeps_pace && other != lane && self.is_major(other)),
        };
        let is_behind = |(other, next): (usize, &AtomicU64)| {
            lead(other).is_some_and(|lead| next.load(Ordering::Relaxed).saturating_add(lead) < t_ns)
        };
        let must_wait = || self.next.iter().enumerate().any(is_behind) && !stop.load(Ordering::Relaxed);
        if must_wait() {
            self.clients.while_lent(lane, || {
                while must_wait() {
                    clock::sleep(CATCH_UP);
                }
            });
        }
    }

    /// Whether the lane has a large share of the foreground's steps.
    fn is_major(&self, lane: usize) -> bool {
        self.application.thinks[lane].len() as f64 > self.application.work.len() as f64 * MAJOR_SHARE
    }

    /// Records that a step has finished.
    pub fn finish(&self, lane: usize) {
        if !self.is_foreground(lane) {
            return;
        }
        let work = self.work.add();
        if self.began.get().is_none()
            && (work > self.warm || self.warm_until.is_some_and(|t| Time::now() >= t))
        {
            let _ = self.began.set(Mark { at: Time::now(), work });
        }
    }

    /// Records that a lane has finished all its steps. The first major lane to finish ends the measurement, because
    /// fewer threads than in the recording run from then on. A lane that waited for locks in the recording may not wait
    /// in the replay and finish long before the others, even before the measurement begins.
    pub fn end(&self, lane: usize, last_t_ns: u64) {
        self.next[lane].store(u64::MAX, Ordering::Relaxed);
        // The steps that release these locks may lie beyond the end of the replay.
        self.locks.unlock_all(self.application.processes[lane]);
        self.clients.end(lane);
        let all = &self.application.work;
        let late = all.partition_point(|t| *t < last_t_ns) as f64 >= all.len() as f64 * LATE_SHARE;
        let measured = self.began.get().map_or(0, |began| self.work.finished() - began.work);
        let enough = f64::from(measured) >= all.len() as f64 * MIN_MEASURED;
        if self.is_foreground(lane) && self.is_major(lane) && late && enough {
            self.end_measurement();
        }
    }

    /// Ends the measurement if it has not ended yet.
    pub fn end_measurement(&self) {
        let _ = self.ended.set(Mark { at: Time::now(), work: self.work.finished() });
    }

    /// Returns the finished share of the foreground's steps, 0 to 1.
    pub fn share(&self) -> f64 {
        f64::from(self.work.finished()) / self.application.work.len().max(1) as f64
    }

    /// Returns the duration of the measurement and the time that its work took in the recording, both in seconds.
    /// Returns `None` if the measurement did not begin or end, or took no time.
    pub fn measured(&self) -> Option<(f64, f64)> {
        let (began, ended) = (self.began.get()?, self.ended.get()?);
        let at = |mark: &Mark| {
            let all = &self.application.work;
            all.get((mark.work as usize).min(all.len()).checked_sub(1)?).copied()
        };
        let recorded = at(ended)?.saturating_sub(at(began)?) as f64 / 1e9;
        let seconds = ended.at.since(began.at).as_secs_f64();
        (seconds > 0.0 && recorded > 0.0).then_some((seconds, recorded))
    }

    /// Uses CPU time and sleeps; both times are in nanoseconds.
    pub fn spend(&self, due: &mut Due, cpu_ns: u64, sleep_ns: u64, stop: &AtomicBool) {
        due.cpu_ns += cpu_ns;
        if due.cpu_ns >= MIN_BURN_NS {
            self.burn(std::mem::take(&mut due.cpu_ns), stop);
        }
        due.sleep_ns += sleep_ns as i64;
        if due.sleep_ns >= MIN_SLEEP_NS as i64 {
            let began = Time::now();
            sleep(Duration::from_nanos(due.sleep_ns as u64), stop);
            due.sleep_ns -= began.elapsed().as_nanos() as i64;
            // Do not compensate for one long delay by shortening many sleeps.
            due.sleep_ns = due.sleep_ns.max(-(MIN_SLEEP_NS as i64) * 10);
        }
    }

    /// Uses the CPU time of other processes in proportion to the finished work, until `over` is set.
    pub fn run_beside(&self, over: &AtomicBool, stop: &AtomicBool) {
        let (all, beside) = (self.application.work.len().max(1) as f64, self.application.beside_ns as f64);
        let mut used = 0;
        while beside > 0.0 && !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            let due = (beside * f64::from(self.work.finished()) / all) as u64;
            let now = due.saturating_sub(used).min(MAX_BESIDE_NS);
            self.burn(now, stop);
            used += now;
            clock::sleep(BESIDE_EVERY);
        }
    }

    /// Returns the CPU time of a call in nanoseconds.
    pub fn call_ns(&self) -> u64 {
        self.call_ns
    }
}

/// The initial value of [`Pacer::next`]: a background lane is not behind before it reaches its first step.
fn first_of(application: &Application, lane: usize) -> u64 {
    if application.foreground[lane] && !application.thinks[lane].is_empty() { 0 } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use poolwright_trace::{Event as Recorded, Flags, Op};

    use super::*;
    use crate::contested::{Polls, Wait};

    /// Returns three lanes: two of different processes, and a third of the first one's process.
    fn contenders(longest: Duration) -> Application {
        let mut application = Application {
            foreground: vec![true; 3],
            thinks: vec![Vec::new(); 3],
            processes: vec![1, 2, 1],
            ..Application::default()
        };
        application.contested.longest = longest;
        application
    }

    const RANGE: LockRange = LockRange { offset: 120, len: 1, shared: false };

    #[test]
    fn a_lock_is_waited_for_until_its_holder_gives_it_up() {
        let application = contenders(Duration::from_secs(60));
        let pacer = Pacer::new(&application, 0.0, 0, None);
        let (stop, given_up) = (AtomicBool::new(false), AtomicBool::new(false));
        pacer.lock(0, 7, RANGE, &stop);
        pacer.lock(2, 7, RANGE, &stop);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pacer.lock(1, 7, RANGE, &stop);
                assert!(given_up.load(Ordering::SeqCst), "both processes had the lock");
            });
            std::thread::sleep(Duration::from_millis(20));
            given_up.store(true, Ordering::SeqCst);
            pacer.unlock(2, 7, RANGE);
        });
        // A lane that has finished releases the locks of its process.
        pacer.end(1, 0);
        pacer.lock(0, 7, RANGE, &stop);
    }

    #[test]
    fn a_process_that_waits_for_a_yielding_lock_holds_no_other() {
        let mut application = contenders(Duration::from_secs(60));
        let LockRange { offset, len, .. } = RANGE;
        let (op, flags) = (Op::Lock, Flags::default());
        let event =
            Recorded { t_ns: 0, dur_ns: 0, op, file: 7, offset, len, pid: 2, tid: 2, flags, gap: None };
        let mut polls = Polls::default();
        polls.add(&Wait { event: &event, attempts: &[1_000_000], counted: 0, yields: Some(true) });
        application.contested = polls.contested();
        let pacer = Pacer::new(&application, 0.0, 0, None);
        let (stop, readers) = (AtomicBool::new(false), LockRange { offset: 420, ..RANGE });
        pacer.lock(0, 7, RANGE, &stop);
        pacer.lock(1, 7, LockRange { shared: true, ..readers }, &stop);
        std::thread::scope(|scope| {
            scope.spawn(|| pacer.lock(1, 7, RANGE, &stop));
            pacer.lock(0, 7, readers, &stop);
            pacer.unlock(0, 7, LockRange { offset: 0, len: 0, shared: false });
        });
        pacer.unlock(1, 7, RANGE);
        assert!(pacer.locks.holds(2), "it has its other lock again");
    }

    /// Finishes the steps of the lanes in this order, and ends a lane after its last step.
    fn measured_of(thinks: [usize; 2], order: &[usize]) -> Option<f64> {
        let steps: usize = thinks.iter().sum();
        let application = Application {
            foreground: vec![true; 2],
            thinks: thinks.map(|count| vec![Think::default(); count]).to_vec(),
            processes: vec![1, 2],
            work: (1..=steps as u64).map(|n| n * 1_000_000_000).collect(),
            ..Application::default()
        };
        let pacer = Pacer::new(&application, 0.25, 0, None);
        let mut left = thinks;
        for &lane in order {
            pacer.finish(lane);
            std::thread::sleep(Duration::from_micros(10));
            left[lane] -= 1;
            if left[lane] == 0 {
                pacer.end(lane, steps as u64 * 1_000_000_000);
            }
        }
        pacer.end_measurement();
        pacer.measured().map(|(_, recorded)| recorded)
    }

    #[test]
    fn the_first_lane_that_ends_ends_the_measurement() {
        let order = [[0, 1].repeat(10), [1].repeat(10)].concat();
        // The measurement begins after step 8 (a quarter of 30 is 7) and ends after step 19.
        assert_eq!(measured_of([10, 20], &order), Some(11.0));
    }

    #[test]
    fn a_lane_that_ends_while_warming_up_does_not_end_the_measurement() {
        let order = [[0].repeat(3), [1].repeat(17)].concat();
        // The measurement begins after step 6 and ends with the last one.
        assert_eq!(measured_of([3, 17], &order), Some(14.0));
    }

    #[test]
    fn a_lock_whose_holder_waits_is_not_waited_for_forever() {
        let application = contenders(Duration::from_millis(5));
        let pacer = Pacer::new(&application, 0.0, 0, None);
        let stop = AtomicBool::new(false);
        pacer.lock(0, 7, RANGE, &stop);
        let began = Instant::now();
        pacer.lock(1, 7, RANGE, &stop);
        assert!(began.elapsed() >= Duration::from_millis(5));
    }
}
