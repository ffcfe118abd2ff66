//! The CPUs on which a trial runs.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs on which this process may run.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect()
}

/// Restricts this process to as many CPUs as the recorded machine had, if that is fewer, so that the application's
/// threads and OpenZFS's threads compete for them as in the recording. If the host refuses, they compete less.
pub(crate) fn limit_to(cores: u32) {
    let mine = allowed_cpus();
    if cores == 0 || cores as usize >= mine.len() {
        return;
    }
    let mut set = CpuSet::new();
    mine[..cores as usize].iter().for_each(|cpu| set.set(*cpu));
    let _ = sched_setaffinity(None, &set);
}
