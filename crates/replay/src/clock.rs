//! The CPU time of this process.

use poolwright_openzfs::clock;
use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time used so far, in seconds: the process's user and system time, or that of the virtual clock's threads.
pub(crate) fn cpu_seconds() -> f64 {
    if clock::is_virtual() {
        return clock::cpu_time().as_secs_f64();
    }
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
