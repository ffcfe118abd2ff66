//! CPU time and sleeps of the present thread.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_openzfs::clock::{self, Time};
use rustix::thread::set_current_timer_slack;
use rustix::time::{ClockId, clock_gettime};

/// The longest wait between two checks of the stop flag.
pub(crate) const MAX_WAIT: Duration = Duration::from_millis(50);

/// Reduces the thread's timer slack from the kernel's default of 50 µs, so that its sleeps end within about a
/// microsecond of their time.
pub(crate) fn sleep_precisely() {
    let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
}

fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

/// Uses the given CPU time of this thread. Time during which other threads run does not count. On the virtual clock, it passes at once.
pub(crate) fn burn(cpu_ns: u64, stop: &AtomicBool) {
    if clock::is_virtual() {
        return clock::work(Duration::from_nanos(cpu_ns));
    }
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

/// Waits for this time, or until `stop` is set.
pub(crate) fn sleep(time: Duration, stop: &AtomicBool) {
    sleep_until(Time::now() + time, stop);
}

/// Waits until this time, or until `stop` is set.
pub(crate) fn sleep_until(time: Time, stop: &AtomicBool) {
    loop {
        let left = time.since(Time::now());
        if left.is_zero() || stop.load(Ordering::Relaxed) {
            return;
        }
        clock::sleep(left.min(MAX_WAIT));
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
}
