//! The CPU time of this process.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// Returns the user and system time used so far, in seconds.
pub(crate) fn cpu_seconds() -> f64 {
    let seconds = |t: TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map(|u| seconds(u.user_time()) + seconds(u.system_time())).unwrap_or(0.0)
}
