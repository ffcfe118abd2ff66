//! The speed of a processor, so that costs measured on one machine can be converted to those of another.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Bytes of the measured record, the default recordsize of OpenZFS.
const RECORD: usize = 128 << 10;
const LEVEL: i32 = 3;
/// The measurement ends after this many runs, or after this CPU time in nanoseconds.
const MAX_RUNS: u32 = 300;
const MAX_NS: u64 = 300_000_000;

/// A machine's processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// The model, from `/proc/cpuinfo`, with the numbers of its generation; empty if unknown.
    pub model: String,
    /// The CPU time in nanoseconds in which zstd-3 compresses and decompresses a certain record of 128K: the shortest of many runs.
    pub record_ns: u64,
    /// How long the kernel's work takes; missing in traces of earlier releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelTimes>,
}

/// How long work takes that a storage engine in the kernel does, besides codecs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTimes {
    /// The CPU time of a read of one byte that is in the page cache, in nanoseconds: the shortest mean of many runs.
    pub read_ns: u64,
    /// The time in which a thread wakes another one on the same processor and goes to sleep, in nanoseconds: the shortest mean of many runs.
    pub switch_ns: u64,
    /// The CPU time of a copied byte, in picoseconds, for data that are not in the processor's own caches: the shortest of some runs.
    pub copy_ps: u64,
}

/// How long a codec of OpenZFS takes for a record of the database's data: the mean over some records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecTime {
    /// The value of the property `compression`.
    pub codec: String,
    /// Size of the record in bytes.
    pub record_bytes: u64,
    /// The number of halvings that lead from the record's size to its compressed size: 0 below a ratio of 2, 1 below 4; at most 7.
    pub ratio_bits: u32,
    /// CPU time of compression in nanoseconds.
    pub compress_ns: u64,
    /// CPU time of decompression in nanoseconds.
    pub decompress_ns: u64,
}

/// [`KernelTimes`] of the machine whose costs docs/derivations.md ("What work costs") has: medians of eight measurements.
const REFERENCE: KernelTimes = KernelTimes { read_ns: 330, switch_ns: 4200, copy_ps: 27 };

impl Processor {
    /// Measures this machine's processor, which takes half a second; `None` if zstd fails.
    pub fn measure() -> Option<Processor> {
        let record = record();
        let mut compressor = zstd::bulk::Compressor::new(LEVEL).ok()?;
        let mut decompressor = zstd::bulk::Decompressor::new().ok()?;
        let began = thread_ns();
        let mut shortest = u64::MAX;
        for _ in 0..MAX_RUNS {
            let run = thread_ns();
            let compressed = compressor.compress(&record).ok()?;
            decompressor.decompress(&compressed, RECORD).ok().filter(|same| *same == record)?;
            let now = thread_ns();
            shortest = shortest.min(now - run);
            if now - began >= MAX_NS {
                break;
            }
        }
        Some(Processor { model: this_model(), record_ns: shortest.max(1), kernel: KernelTimes::measure() })
    }

    /// Whether this machine has the same processor, as far as is known.
    pub fn is_this_machines(&self) -> bool {
        !self.model.is_empty() && self.model == this_model()
    }

    /// Returns how many times as long as `other` this processor takes for codecs.
    pub fn times_of(&self, other: &Processor) -> f64 {
        self.record_ns as f64 / other.record_ns.max(1) as f64
    }
}

/// Runs of each measurement of [`KernelTimes`], and the work in a run.
const READ_RUNS: (u32, u32) = (50, 200);
const SWITCH_RUNS: (usize, u32) = (48, 40);
const COPY_RUNS: u32 = 4;
/// Bytes that are copied: more than the caches of one core hold.
const COPIED: usize = 16 << 20;
const PIECE: usize = 128 << 10;

impl KernelTimes {
    /// Measures this machine, which takes about a tenth of a second; `None` if it has no memory or thread left.
    fn measure() -> Option<KernelTimes> {
        Some(KernelTimes { read_ns: read_ns()?, switch_ns: switch_ns()?, copy_ps: copy_ps() })
    }

    /// Returns how many times as long as on the machine of docs/derivations.md ("What work costs") calls, switches and copies take.
    pub fn times_of_reference(&self) -> [f64; 3] {
        let times = |own: u64, reference: u64| own as f64 / reference as f64;
        [
            times(self.read_ns, REFERENCE.read_ns),
            times(self.switch_ns, REFERENCE.switch_ns),
            times(self.copy_ps, REFERENCE.copy_ps),
        ]
    }
}

fn read_ns() -> Option<u64> {
    let file = memfd_create("poolwright-processor", MemfdFlags::CLOEXEC).ok()?;
    rustix::io::pwrite(&file, &[1], 0).ok()?;
    let (runs, reads) = READ_RUNS;
    let mut shortest = u64::MAX;
    for _ in 0..runs {
        let began = thread_ns();
        for _ in 0..reads {
            rustix::io::pread(&file, &mut [0], 0).ok()?;
        }
        shortest = shortest.min((thread_ns() - began) / u64::from(reads));
    }
    Some(shortest.max(1))
}

/// Two threads take turns on one processor. Unbound, they would sometimes spin on two, and sometimes wait for an idle one.
fn switch_ns() -> Option<u64> {
    let (runs, turns) = SWITCH_RUNS;
    let mut cpu = CpuSet::new();
    cpu.set(sched_getcpu());
    let turn = Arc::new((Mutex::new(0u32), Condvar::new()));
    // Returns the times at which runs ended; none if the thread could not be bound.
    let play = move |own: u32| -> Vec<Instant> {
        let is_bound = sched_setaffinity(None, &cpu).is_ok();
        let (count, changed) = &*turn;
        let mut ends = vec![Instant::now()];
        for n in 1..=runs as u32 * turns {
            let mut count = count.lock().expect("lock is not poisoned");
            while *count % 2 != own {
                count = changed.wait(count).expect("lock is not poisoned");
            }
            *count += 1;
            changed.notify_one();
            if n % turns == 0 {
                ends.push(Instant::now());
            }
        }
        if is_bound { ends } else { Vec::new() }
    };
    let other = play.clone();
    let threads = [
        std::thread::Builder::new().spawn(move || play(0)).ok()?,
        std::thread::Builder::new().spawn(move || other(1)).ok()?,
    ];
    let ends: Vec<Vec<Instant>> =
        threads.into_iter().map(|thread| thread.join().ok()).collect::<Option<_>>()?;
    let mean = |run: &[Instant]| (run[1] - run[0]).as_nanos() as u64 / u64::from(2 * turns);
    // The longer ones were interrupted: a database under load is recorded.
    ends[0].windows(2).map(mean).min().map(|shortest| shortest.max(1))
}

fn copy_ps() -> u64 {
    let (from, mut to) = (vec![1u8; COPIED], vec![2u8; COPIED]);
    let mut shortest = u64::MAX;
    for _ in 0..COPY_RUNS {
        let began = thread_ns();
        for (from, to) in from.chunks(PIECE).zip(to.chunks_mut(PIECE)) {
            to.copy_from_slice(std::hint::black_box(from));
        }
        std::hint::black_box(&mut to);
        shortest = shortest.min((thread_ns() - began) * 1000 / COPIED as u64);
    }
    shortest.max(1)
}

fn this_model() -> String {
    std::fs::read_to_string("/proc/cpuinfo").map_or(String::new(), |text| model(&text))
}

/// The model of the first processor of `/proc/cpuinfo` on x86 or ARM. A hypervisor may have one name for several generations.
fn model(cpuinfo: &str) -> String {
    const LINES: [&str; 8] = [
        "model name",
        "cpu family",
        "model",
        "stepping",
        "CPU implementer",
        "CPU variant",
        "CPU part",
        "CPU revision",
    ];
    let first = cpuinfo.split("\n\n").next().unwrap_or_default();
    let lines = first.lines().filter_map(|line| line.split_once(':'));
    let values = lines.filter(|(name, _)| LINES.contains(&name.trim())).map(|(_, value)| value.trim());
    values.collect::<Vec<_>>().join(" ")
}

/// A record of rows with names, numbers and padding, like a database's page. zstd-3 compresses it by 3.0.
fn record() -> Vec<u8> {
    const NAMES: [&str; 8] = ["Anna", "Bertrand", "Chiara", "Dmitri", "Elif", "Farid", "Grace", "Haruki"];
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut record = Vec::with_capacity(RECORD + 64);
    while record.len() < RECORD {
        let name = NAMES[(random() % 8) as usize];
        record.extend(random().to_le_bytes());
        record.extend(format!("{name:<10}{:>8}", random() % 100_000).bytes());
    }
    record.truncate(RECORD);
    record
}

/// Returns the CPU time of this thread in nanoseconds.
pub fn thread_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_compresses_like_a_database() {
        let record = record();
        let compressed = zstd::bulk::compress(&record, LEVEL).unwrap();
        let ratio = RECORD as f64 / compressed.len() as f64;
        assert!((2.0..4.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn models_of_captured_files() {
        let x86 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\n\n";
        assert_eq!(model(&format!("{x86}{x86}")), "25 17 AMD EPYC 1");
        let arm = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(arm), "0x41 0xd0c");
        assert_eq!(model(""), "");
    }

    #[test]
    fn this_machine_is_measured() {
        let here = Processor::measure().unwrap();
        assert!(here.record_ns > 1000, "{here:?}");
        assert_eq!(here.times_of(&here), 1.0);
        let slower = Processor { model: "another".to_owned(), record_ns: 2 * here.record_ns, kernel: None };
        assert_eq!(slower.times_of(&here), 2.0);
        assert!(!slower.is_this_machines());
        let kernel = here.kernel.clone().unwrap();
        assert!(kernel.read_ns > 10 && kernel.switch_ns > 100, "{kernel:?}");
        assert_eq!(REFERENCE.times_of_reference(), [1.0; 3]);
        assert!(here.is_this_machines() || here.model.is_empty());
    }
}
