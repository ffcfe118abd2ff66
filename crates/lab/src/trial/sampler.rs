//! Samples the host, the driver and the pool, at given moments and once a second.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_base::block::{DiskStats, device_below};
use poolwright_base::cpu::{CpuTimes, HostCpu, kernel_ticks};
use poolwright_base::device::Device;
use poolwright_base::memory;
use poolwright_base::memory_limit::MemoryGroup;
use poolwright_base::process::{CpuTicks, clock_ticks_per_second};
use poolwright_base::stats::mean;
use poolwright_openzfs::{VdevStats, ZilStats};

use super::processes;
use super::target::{Counters, DatasetServer, Target};

/// Interval between two samples.
const EVERY: Duration = Duration::from_secs(1);

/// All counters and levels at one moment. Values that cannot be read are missing.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub at: Instant,
    /// CPU time of the host.
    pub host: Option<CpuTimes>,
    /// Runnable threads of the host: the mean of the readings since the previous snapshot.
    pub runnable: Option<f64>,
    /// `MemAvailable` in bytes.
    pub memory: Option<u64>,
    /// Memory of the trial in bytes, if it is limited: all of its processes, and the page cache.
    pub used: Option<u64>,
    /// Counters of the device below the target.
    pub disk: Option<DiskStats>,
    /// CPU time of the driver and its descendants, including those that have ended.
    pub driver: CpuTicks,
    /// CPU time of what serves the datasets, in clock ticks. Only differences have a meaning.
    pub engine: Option<i64>,
    /// The pool.
    pub counters: Option<Counters>,
}

/// Samples the host, the driver and the pool of one target.
pub struct Sampler<'a> {
    target: &'a dyn Target,
    disk: Option<Device>,
    servers: Vec<DatasetServer>,
    group: Option<MemoryGroup>,
}

impl<'a> Sampler<'a> {
    /// Creates a sampler for a target that stays mounted while the sampler exists.
    /// `group` is that of this process, if its memory is limited.
    pub fn new(target: &'a dyn Target, group: Option<MemoryGroup>) -> Sampler<'a> {
        Sampler { target, disk: device_below(target.location()), servers: target.servers(), group }
    }

    /// Returns the processes that must not be ended or counted with the driver's.
    pub fn except(&self) -> Vec<i32> {
        self.servers.iter().filter_map(|server| server.process()).collect()
    }

    /// Reads all counters.
    pub fn snapshot(&self) -> Snapshot {
        let host = HostCpu::read();
        Snapshot {
            at: Instant::now(),
            host: host.map(|host| host.times),
            runnable: host.and_then(other_runnable),
            memory: memory::available(),
            used: self.group.as_ref().and_then(MemoryGroup::usage),
            disk: self.disk.and_then(DiskStats::read),
            driver: processes::used(&self.except()),
            engine: cpu_time_of(&self.servers),
            counters: self.target.counters().ok().flatten(),
        }
    }

    /// Takes a snapshot once a second and counts runnable threads twenty times a second, until `stop` is set. Takes a
    /// last snapshot unless the previous one is less than a quarter of a second old.
    pub fn watch(&self, stop: &AtomicBool) -> Vec<Snapshot> {
        let start = Instant::now();
        let mut snapshots = vec![self.snapshot()];
        let mut runnable: Vec<f64> = Vec::new();
        let averaged = |runnable: &mut Vec<f64>| {
            let mut snapshot = self.snapshot();
            runnable.extend(snapshot.runnable);
            snapshot.runnable = (!runnable.is_empty()).then(|| mean(runnable));
            runnable.clear();
            snapshot
        };
        for n in 1u32.. {
            while start.elapsed() < EVERY * n {
                if stop.load(Ordering::Acquire) {
                    if snapshots.last().is_some_and(|last| last.at.elapsed() >= EVERY / 4) {
                        snapshots.push(averaged(&mut runnable));
                    }
                    return snapshots;
                }
                let left = (EVERY * n).saturating_sub(start.elapsed());
                std::thread::sleep(left.min(EVERY / 20));
                runnable.extend(HostCpu::read().and_then(other_runnable));
            }
            // Skip ticks that were missed while the sampler was busy.
            if start.elapsed() < EVERY * (n + 1) {
                snapshots.push(averaged(&mut runnable));
            }
        }
        snapshots
    }
}

/// Returns the runnable threads without this one, as `sar -q` counts.
fn other_runnable(host: HostCpu) -> Option<f64> {
    host.runnable.map(|threads| threads.saturating_sub(1) as f64)
}

/// Returns the sum of the servers' CPU times; `None` without a server, or if one of them has ended.
fn cpu_time_of(servers: &[DatasetServer]) -> Option<i64> {
    let of = |server: &DatasetServer| match server {
        DatasetServer::Process(id) => processes::used_by(*id).map(|ticks| ticks.total() as i64),
        DatasetServer::Kernel => kernel_ticks(&[]),
    };
    if servers.is_empty() { None } else { servers.iter().map(of).sum() }
}

/// Converts ticks to seconds.
pub fn seconds(ticks: u64) -> f64 {
    ticks as f64 / clock_ticks_per_second() as f64
}

/// The difference between two snapshots. A counter that went backwards was reset and yields no value.
#[derive(Clone, Copy, Debug)]
pub struct Delta<'a>(pub &'a Snapshot, pub &'a Snapshot);

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Delta<'_> {
    /// Length of the interval in seconds.
    pub fn seconds(&self) -> f64 {
        self.1.at.saturating_duration_since(self.0.at).as_secs_f64()
    }

    /// CPU usage of the host in per cent.
    pub fn host_cpu(&self) -> Option<f64> {
        let (before, after) = (self.0.host?, self.1.host?);
        share(after.busy().checked_sub(before.busy())?, after.total().checked_sub(before.total())?)
            .map(|s| 100.0 * s)
    }

    /// Shares of the host's CPU time in per cent: user mode, kernel mode with interrupts, idle while a thread waits for I/O, and taken by the
    /// hypervisor.
    pub fn host_modes(&self) -> Option<[f64; 4]> {
        let (before, after) = (self.0.host?, self.1.host?);
        let total = after.total().checked_sub(before.total())?;
        let modes = |times: CpuTimes| {
            [times.user + times.nice, times.system + times.irq + times.softirq, times.iowait, times.steal]
        };
        let (before, after) = (modes(before), modes(after));
        let mut shares = [0.0; 4];
        for (mode, to) in shares.iter_mut().enumerate() {
            *to = 100.0 * share(after[mode].checked_sub(before[mode])?, total)?;
        }
        Some(shares)
    }

    /// CPU time of the driver in seconds, in user mode and in the kernel.
    pub fn driver(&self) -> (f64, f64) {
        let (before, after) = (self.0.driver, self.1.driver);
        let since = |before: u64, after: u64| seconds(after.saturating_sub(before));
        (since(before.user, after.user), since(before.system, after.system))
    }

    /// CPU time in seconds of what serves the datasets; 0 if it used less than the kernel's readings differ by.
    pub fn engine(&self) -> Option<f64> {
        Some(seconds((self.1.engine? - self.0.engine?).max(0) as u64))
    }

    /// Per cent of the time in which the device was busy, and its mean queue length.
    pub fn disk(&self) -> Option<(f64, f64)> {
        let (before, after) = (self.0.disk?, self.1.disk?);
        let ms = self.seconds() * 1e3;
        let busy = after.busy_ms.checked_sub(before.busy_ms)? as f64 / ms;
        let queue = after.queued_ms.checked_sub(before.queued_ms)? as f64 / ms;
        (ms > 0.0).then_some(((100.0 * busy).min(100.0), queue))
    }

    /// Mean duration of the device's requests, and the part of it in which the device was busy, in nanoseconds.
    pub fn disk_requests(&self) -> Option<(f64, f64)> {
        let (before, after) = (self.0.disk?, self.1.disk?);
        let requests = after.requests.checked_sub(before.requests).filter(|requests| *requests > 0)? as f64;
        let busy = after.busy_ms.checked_sub(before.busy_ms)? as f64 * 1e6;
        let waited = after.queued_ms.checked_sub(before.queued_ms)? as f64 * 1e6;
        Some((waited / requests, busy / requests))
    }

    /// Differences of the pool's counters; the sizes of the ARC are those at the end.
    pub fn counters(&self) -> Option<Counters> {
        let (before, after) = (self.0.counters.as_ref()?, self.1.counters.as_ref()?);
        let arc = after.arc.since(&before.arc);
        let vdevs = after.vdevs.iter().map(|(name, moved)| {
            (name.clone(), moved.since(&before.vdevs.get(name).copied().unwrap_or_default()))
        });
        let zils = after.zils.iter().map(|(name, zil)| {
            (name.clone(), zil.since(&before.zils.get(name).copied().unwrap_or_default()))
        });
        Some(Counters { arc, vdevs: vdevs.collect(), zils: zils.collect() })
    }
}

/// Sums over all vdevs and logs, and the hit ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Sum over all vdevs.
    pub vdevs: VdevStats,
    /// Number of commits of the intent logs.
    pub zil_commits: u64,
    /// Bytes of log blocks that were written.
    pub zil_bytes: u64,
    /// Hits divided by accesses; `None` without accesses.
    pub hit_ratio: Option<f64>,
}

impl Sums {
    /// Computes the sums of differences of counters.
    pub fn of(moved: &Counters) -> Sums {
        let zil = moved.zils.values().fold(ZilStats::default(), |sum, one| sum.plus(one));
        Sums {
            vdevs: moved.vdevs.values().fold(VdevStats::default(), |sum, one| sum.plus(one)),
            zil_commits: zil.commits,
            zil_bytes: zil.normal_write + zil.slog_write,
            hit_ratio: moved.arc.hit_ratio(),
        }
    }
}

/// Series by name, while they grow.
pub type SeriesByName = BTreeMap<String, crate::Series>;
