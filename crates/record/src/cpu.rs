//! CPU time of the machine and of the recorded processes, second by second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use poolwright_base::cpu::HostCpu;
use poolwright_base::process::{self, ProcessStat};
use poolwright_trace::CpuSecond;

/// `/proc` counts CPU time in hundredths of a second (`USER_HZ`, the same on every x86-64 kernel).
const TICK_NS: u64 = 10_000_000;
/// The device from which a FUSE server reads requests (`fuse(4)`).
const FUSE: &str = "/dev/fuse";
const SECOND: Duration = Duration::from_secs(1);

/// Samples `/proc` once a second.
#[derive(Debug)]
pub(crate) struct CpuSampler {
    /// Up to when the samples reach.
    sampled: Instant,
    host_ticks: u64,
    /// Ticks of each process at its last sample.
    process_ticks: BTreeMap<u32, u64>,
    /// Ticks of all other processes at the last sample.
    other_ticks: BTreeMap<u32, u64>,
    /// Other processes that have used CPU time, and whether they serve a file system.
    serves_fuse: BTreeMap<u32, bool>,
    samples: Vec<CpuSecond>,
}

impl CpuSampler {
    /// The first second begins at `start`, which is now.
    pub fn new(start: Instant) -> CpuSampler {
        CpuSampler {
            sampled: start,
            host_ticks: host_ticks(),
            process_ticks: BTreeMap::new(),
            other_ticks: others(&BTreeSet::new()),
            serves_fuse: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Whether a second has passed since the last sample.
    pub fn is_due(&self, now: Instant) -> bool {
        now.duration_since(self.sampled) >= SECOND
    }

    /// Samples the machine and `pids`, and removes from `pids` those that have ended. If several seconds have passed, they
    /// get equal shares.
    ///
    /// A process counts from the first sample it is in: its CPU time before may be from before the recording.
    pub fn sample(&mut self, now: Instant, pids: &mut BTreeSet<u32>) {
        let seconds = now.duration_since(self.sampled).as_secs();
        if seconds == 0 {
            return;
        }
        self.sampled += Duration::from_secs(seconds);
        let host_ticks = host_ticks();
        let host = host_ticks.saturating_sub(self.host_ticks);
        self.host_ticks = host_ticks;
        let mut subject = 0;
        let mut process_ticks = BTreeMap::new();
        pids.retain(|&pid| {
            let Some(ticks) = cpu_ticks(pid) else { return false };
            subject += ticks.saturating_sub(self.process_ticks.get(&pid).copied().unwrap_or(ticks));
            process_ticks.insert(pid, ticks);
            true
        });
        self.process_ticks = process_ticks;
        let other_ticks = others(pids);
        self.serves_fuse.retain(|pid, _| other_ticks.contains_key(pid));
        let mut others = 0;
        for (&pid, &ticks) in &other_ticks {
            let used = ticks.saturating_sub(self.other_ticks.get(&pid).copied().unwrap_or(ticks));
            if used > 0 && !*self.serves_fuse.entry(pid).or_insert_with(|| serves_fuse(pid)) {
                others += used;
            }
        }
        self.other_ticks = other_ticks;
        let share = |ticks: u64| ticks * TICK_NS / seconds;
        let sample = CpuSecond { host_ns: share(host), subject_ns: share(subject), others_ns: share(others) };
        self.samples.extend((0..seconds).map(|_| sample));
    }

    /// The samples of all whole seconds so far.
    pub fn into_samples(self) -> Vec<CpuSecond> {
        self.samples
    }
}

/// Ticks that all CPUs of the machine have used since boot; 0 if `/proc/stat` cannot be read.
fn host_ticks() -> u64 {
    HostCpu::read().unwrap_or_default().times.used()
}

/// Ticks that a process has used; `None` if it has ended.
fn cpu_ticks(pid: u32) -> Option<u64> {
    ProcessStat::read(pid as i32).map(|stat| stat.own.total())
}

/// The same; `None` also for a thread of the kernel.
fn user_cpu_ticks(pid: u32) -> Option<u64> {
    let stat = ProcessStat::read(pid as i32)?;
    (!stat.is_kernel_thread()).then_some(stat.own.total())
}

/// Ticks of the processes that are neither in `subject` nor the recorder nor threads of the kernel: clients, as a rule, and
/// servers of file systems.
fn others(subject: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
    let pids = process::ids().unwrap_or_default().into_iter().filter_map(|pid| u32::try_from(pid).ok());
    let is_other = |pid: &u32| *pid != std::process::id() && !subject.contains(pid);
    pids.filter(is_other).filter_map(|pid| Some((pid, user_cpu_ticks(pid)?))).collect()
}

/// Whether the process serves a file system in user space. Its work belongs to the storage, which the replay performs itself,
/// as it does that of the kernel's threads.
fn serves_fuse(pid: u32) -> bool {
    process::open_files(pid as i32).any(|file| file == Path::new(FUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_the_fuse_device_open_serves_a_file_system() {
        assert!(!serves_fuse(std::process::id()));
        let opened = std::fs::File::options().read(true).write(true).open(FUSE);
        if opened.is_err() {
            eprintln!("skipped: {FUSE} cannot be opened");
            return;
        }
        // In a process of its own, lest other tests of this one see it.
        let mut server =
            std::process::Command::new("sleep").arg("60").stdin(opened.unwrap()).spawn().unwrap();
        let serves = serves_fuse(server.id());
        server.kill().unwrap();
        server.wait().unwrap();
        assert!(serves);
    }

    #[test]
    fn seconds_that_were_missed_get_equal_shares_and_ended_processes_are_dropped() {
        let mut sampler = CpuSampler::new(Instant::now());
        let mut pids = BTreeSet::from([std::process::id(), u32::MAX]);
        let start = sampler.sampled;
        assert!(!sampler.is_due(start));
        sampler.sample(start + SECOND / 2, &mut pids);
        assert_eq!(pids.len(), 2, "nothing is read before a second has passed");
        assert!(sampler.is_due(start + SECOND));
        sampler.sample(start + SECOND * 7 / 2, &mut pids);
        assert_eq!(pids, BTreeSet::from([std::process::id()]));
        assert_eq!(sampler.sampled, start + SECOND * 3);
        let samples = sampler.into_samples();
        assert_eq!(samples.len(), 3);
        assert!(samples.iter().all(|sample| *sample == samples[0] && sample.subject_ns == 0), "{samples:?}");
    }
}
