//! The CPU time of this process.

use rustix::time::{ClockId, clock_gettime};

/// Returns the user and system time used so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}
