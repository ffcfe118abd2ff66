//! Keeps an application's replay to what its threads did between their operations.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::application::{AHEAD_NS, Application, Think};
use crate::lock_range::LockRange;
use crate::lock_table::LockTable;

/// CPU time below this is put off until more is due: reading the thread's CPU clock takes a tenth of it.
const LEAST_BURN_NS: u64 = 3_000;
/// A sleep below this is put off likewise.
const LEAST_SLEEP_NS: u64 = 20_000;
/// The longest wait without a look at the order to stop.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How often the foreground looks whether the background has caught up.
const CATCH_UP: Duration = Duration::from_micros(200);
/// How often CPU time of other processes is used, and the most at once.
const BESIDE_EVERY: Duration = Duration::from_millis(1);
const MOST_BESIDE_NS: u64 = 4_000_000;
/// A lane with less than this share of the foreground's steps may end early without ending the measurement.
const MAJOR_SHARE: f64 = 0.05;
/// Unless its last step is before this share of the work.
const LATE_SHARE: f64 = 0.9;

/// When the measurement began or ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub at: Instant,
    /// Foreground steps done.
    pub work: u32,
}

/// The progress of an application's replay.
pub(crate) struct Pacer<'a> {
    application: &'a Application,
    /// Foreground steps done.
    work: AtomicU32,
    /// Threads that wait until so much work is done, the least first.
    waiting: Mutex<BinaryHeap<Waiter>>,
    /// The least work that a thread waits for; `u32::MAX` if none does.
    nearest: AtomicU32,
    /// By lane, the recorded time of a background lane's next step; `u64::MAX` for the foreground and at the end.
    next: Vec<AtomicU64>,
    /// Foreground steps done when the measurement begins.
    warm: u32,
    /// When it begins at the latest.
    warm_until: Option<Instant>,
    began: OnceLock<Mark>,
    ended: OnceLock<Mark>,
    /// CPU time of a call that the replay does not make, in nanoseconds.
    call_ns: u64,
    /// CPU time used in place of the application's and of other processes, in nanoseconds.
    burned_ns: AtomicU64,
    locks: LockTable,
}

/// A thread that waits until so much work is done. The least work is the greatest in a heap.
struct Waiter {
    work: u32,
    thread: Thread,
}

impl Ord for Waiter {
    fn cmp(&self, other: &Waiter) -> std::cmp::Ordering {
        other.work.cmp(&self.work)
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Waiter) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        self.work == other.work
    }
}

impl Eq for Waiter {}

/// A lane's CPU time and sleep that are due, in nanoseconds. Negative sleep: it slept longer than it should have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Due {
    cpu_ns: u64,
    sleep_ns: i64,
}

impl<'a> Pacer<'a> {
    /// `warm_share` of the work is done before the measurement begins, or what is done in the time `longest_warm`.
    pub fn new(
        application: &'a Application,
        warm_share: f64,
        call_ns: u64,
        longest_warm: Option<Duration>,
    ) -> Pacer<'a> {
        Pacer {
            application,
            work: AtomicU32::new(0),
            waiting: Mutex::new(BinaryHeap::new()),
            nearest: AtomicU32::new(u32::MAX),
            next: (0..application.foreground.len()).map(|_| AtomicU64::new(u64::MAX)).collect(),
            warm: (application.work.len() as f64 * warm_share) as u32,
            warm_until: longest_warm.map(|longest| Instant::now() + longest),
            began: OnceLock::new(),
            ended: OnceLock::new(),
            call_ns,
            burned_ns: AtomicU64::new(0),
            locks: LockTable::default(),
        }
    }

    /// CPU time used so far in place of the application's, of its calls and of other processes, in nanoseconds.
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

    /// Takes a file lock for the lane's process, and polls it while another process has it. A thread that waited for longer than
    /// [`Contested::longest`](crate::application::Contested::longest) goes on as if it had got it.
    pub fn lock(&self, lane: usize, file: u32, range: LockRange, stop: &AtomicBool) {
        let (process, contested) = (self.application.processes[lane], &self.application.contested);
        let began = Instant::now();
        for n in 0.. {
            if self.locks.try_lock(process, file, range) || stop.load(Ordering::Relaxed) {
                return;
            }
            if began.elapsed() > contested.longest {
                return self.locks.force(process, file, range);
            }
            sleep(contested.interval(n), stop);
        }
    }

    /// Gives up the file locks of the lane's process in a range.
    pub fn unlock(&self, lane: usize, file: u32, range: LockRange) {
        self.locks.unlock(self.application.processes[lane], file, range);
    }

    pub fn is_foreground(&self, lane: usize) -> bool {
        self.application.foreground[lane]
    }

    /// Whether the measurement has begun and not ended.
    pub fn is_measuring(&self) -> bool {
        self.began.get().is_some() && self.ended.get().is_none()
    }

    /// The lane comes to a step that began at `t_ns` in the recording. To be called before the step waits for anything: a
    /// background lane that waits for another one's step must not look as if it were behind.
    pub fn begin(&self, lane: usize, t_ns: u64) {
        if !self.is_foreground(lane) {
            self.next[lane].store(t_ns, Ordering::Relaxed);
        }
    }

    /// Waits until the foreground has come as far as it had in the recording when the step began, and a step of the
    /// foreground until no background lane is too far behind.
    pub fn wait_for_progress(&self, lane: usize, think: &Think, t_ns: u64, stop: &AtomicBool) {
        self.wait_for_work(think.after_work, stop);
        let behind =
            || self.next.iter().any(|next| next.load(Ordering::Relaxed).saturating_add(AHEAD_NS) < t_ns);
        while self.is_foreground(lane) && behind() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(CATCH_UP);
        }
    }

    fn wait_for_work(&self, work: u32, stop: &AtomicBool) {
        if self.work.load(Ordering::SeqCst) >= work {
            return;
        }
        let mut waiting = self.waiting.lock().expect("no holder panics");
        waiting.push(Waiter { work, thread: std::thread::current() });
        self.nearest.fetch_min(work, Ordering::SeqCst);
        drop(waiting);
        // The limit is for the order to stop only. An earlier wakeup that was meant for another wait does no harm.
        while self.work.load(Ordering::SeqCst) < work && !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(LONGEST_WAIT);
        }
    }

    /// Wakes the threads that wait for no more than `work`.
    fn wake(&self, work: u32) {
        let mut waiting = self.waiting.lock().expect("no holder panics");
        while waiting.peek().is_some_and(|waiter| waiter.work <= work) {
            if let Some(waiter) = waiting.pop() {
                waiter.thread.unpark();
            }
        }
        self.nearest.store(waiting.peek().map_or(u32::MAX, |waiter| waiter.work), Ordering::SeqCst);
    }

    /// A step has ended.
    pub fn finish(&self, lane: usize) {
        if !self.is_foreground(lane) {
            return;
        }
        let work = self.work.fetch_add(1, Ordering::SeqCst) + 1;
        if work >= self.nearest.load(Ordering::SeqCst) {
            self.wake(work);
        }
        if self.began.get().is_none()
            && (work > self.warm || self.warm_until.is_some_and(|t| Instant::now() >= t))
        {
            let _ = self.began.set(Mark { at: Instant::now(), work });
        }
    }

    /// A lane has done all its steps. The first large one that does ends the measurement: from then on there are fewer
    /// threads at work than there were in the recording.
    pub fn end(&self, lane: usize, last_t_ns: u64) {
        self.next[lane].store(u64::MAX, Ordering::Relaxed);
        // Nothing else would give up a lock whose unlocking lies behind the end.
        self.locks.unlock_all(self.application.processes[lane]);
        let all = &self.application.work;
        let major = self.application.thinks[lane].len() as f64 > all.len() as f64 * MAJOR_SHARE;
        let late = all.partition_point(|t| *t < last_t_ns) as f64 >= all.len() as f64 * LATE_SHARE;
        if self.is_foreground(lane) && major && late {
            self.end_measurement();
        }
    }

    /// Ends the measurement, unless it has ended.
    pub fn end_measurement(&self) {
        let _ = self.ended.set(Mark { at: Instant::now(), work: self.work.load(Ordering::Relaxed) });
    }

    /// Share of the foreground's steps that are done.
    pub fn share(&self) -> f64 {
        f64::from(self.work.load(Ordering::Relaxed)) / self.application.work.len().max(1) as f64
    }

    /// Seconds of the measurement, and the recorded seconds that its work took in the recording.
    pub fn measured(&self) -> Option<(f64, f64)> {
        let (began, ended) = (self.began.get()?, self.ended.get()?);
        let at = |mark: &Mark| {
            let all = &self.application.work;
            all.get((mark.work as usize).min(all.len()).checked_sub(1)?).copied()
        };
        let recorded = at(ended)?.saturating_sub(at(began)?) as f64 / 1e9;
        let seconds = ended.at.duration_since(began.at).as_secs_f64();
        (seconds > 0.0 && recorded > 0.0).then_some((seconds, recorded))
    }

    /// Uses CPU time and sleeps.
    pub fn spend(&self, due: &mut Due, cpu_ns: u64, sleep_ns: u64, stop: &AtomicBool) {
        due.cpu_ns += cpu_ns;
        if due.cpu_ns >= LEAST_BURN_NS {
            self.burn(std::mem::take(&mut due.cpu_ns), stop);
        }
        due.sleep_ns += sleep_ns as i64;
        if due.sleep_ns >= LEAST_SLEEP_NS as i64 {
            let began = Instant::now();
            sleep(Duration::from_nanos(due.sleep_ns as u64), stop);
            due.sleep_ns -= began.elapsed().as_nanos() as i64;
            // One long delay is not made up for by cutting many sleeps short.
            due.sleep_ns = due.sleep_ns.max(-(LEAST_SLEEP_NS as i64) * 10);
        }
    }

    /// Uses the CPU time of other processes, in proportion to the work done, until it is `over`.
    pub fn run_beside(&self, over: &AtomicBool, stop: &AtomicBool) {
        let (all, beside) = (self.application.work.len().max(1) as f64, self.application.beside_ns as f64);
        let mut used = 0;
        while beside > 0.0 && !over.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            let due = (beside * f64::from(self.work.load(Ordering::Relaxed)) / all) as u64;
            let now = due.saturating_sub(used).min(MOST_BESIDE_NS);
            self.burn(now, stop);
            used += now;
            std::thread::sleep(BESIDE_EVERY);
        }
    }

    /// CPU time of a call, in nanoseconds.
    pub fn call_ns(&self) -> u64 {
        self.call_ns
    }
}

/// Lets this thread's sleeps end within a microsecond or so of their time instead of 50.
pub(crate) fn sleep_precisely() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

fn thread_cpu_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(|t| t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
        .unwrap_or(0)
}

/// Uses so much CPU time of this thread: time that another thread has the CPU does not count.
fn burn(cpu_ns: u64, stop: &AtomicBool) {
    let until = thread_cpu_ns() + cpu_ns;
    loop {
        let now = thread_cpu_ns();
        if now >= until || stop.load(Ordering::Relaxed) {
            return;
        }
        let pause = Instant::now();
        let left = Duration::from_nanos((until - now).min(100_000));
        while pause.elapsed() < left {
            std::hint::spin_loop();
        }
    }
}

fn sleep(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        std::thread::sleep(left.min(LONGEST_WAIT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burning_uses_the_cpu_time_asked_for() {
        let stop = AtomicBool::new(false);
        let before = thread_cpu_ns();
        burn(20_000_000, &stop);
        let used = thread_cpu_ns() - before;
        assert!((20_000_000..40_000_000).contains(&used), "{used} ns");
    }

    /// Two lanes of two processes, and a third whose process is that of the first.
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
        // A lane that has come to its end gives up what its process holds.
        pacer.end(1, 0);
        pacer.lock(0, 7, RANGE, &stop);
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
