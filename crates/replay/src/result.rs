//! What a trial says: the JSON of `replay --json`.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};
use serde::{Deserialize, Serialize};

use crate::behaviour::Inferred;
use crate::drive::Pass;

/// Latency of one kind of operation in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99 of 100 are faster.
    pub p99: u64,
    /// 999 of 1000 are faster.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
}

impl Latency {
    fn of(h: &Histogram<u64>) -> Latency {
        Latency {
            count: h.len(),
            mean: h.mean(),
            p50: h.value_at_quantile(0.5),
            p99: h.value_at_quantile(0.99),
            p999: h.value_at_quantile(0.999),
            max: h.max(),
        }
    }
}

/// One trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Properties per role, as given.
    pub settings: BTreeMap<String, Settings>,
    /// What it ran on.
    pub target: String,
    /// Operations done in the measured pass.
    pub ops: u64,
    /// The same by kind.
    pub ops_by_kind: BTreeMap<String, u64>,
    /// Wall time of the measured pass.
    pub seconds: f64,
    /// Operations a second.
    pub ops_per_second: f64,
    /// Latency by kind.
    pub latency_ns: BTreeMap<String, Latency>,
    /// Mean latency over all operations in nanoseconds; of an application's replay, over the foreground's.
    pub mean_latency_ns: f64,
    /// Recorded seconds of work done in a second, 1 being as fast as the recorded application was: of an application's replay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub work_rate: Option<f64>,
    /// Share of the work that was done: below 1 if a time limit ended the pass. Of an application's replay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub work_share: Option<f64>,
    /// Latency of the background's operations by kind, of an application's replay; `latency_ns` is the foreground's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub background_latency_ns: BTreeMap<String, Latency>,
    /// What the recording says of the application.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application: Option<Inferred>,
    /// What reached the devices during the pass, and until all of it was on disk.
    pub vdev: VdevStats,
    /// Bytes written to devices per byte written by the trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write_amplification: Option<f64>,
    /// Bytes read from devices per byte read by the trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read_amplification: Option<f64>,
    /// Bytes the trace read.
    pub read_bytes: u64,
    /// Bytes the trace wrote.
    pub written_bytes: u64,
    /// Share of the written bytes that the real files have at that place; the rest was made up to compress alike.
    pub written_real: f64,
    /// ARC accesses during the pass, sizes at its end.
    pub arc: ArcStats,
    /// Intent log traffic during the pass.
    pub zil: ZilStats,
    /// Bytes on disk for the files after the pass, metadata included.
    pub allocated_bytes: u64,
    /// The same before the pass.
    #[serde(default)]
    pub allocated_before: u64,
    /// The same before compression (`logicalreferenced`).
    #[serde(default)]
    pub logical_bytes: u64,
    /// Bytes on disk per role (engine only).
    #[serde(default)]
    pub allocated_by_role: BTreeMap<String, u64>,
    /// Bytes the files were filled with before.
    pub filled_bytes: u64,
    /// User and system time of the pass, its writeback included.
    pub cpu_seconds: f64,
    /// What of it was used in place of the application, its calls and other processes: the rest is the storage's. Of an
    /// application's replay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application_cpu_seconds: Option<f64>,
    /// Wall time of filling.
    pub fill_seconds: f64,
    /// Operations done before measuring, to bring caches and free space to a steady state.
    pub warm_ops: u64,
    /// Transaction groups started by recorded time.
    pub txgs: u64,
    /// Largest delay behind the recorded time; 0 unless paced.
    pub max_lag_ns: u64,
    /// Events of the trace that are not replayed, by name.
    #[serde(default)]
    pub skipped: BTreeMap<String, u64>,
    /// Share of the file regions that were taken along; below 1 the cache was scaled by it.
    pub sampling_rate: f64,
}

impl Replay {
    /// Takes over what a pass measured.
    pub(crate) fn take_pass(&mut self, pass: Pass) {
        self.latency_ns = pass.latency.iter().map(|(op, h)| (op.clone(), Latency::of(h))).collect();
        let total: f64 = self.latency_ns.values().map(|l| l.mean * l.count as f64).sum();
        let timed: u64 = self.latency_ns.values().map(|l| l.count).sum();
        self.ops = pass.ops.values().sum();
        self.mean_latency_ns = if timed == 0 { 0.0 } else { total / timed as f64 };
        if let Some(work) = &pass.work {
            self.work_rate = Some(work.recorded_seconds / work.seconds);
            self.work_share = Some(work.share);
            self.application_cpu_seconds = Some(work.cpu_seconds);
            self.background_latency_ns =
                work.background.iter().map(|(op, h)| (op.clone(), Latency::of(h))).collect();
        }
        self.ops_by_kind = pass.ops;
        self.seconds = pass.seconds;
        self.ops_per_second = self.ops as f64 / pass.seconds.max(1e-9);
        self.read_bytes = pass.read_bytes;
        self.written_bytes = pass.written_bytes;
        self.written_real =
            if pass.written_bytes == 0 { 1.0 } else { pass.written_real as f64 / pass.written_bytes as f64 };
        self.txgs = pass.kicks;
        self.max_lag_ns = pass.max_lag_ns;
    }

    /// Device bytes over trace bytes, where the trace has any.
    pub(crate) fn work_out_amplification(&mut self) {
        let over = |device: u64, trace: u64| (trace > 0).then(|| device as f64 / trace as f64);
        self.write_amplification = over(self.vdev.write_bytes, self.written_bytes);
        self.read_amplification = over(self.vdev.read_bytes, self.read_bytes);
    }
}
