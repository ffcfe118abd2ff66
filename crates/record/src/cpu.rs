//! CPU time of the machine and of the recorded processes, second by second.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use poolwright_trace::CpuSecond;

use crate::subject;

/// `/proc` counts CPU time in hundredths of a second (`USER_HZ`, the same on every x86-64 kernel).
const TICK_NS: u64 = 10_000_000;
/// What a server of FUSE reads requests from (`fuse(4)`).
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
            host_ticks: host().ticks,
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
        let host_ticks = host().ticks;
        let host = host_ticks.saturating_sub(self.host_ticks);
        self.host_ticks = host_ticks;
        let mut subject = 0;
        let mut process_ticks = BTreeMap::new();
        pids.retain(|&pid| {
            let Some(ticks) = subject::cpu_ticks(pid) else { return false };
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

/// CPUs of the machine; 0 if `/proc/stat` cannot be read.
pub(crate) fn cores() -> u32 {
    host().cores
}

/// What `/proc/stat` says of the machine.
#[derive(Debug, Default, PartialEq)]
struct Host {
    /// Used by all CPUs since boot: neither idle nor taken by the hypervisor.
    ticks: u64,
    cores: u32,
}

fn host() -> Host {
    std::fs::read_to_string("/proc/stat").map_or_else(|_| Host::default(), |text| parse(&text))
}

/// Parses `/proc/stat` (`proc_stat(5)`): user, nice, system, idle, iowait, irq, softirq, steal, …
fn parse(text: &str) -> Host {
    let mut host = Host::default();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        match fields.next() {
            Some("cpu") => {
                let used = |(index, _): &(usize, u64)| matches!(index, 0 | 1 | 2 | 5 | 6);
                let ticks = fields.map_while(|field| field.parse().ok()).enumerate();
                host.ticks = ticks.filter(used).map(|(_, ticks)| ticks).sum();
            }
            Some(name) if name.starts_with("cpu") => host.cores += 1,
            _ => {}
        }
    }
    host
}

/// Ticks of the processes that are neither in `subject` nor the recorder nor threads of the kernel: clients, as a rule, and
/// servers of file systems.
fn others(subject: &BTreeSet<u32>) -> BTreeMap<u32, u64> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_other = |pid: &u32| *pid != std::process::id() && !subject.contains(pid);
    pids.filter(is_other).filter_map(|pid| Some((pid, subject::user_cpu_ticks(pid)?))).collect()
}

/// Whether the process serves a file system in user space. What it does is the storage's part, which a replay does by itself,
/// as it does that of the kernel's threads.
fn serves_fuse(pid: u32) -> bool {
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut opened = descriptors.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    opened.any(|target| target == Path::new(FUSE))
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
    fn idle_time_is_not_used_time() {
        let text = "cpu  1 20 300 4000 50000 600000 7000000 80000000 5 5\n\
                    cpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5 0\n";
        assert_eq!(parse(text), Host { ticks: 7_600_321, cores: 2 });
        assert_eq!(parse(""), Host::default());
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
