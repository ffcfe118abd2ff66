//! The speed of a processor, so that costs measured on one machine can be converted to those of another.

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
}

/// [`Processor::record_ns`] of the machine whose costs docs/method.md ("The clock") has.
const REFERENCE_NS: u64 = 360_000;

impl Processor {
    /// Measures this machine's processor, which takes a third of a second; `None` if zstd fails.
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
        Some(Processor { model: this_model(), record_ns: shortest.max(1) })
    }

    /// Whether this machine has the same processor, as far as is known.
    pub fn is_this_machines(&self) -> bool {
        !self.model.is_empty() && self.model == this_model()
    }

    /// Returns how many times as long as the machine of docs/method.md ("The clock") this processor takes.
    pub fn times_of_reference(&self) -> f64 {
        self.record_ns as f64 / REFERENCE_NS as f64
    }

    /// Returns how many times as long as `other` this processor takes.
    pub fn times_of(&self, other: &Processor) -> f64 {
        self.record_ns as f64 / other.record_ns.max(1) as f64
    }
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

fn thread_ns() -> u64 {
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
        let slower = Processor { model: "another".to_owned(), record_ns: 2 * here.record_ns };
        assert_eq!(slower.times_of(&here), 2.0);
        assert!(!slower.is_this_machines());
        assert!(here.is_this_machines() || here.model.is_empty());
    }
}
