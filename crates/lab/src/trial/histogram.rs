//! Histograms of request sizes in the measured window, from the traces of a recorded phase.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use poolwright_trace::stats::SizeHistogram;
use poolwright_trace::{Op, Reader};

use super::target::Recorded;
use crate::{Error, Result};

/// Role → kind of call → `(low, calls)`.
pub type Histograms = BTreeMap<String, BTreeMap<String, Vec<(u64, u64)>>>;

/// Uncertainty of a trace's time 0, which matters if the window begins with the driver.
const EDGE: Duration = Duration::from_millis(10);

/// Returns the sizes of the reads and writes that began in the window. Kinds of calls that did not occur are
/// missing.
///
/// # Errors
/// Fails if a trace cannot be read.
pub fn of_traces(traces: &BTreeMap<String, Recorded>, window: (Instant, Instant)) -> Result<Histograms> {
    traces.iter().map(|(role, recorded)| Ok((role.clone(), of_trace(recorded, window)?))).collect()
}

fn of_trace(recorded: &Recorded, window: (Instant, Instant)) -> Result<BTreeMap<String, Vec<(u64, u64)>>> {
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
    let mut kinds: BTreeMap<String, SizeHistogram> = BTreeMap::new();
    for event in reader.events() {
        let event = event.map_err(wrong)?;
        let kind = matches!(event.op, Op::Read | Op::Write);
        if kind && (first..=last).contains(&event.t_ns) {
            kinds.entry(event.op.name().to_owned()).or_default().add(event.len);
        }
    }
    Ok(kinds.into_iter().map(|(kind, sizes)| (kind, sizes.0)).collect())
}
