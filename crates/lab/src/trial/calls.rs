//! Sizes and durations of the reads and writes of a recorded phase, from its traces.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use poolwright_trace::stats::{LatencyHistogram, SizeHistogram};
use poolwright_trace::{Op, Reader};

use super::figures::{Measures, put};
use super::target::Recorded;
use crate::{Error, Result};

/// Role → kind of call → `(low, calls)`.
pub type Histograms = BTreeMap<String, BTreeMap<String, Vec<(u64, u64)>>>;

/// Uncertainty of a trace's time 0, which matters if the window begins with the driver.
const EDGE: Duration = Duration::from_millis(10);

/// The calls of one kind that began in the window.
#[derive(Default)]
struct Calls {
    sizes: SizeHistogram,
    latencies: LatencyHistogram,
    /// The sum of the latencies.
    ns: u64,
}

impl Calls {
    fn merge(&mut self, other: &Calls) {
        self.sizes.merge(&other.sizes);
        self.latencies.merge(&other.latencies);
        self.ns += other.ns;
    }

    /// Adds the measures of the calls in a window of this length.
    fn measure(&self, kind: &str, suffix: &str, window: Duration, all: &mut Measures) {
        put(all, format!("{kind}_call_s{suffix}"), self.ns as f64 / 1e9, "s");
        let share = 100.0 * self.ns as f64 / window.as_nanos().max(1) as f64;
        put(all, format!("{kind}_call_share{suffix}"), share, "percent");
        put(all, format!("{kind}_call_count{suffix}"), self.latencies.total() as f64, "count");
        for (name, share) in [("p50", 0.5), ("p99", 0.99)] {
            put(all, format!("{kind}_call_{name}{suffix}"), self.latencies.quantile(share) as f64, "ns");
        }
        if let Some(size) = self.sizes.mode() {
            put(all, format!("{kind}_call_size{suffix}"), size as f64, "bytes");
        }
    }
}

/// Returns the sizes of the reads and writes that began in the window, and the measures of their durations by role and in
/// all. Kinds of calls that did not occur are missing.
///
/// # Errors
/// Fails if a trace cannot be read.
pub fn of_traces(
    traces: &BTreeMap<String, Recorded>,
    window: (Instant, Instant),
) -> Result<(Histograms, Measures)> {
    let (mut histograms, mut measures) = (Histograms::new(), Measures::new());
    let mut sums: BTreeMap<&str, Calls> = BTreeMap::new();
    let length = window.1 - window.0;
    for (role, recorded) in traces {
        let kinds = of_trace(recorded, window)?;
        for (kind, calls) in &kinds {
            calls.measure(kind, &format!(".{role}"), length, &mut measures);
            sums.entry(kind).or_default().merge(calls);
        }
        let sizes = kinds.into_iter().map(|(kind, calls)| (kind.to_owned(), calls.sizes.0));
        histograms.insert(role.clone(), sizes.collect());
    }
    for (kind, calls) in sums {
        calls.measure(kind, "", length, &mut measures);
    }
    Ok((histograms, measures))
}

fn of_trace(recorded: &Recorded, window: (Instant, Instant)) -> Result<BTreeMap<&'static str, Calls>> {
    let wrong = |why: poolwright_trace::Error| {
        Error::Trial(format!("cannot read the trace of a recorded phase: {why}"))
    };
    let at = |moment: Instant| moment.saturating_duration_since(recorded.began).as_nanos() as u64;
    let edge = EDGE.as_nanos() as u64;
    let (first, last) = (at(window.0).saturating_sub(edge), at(window.1) + edge);
    if !recorded.trace.exists() {
        return Ok(BTreeMap::new()); // no file of this role was used, so the mount wrote none
    }
    let reader = Reader::open(&recorded.trace).map_err(wrong)?;
    let mut kinds: BTreeMap<&'static str, Calls> = BTreeMap::new();
    for event in reader.events() {
        let event = event.map_err(wrong)?;
        let kind = matches!(event.op, Op::Read | Op::Write);
        if kind && (first..=last).contains(&event.t_ns) {
            let calls = kinds.entry(event.op.name()).or_default();
            calls.sizes.add(event.len);
            calls.latencies.add(event.dur_ns);
            calls.ns += event.dur_ns;
        }
    }
    Ok(kinds)
}
