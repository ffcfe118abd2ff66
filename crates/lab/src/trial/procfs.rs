//! What the kernel's text files say, parsed: functions of text, so that captured files are their tests.

/// Ticks of all CPUs together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCpu {
    /// Neither idle nor waiting for a device; what a hypervisor took away counts as busy.
    pub busy: u64,
    /// All.
    pub total: u64,
}

/// The first line of `/proc/stat`.
pub fn host_cpu(stat: &str) -> Option<HostCpu> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // user nice system idle iowait irq softirq steal; what follows (guests) is in `user` and `nice` already
    let ticks: Vec<u64> = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let total = ticks.iter().sum();
    Some(HostCpu { busy: total - ticks.get(3)? - ticks.get(4)?, total })
}

/// Processes that run or wait for a CPU, without the one that asks (as `sar -q` has it).
pub fn run_queue(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("procs_running "))?;
    Some(line.trim().parse::<u64>().ok()?.saturating_sub(1))
}

/// A row of `/proc/meminfo`, in bytes.
pub fn memory(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// A device since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    /// Milliseconds in which it had something to do.
    pub busy_ms: u64,
    /// Milliseconds of all requests together.
    pub queued_ms: u64,
}

/// The row of a device in `/proc/diskstats`.
pub fn disk(diskstats: &str, device: (u32, u32)) -> Option<Disk> {
    let words = |line: &'_ str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let number = |word: Option<&String>| word.and_then(|word| word.parse::<u64>().ok());
    let row = diskstats.lines().map(words).find(|words| {
        number(words.first()) == Some(device.0.into()) && number(words.get(1)) == Some(device.1.into())
    })?;
    Some(Disk { busy_ms: number(row.get(12))?, queued_ms: number(row.get(13))? })
}

/// What is mounted as the file system with this number: of file systems that have several devices behind them, or none,
/// the number is no device's own.
pub fn mount_source(mountinfo: &str, device: (u32, u32)) -> Option<String> {
    let number = format!("{}:{}", device.0, device.1);
    mountinfo.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        (mount.split(' ').nth(2)? == number).then(|| source.split(' ').nth(1).map(str::to_owned))?
    })
}

/// Mount points below a directory, the innermost last.
pub fn mounts_below(mountinfo: &str, dir: &str) -> Vec<String> {
    let point = |line: &str| line.split(' ').nth(4).map(unescaped);
    let below = |point: &String| point.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    mountinfo.lines().filter_map(point).filter(below).collect()
}

/// `\040` and the like: blanks, tabs, newlines and backslashes of paths.
fn unescaped(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) if *first == b'\\' => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// CPU time in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// In programs.
    pub user: u64,
    /// In the kernel for them.
    pub system: u64,
}

impl std::ops::AddAssign for Ticks {
    fn add_assign(&mut self, other: Ticks) {
        self.user += other.user;
        self.system += other.system;
    }
}

/// A process, as `/proc/PID/stat` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its program's name, 15 bytes at most.
    pub name: String,
    /// `R`, `S`, `Z` …
    pub state: char,
    /// Its parent.
    pub parent: i32,
    /// What it used.
    pub own: Ticks,
    /// What the children used that it has waited for, and theirs.
    pub waited: Ticks,
}

/// `/proc/PID/stat`. A name may hold blanks and parentheses: the last one counts.
pub fn process(stat: &str) -> Option<Process> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (pid, name) = head.split_once('(')?;
    let words: Vec<&str> = tail.split_whitespace().collect();
    let ticks = |at: usize| -> Option<Ticks> {
        Some(Ticks { user: words.get(at)?.parse().ok()?, system: words.get(at + 1)?.parse().ok()? })
    };
    Some(Process {
        pid: pid.trim().parse().ok()?,
        name: name.to_owned(),
        state: words.first()?.chars().next()?,
        parent: words.get(1)?.parse().ok()?,
        own: ticks(11)?,
        waited: ticks(13)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_cpu_and_queue() {
        let stat = include_str!("../../fixtures/stat");
        let cpu = host_cpu(stat).unwrap();
        let all = stat.lines().next().unwrap().split_whitespace().skip(1);
        let all: Vec<u64> = all.map(|word| word.parse().unwrap()).collect();
        assert_eq!(cpu.total, all[..8].iter().sum::<u64>());
        assert_eq!(cpu.busy, all[0] + all[1] + all[2] + all[5] + all[6] + all[7]);
        assert_eq!(run_queue("cpu  1 2\nprocs_running 4\nprocs_blocked 8\n"), Some(3));
        assert!(run_queue(stat).is_some());
        assert_eq!(host_cpu("cpu0 1 2 3\n"), None);
        assert_eq!(host_cpu("cpu 1 2 3\n"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let meminfo = include_str!("../../fixtures/meminfo");
        let available = memory(meminfo, "MemAvailable").unwrap();
        assert!(available > 1 << 20 && available < memory(meminfo, "MemTotal").unwrap());
        assert_eq!(memory("Mem: 3 kB\nMemFree:      12 kB\n", "MemFree"), Some(12 * 1024));
        assert_eq!(memory(meminfo, "Mem"), None);
    }

    #[test]
    fn a_disk_by_its_number() {
        let text = " 254       0 vda 11 2 33 4 55 6 77 8 9 1000 2000 0 0 0 0 0 0\n   7       1 loop1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(disk(text, (254, 0)), Some(Disk { busy_ms: 1000, queued_ms: 2000 }));
        assert_eq!(disk(text, (7, 1)), Some(Disk::default()));
        assert_eq!(disk(text, (0, 23)), None);
        let vda = disk(include_str!("../../fixtures/diskstats"), (254, 0)).unwrap();
        assert!(vda.queued_ms >= vda.busy_ms && vda.busy_ms > 0);
    }

    #[test]
    fn mounts() {
        let text = include_str!("../../fixtures/mountinfo");
        assert_eq!(mount_source(text, (254, 0)).as_deref(), Some("/dev/vda"));
        assert_eq!(mount_source(text, (0, 45)).as_deref(), Some("/dev/vdb"));
        assert_eq!(mount_source(text, (0, 40)).as_deref(), Some("lab/db"));
        assert_eq!(mount_source(text, (8, 1)), None);
        assert_eq!(mounts_below(text, "/scratch"), ["/scratch/with blank"]);
        assert_eq!(mounts_below(text, "/scr"), [""; 0]);
    }

    #[test]
    fn processes_with_names_of_any_kind() {
        let line =
            "7163 (a (b) c) S 7152 7152 31101 0 -1 4194304 99 0 0 0 12 34 56 78 20 0 1 0 3549611 3133440 394";
        let found = process(line).unwrap();
        assert_eq!((found.pid, found.parent, found.state), (7163, 7152, 'S'));
        assert_eq!(found.name, "a (b) c");
        assert_eq!(found.own, Ticks { user: 12, system: 34 });
        assert_eq!(found.waited, Ticks { user: 56, system: 78 });
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert_eq!(process(&own).unwrap().pid, std::process::id() as i32);
        assert_eq!(process("7163 (cat"), None);
    }
}
