//! The figures of a recording, for each of its blocks.

use std::collections::BTreeMap;

use poolwright_plan::metric::MIN_FOR_P99;
use poolwright_plan::{MetricName, RequestMix};
use poolwright_replay::application::foreground_threads;
use poolwright_trace::stats::LatencyHistogram;
use poolwright_trace::{Event, Op, Trace};

/// The number of blocks into which a recording is divided.
pub const BLOCKS: usize = 10;

/// The least time, in seconds, over which bytes on devices are counted: two transaction groups (`zfs_txg_timeout` is 5 s), because a
/// shorter one may hold none of the database's writes.
pub(crate) const MIN_FOR_DEVICES_S: f64 = 10.0;

/// The least number of operations of a block for its median.
const MIN_FOR_MEDIAN: u64 = 10;

/// The figures of a recording.
#[derive(Clone, Debug, Default)]
pub struct TraceFigures {
    /// Length of a block in seconds.
    pub block_s: f64,
    /// Metric → one figure for each block in which it can be told. Times in nanoseconds.
    pub metrics: BTreeMap<MetricName, Vec<f64>>,
    /// Foreground operations of each block.
    pub operations: Vec<u64>,
    /// Bytes that all threads read in each block.
    pub read_bytes: Vec<u64>,
    /// Bytes that all threads wrote in each block.
    pub written_bytes: Vec<u64>,
    /// What the foreground threads asked for.
    pub mix: RequestMix,
}

/// A kind of operations that has its own metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Sync,
}

impl Kind {
    const ALL: [(Kind, MetricName, MetricName); 3] = [
        (Kind::Read, MetricName::ReadP50Ns, MetricName::ReadP99Ns),
        (Kind::Write, MetricName::WriteP50Ns, MetricName::WriteP99Ns),
        (Kind::Sync, MetricName::FsyncP50Ns, MetricName::FsyncP99Ns),
    ];

    /// `None` for operations that have no metric.
    fn of(op: Op) -> Option<Kind> {
        match op {
            Op::Read => Some(Kind::Read),
            Op::Write => Some(Kind::Write),
            op if op.is_sync() => Some(Kind::Sync),
            _ => None,
        }
    }
}

/// One block of a recording.
#[derive(Clone, Debug, Default)]
struct Block {
    operations: u64,
    waited_ns: u64,
    /// By kind, in the order of [`Kind::ALL`]; a synchronous write counts as a sync.
    latency: [LatencyHistogram; 3],
    read_bytes: u64,
    written_bytes: u64,
}

impl Block {
    fn add(&mut self, kind: Kind, event: &Event, is_foreground: bool) {
        match kind {
            Kind::Read => self.read_bytes += event.len,
            Kind::Write => self.written_bytes += event.len,
            Kind::Sync => {}
        }
        if is_foreground {
            self.operations += 1;
            // A trace of another recorder has no durations.
            if event.dur_ns > 0 {
                self.waited_ns += event.dur_ns;
                let waited_in = if event.op.is_commit(event.flags) { Kind::Sync } else { kind };
                self.latency[waited_in as usize].add(event.dur_ns);
            }
        }
    }

    /// Metric → figure.
    fn metrics(&self) -> Vec<(MetricName, f64)> {
        let mut found = Vec::new();
        let timed: u64 = self.latency.iter().map(LatencyHistogram::total).sum();
        if timed >= MIN_FOR_MEDIAN {
            found.push((MetricName::MeanLatencyNs, self.waited_ns as f64 / timed as f64));
        }
        for (kind, p50, p99) in Kind::ALL {
            let latency = &self.latency[kind as usize];
            for (metric, share, least) in [(p50, 0.5, MIN_FOR_MEDIAN), (p99, 0.99, MIN_FOR_P99)] {
                if latency.total() >= least {
                    found.push((metric, latency.quantile(share) as f64));
                }
            }
        }
        found
    }
}

/// The figures of a trace. Foreground threads are those of the replay, so that a latency means the same here and in a plan.
pub fn figures(trace: &Trace) -> TraceFigures {
    let end = trace.events.iter().map(|event| event.t_ns).max().unwrap_or(0) + 1;
    let block_ns = trace.meta.duration_ns.max(end).div_ceil(BLOCKS as u64).max(1);
    let foreground = foreground_threads(&trace.events);
    let mut blocks = vec![Block::default(); BLOCKS];
    let mut mix = MixSums::default();
    for event in &trace.events {
        let Some(kind) = Kind::of(event.op) else { continue };
        let is_foreground = foreground.contains(&event.tid);
        blocks[(event.t_ns / block_ns) as usize].add(kind, event, is_foreground);
        if is_foreground {
            mix.add(kind, event.len);
        }
    }
    let mut metrics: BTreeMap<MetricName, Vec<f64>> = BTreeMap::new();
    for (metric, value) in blocks.iter().flat_map(Block::metrics) {
        metrics.entry(metric).or_default().push(value);
    }
    let block_s = block_ns as f64 / 1e9;
    TraceFigures {
        block_s,
        metrics,
        operations: blocks.iter().map(|block| block.operations).collect(),
        read_bytes: blocks.iter().map(|block| block.read_bytes).collect(),
        written_bytes: blocks.iter().map(|block| block.written_bytes).collect(),
        mix: mix.over(block_s * BLOCKS as f64),
    }
}

/// Counts and bytes by kind, in the order of [`Kind::ALL`].
#[derive(Clone, Copy, Debug, Default)]
struct MixSums {
    count: [u64; 3],
    bytes: [u64; 3],
}

impl MixSums {
    fn add(&mut self, kind: Kind, len: u64) {
        self.count[kind as usize] += 1;
        self.bytes[kind as usize] += len;
    }

    fn over(&self, seconds: f64) -> RequestMix {
        let rate = |kind: Kind| self.count[kind as usize] as f64 / seconds;
        let size = |kind: Kind| self.bytes[kind as usize] as f64 / self.count[kind as usize].max(1) as f64;
        RequestMix {
            reads_s: rate(Kind::Read),
            writes_s: rate(Kind::Write),
            syncs_s: rate(Kind::Sync),
            read_bytes: size(Kind::Read),
            write_bytes: size(Kind::Write),
        }
    }
}

#[cfg(test)]
mod tests {
    use poolwright_trace::{Flags, Meta};

    use super::*;

    fn event(t_ms: u64, op: Op, len: u64, dur_ns: u64) -> Event {
        Event {
            t_ns: t_ms * 1_000_000,
            dur_ns,
            op,
            file: 0,
            offset: 0,
            len,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        }
    }

    /// A recording of 10 s with a read of 8 KiB each 4 ms, and a write and a sync each 100 ms.
    fn trace() -> Trace {
        let mut events: Vec<Event> = (0..2500).map(|n| event(n * 4, Op::Read, 8192, 1_000_000)).collect();
        events.extend((0..100).flat_map(|n| {
            [event(n * 100 + 1, Op::Write, 100, 10_000), event(n * 100 + 2, Op::Fsync, 0, 3_000_000)]
        }));
        events.sort_by_key(|event| event.t_ns);
        Trace { meta: Meta { duration_ns: 10_000_000_000, ..Meta::default() }, events, ..Trace::default() }
    }

    #[test]
    fn each_block_has_its_figures() {
        let found = figures(&trace());
        assert!((found.block_s - 1.0).abs() < 1e-6, "{}", found.block_s);
        assert_eq!((found.operations.len(), found.operations[3]), (BLOCKS, 270));
        assert_eq!((found.read_bytes[0], found.written_bytes[9]), (250 * 8192, 1000));
        let of = |metric: MetricName| found.metrics.get(&metric).map_or(&[][..], Vec::as_slice);
        assert_eq!(of(MetricName::ReadP99Ns).len(), BLOCKS);
        assert!(of(MetricName::ReadP50Ns).iter().all(|value| (value / 1e6 - 1.0).abs() < 0.04));
        // 250 reads of 1 ms, 10 writes of 10 µs, 10 syncs of 3 ms.
        let mean = (250.0 * 1e6 + 10.0 * 1e4 + 10.0 * 3e6) / 270.0;
        assert!(of(MetricName::MeanLatencyNs).iter().all(|value| (value / mean - 1.0).abs() < 1e-9));
        // Ten operations have a median, but no 99th percentile.
        assert_eq!((of(MetricName::FsyncP50Ns).len(), of(MetricName::FsyncP99Ns).len()), (BLOCKS, 0));
        assert!((found.mix.reads_s - 250.0).abs() < 0.1 && (found.mix.write_bytes - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_trace_without_durations_has_no_latencies() {
        let mut trace = trace();
        for event in &mut trace.events {
            event.dur_ns = 0;
        }
        let found = figures(&trace);
        assert!(found.metrics.is_empty(), "{:?}", found.metrics);
        assert_eq!(found.operations.iter().sum::<u64>(), 2700);
    }

    #[test]
    fn an_empty_trace_has_no_figures() {
        let found = figures(&Trace::default());
        assert!(found.metrics.is_empty() && found.operations.iter().all(|count| *count == 0));
    }
}
