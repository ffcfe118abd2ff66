//! CPU time of the whole host, from `/proc/stat` (`proc_stat(5)`).

use crate::process;

/// CPU time of all CPUs since boot, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// User mode, normal priority; includes guests.
    pub user: u64,
    /// User mode, low priority.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task waits for I/O.
    pub iowait: u64,
    /// Hardware interrupts.
    pub irq: u64,
    /// Software interrupts.
    pub softirq: u64,
    /// Taken by the hypervisor.
    pub steal: u64,
}

impl CpuTimes {
    /// Time used by this host: neither idle nor taken by the hypervisor.
    pub fn used(&self) -> u64 {
        self.user + self.nice + self.system + self.irq + self.softirq
    }

    /// Time in which the CPUs were not available: used by this host or taken by the hypervisor.
    pub fn busy(&self) -> u64 {
        self.used() + self.steal
    }

    /// All time.
    pub fn total(&self) -> u64 {
        self.busy() + self.idle + self.iowait
    }
}

/// The CPUs of the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// The number of CPUs that are online.
    pub cores: u32,
    /// Their time.
    pub times: CpuTimes,
    /// Threads that run or wait for a CPU, including the one that reads this number.
    pub runnable: Option<u64>,
}

impl HostCpu {
    /// Reads `/proc/stat`. Returns `None` if it cannot be read or parsed.
    pub fn read() -> Option<HostCpu> {
        HostCpu::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the content of `/proc/stat`.
    pub fn parse(text: &str) -> Option<HostCpu> {
        let mut host = HostCpu::default();
        let mut times = None;
        for line in text.lines() {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "cpu" => times = parse_times(rest),
                "procs_running" => host.runnable = rest.trim().parse().ok(),
                _ if name.starts_with("cpu") => host.cores += 1,
                _ => {}
            }
        }
        host.times = times?;
        Some(host)
    }
}

/// Attempts to read the times of all processes without one of them ending in between.
const READINGS: usize = 5;

/// Returns the clock ticks of kernel threads and of interrupts: those of the host without those of all other processes. `with` are
/// processes that are included. `None` if the host's time cannot be read.
///
/// Only the difference of two results has a meaning: the kernel samples the time of the host at each clock tick and measures that of
/// a process exactly, so that a result can be negative after days of short bursts.
///
/// OpenZFS compresses and checks blocks in threads that come and go, so their own counters do not add up. The time of processes that
/// ended without being waited for is included.
pub fn kernel_ticks(with: &[i32]) -> Option<i64> {
    let mut ticks = None;
    for _ in 0..READINGS {
        let before = process::ids().ok()?;
        let host = HostCpu::read()?;
        let others =
            process::all().into_iter().filter(|of| !of.is_kernel_thread() && !with.contains(&of.pid));
        let others: u64 = others.map(|of| of.own.total() + of.waited.total()).sum();
        ticks = Some(host.times.used() as i64 - others as i64);
        // The time of a process that ends is added to its parent's: it may have been read twice or not at all.
        let after = process::ids().ok()?;
        if before.iter().all(|pid| after.contains(pid)) {
            break;
        }
    }
    ticks
}

fn parse_times(fields: &str) -> Option<CpuTimes> {
    let mut ticks = fields.split_whitespace().map_while(|field| field.parse::<u64>().ok());
    let mut next = || ticks.next();
    Some(CpuTimes {
        user: next()?,
        nice: next()?,
        system: next()?,
        idle: next()?,
        iowait: next()?,
        irq: next().unwrap_or(0),
        softirq: next().unwrap_or(0),
        steal: next().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_file() {
        let stat = include_str!("../fixtures/stat");
        let host = HostCpu::parse(stat).unwrap();
        let all = stat.lines().next().unwrap().split_whitespace().skip(1);
        let all: Vec<u64> = all.map(|word| word.parse().unwrap()).collect();
        assert_eq!(host.times.total(), all[..8].iter().sum::<u64>());
        assert_eq!(host.times.busy(), all[0] + all[1] + all[2] + all[5] + all[6] + all[7]);
        assert!(host.runnable.is_some());
    }

    #[test]
    fn idle_time_is_not_used_time() {
        let text = "cpu  1 20 300 4000 50000 600000 7000000 80000000 5 5\n\
                    cpu0 1 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\nintr 5 0\nprocs_running 4\nprocs_blocked 8\n";
        let host = HostCpu::parse(text).unwrap();
        assert_eq!((host.times.used(), host.cores, host.runnable), (7_600_321, 2, Some(4)));
        for incomplete in ["", "cpu0 1 2 3\n", "cpu 1 2 3\n"] {
            assert_eq!(HostCpu::parse(incomplete), None);
        }
    }
}
