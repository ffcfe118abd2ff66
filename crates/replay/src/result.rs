//! The result of a trial: the JSON of `replay --json`.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use poolwright_openzfs::clock::CodecCost;
use poolwright_openzfs::{ArcStats, VdevStats, ZilStats};
use poolwright_trace::layout::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::behaviour::Inferred;
use crate::drive::Pass;
use crate::kernel_pool::PoolLoad;
use crate::settings::{PerRole, RoleSettings};

/// The latency of one kind of operation in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The number of operations.
    pub count: u64,
    /// Arithmetic mean in nanoseconds.
    pub mean: f64,
    /// Median in nanoseconds.
    pub p50: u64,
    /// 99th percentile in nanoseconds.
    pub p99: u64,
    /// 99.9th percentile in nanoseconds.
    pub p999: u64,
    /// Maximum in nanoseconds.
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

/// The result of one trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Replay {
    /// The given properties of each role.
    pub settings: RoleSettings,
    /// A description of the target.
    pub target: String,
    /// Operations of the measured pass.
    pub ops: u64,
    /// Operations of the measured pass, by kind.
    pub ops_by_kind: BTreeMap<String, u64>,
    /// Duration of the measured pass in seconds of the trial's clock.
    pub seconds: f64,
    /// Operations per second.
    pub ops_per_second: f64,
    /// Kind of operation → its latency. `fsync` includes `fdatasync` and synchronous writes.
    pub latency_ns: BTreeMap<String, Latency>,
    /// Mean latency over all operations in nanoseconds; in an application's replay, over foreground operations.
    pub mean_latency_ns: f64,
    /// In an application's replay: recorded seconds of work done per second. 1 is as fast as the recorded application.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub work_rate: Option<f64>,
    /// In an application's replay: the share of the work that was done; below 1 if a time limit ended the pass.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub work_share: Option<f64>,
    /// In an application's replay: the latency of background operations by kind. `latency_ns` covers foreground
    /// operations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub background_latency_ns: BTreeMap<String, Latency>,
    /// In an application's replay: figures about the inferred behaviour.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application: Option<Inferred>,
    /// Device I/O during the pass and until all of its data was on disk.
    pub vdev: VdevStats,
    /// Bytes written to devices per byte written by the trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write_amplification: Option<f64>,
    /// Bytes read from devices per byte read by the trace.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub read_amplification: Option<f64>,
    /// Bytes that the trace read.
    pub read_bytes: u64,
    /// Bytes that the trace wrote.
    pub written_bytes: u64,
    /// Share of the written bytes that the real files have at that offset. The rest is synthetic and compresses
    /// similarly.
    pub written_real: f64,
    /// ARC accesses during the pass, and sizes at its end.
    pub arc: ArcStats,
    /// Intent log traffic during the pass.
    pub zil: ZilStats,
    /// Bytes on disk for the files after the pass, including metadata.
    pub allocated_bytes: u64,
    /// Bytes on disk for the files before the pass.
    #[serde(default)]
    pub allocated_before: u64,
    /// Bytes of the files before compression (`logicalreferenced`), after the pass.
    #[serde(default)]
    pub logical_bytes: u64,
    /// Bytes on disk per role (engine only).
    #[serde(default)]
    pub allocated_by_role: BTreeMap<Role, u64>,
    /// Bytes with which the files were filled before the pass.
    pub filled_bytes: u64,
    /// User and system time of the pass, including its writeback, in seconds.
    pub cpu_seconds: f64,
    /// In an application's replay: the part of `cpu_seconds` used to imitate the application, its calls and other
    /// processes. The rest is used by the storage.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application_cpu_seconds: Option<f64>,
    /// Duration of filling in seconds of this machine's clock.
    pub fill_seconds: f64,
    /// Operations done before the measurement, to bring caches and free space to a steady state.
    pub warm_ops: u64,
    /// Transaction groups started by recorded time.
    pub txgs: u64,
    /// Largest delay behind the recorded time in nanoseconds; 0 unless paced.
    pub max_lag_ns: u64,
    /// Operation → number of its events that are not replayed.
    #[serde(default)]
    pub skipped: BTreeMap<String, u64>,
    /// What codecs cost on the virtual clock, as far as the trial measured it; empty on the real one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub codec_costs: Vec<CodecCost>,
    /// On a pool of the kernel: its other users and its devices during the trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pool_load: Option<PoolLoad>,
    /// Share of the file regions in the sample, 0 to 1. Below 1, the cache was scaled by it.
    pub sampling_rate: f64,
}

/// A setting whose trial was stopped, as `replay --json` prints it. It is not tried again, and the figures of that trial are
/// discarded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StoppedTrial {
    /// The given properties of each role.
    pub settings: PerRole,
    /// The number of the stopped trial, from 1.
    pub trial: u32,
    /// The time limit in seconds that the trial reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_s: Option<f64>,
    /// Free bytes of the file system that the trial nearly filled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
}

impl Replay {
    /// The bytes with which the trial filled its target, and those that reached the devices while it was measured.
    pub fn bytes_to_target(&self) -> u64 {
        self.filled_bytes + self.vdev.write_bytes
    }

    /// Copies the measurements of a pass.
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
        self.txgs = pass.started_txgs;
        self.max_lag_ns = pass.max_lag_ns;
    }

    /// Computes bytes on the device divided by bytes of the trace, where the trace has any.
    pub(crate) fn work_out_amplification(&mut self) {
        let over = |device: u64, trace: u64| (trace > 0).then(|| device as f64 / trace as f64);
        self.write_amplification = over(self.vdev.write_bytes, self.written_bytes);
        self.read_amplification = over(self.vdev.read_bytes, self.read_bytes);
    }
}
