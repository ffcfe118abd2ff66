//! Takes snapshots of all datasets while the database runs.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::figures::{Measures, put};
use super::target::Target;
use crate::Result;
use crate::campaign::SnapshotRule;

/// How often the thread checks whether the phase has ended.
const LOOK: Duration = Duration::from_millis(20);

/// Takes a snapshot after each interval until `stop` is set, and destroys those that are no longer kept. Returns the durations of the
/// snapshots; an interval that passes while one is taken is skipped.
///
/// # Errors
/// Fails if a snapshot cannot be taken or destroyed.
pub fn take(
    target: &dyn Target,
    rule: SnapshotRule,
    phase: &str,
    stop: &AtomicBool,
) -> Result<Vec<Duration>> {
    let start = Instant::now();
    let (mut kept, mut took) = (VecDeque::new(), Vec::new());
    for n in 1u32.. {
        while start.elapsed() < rule.every * n {
            if stop.load(Ordering::Acquire) {
                return Ok(took);
            }
            std::thread::sleep((rule.every * n).saturating_sub(start.elapsed()).min(LOOK));
        }
        if start.elapsed() >= rule.every * (n + 1) {
            continue;
        }
        let (name, began) = (format!("{phase}-{n}"), Instant::now());
        target.snapshot(&name)?;
        took.push(began.elapsed());
        kept.push_back(name);
        if let Some(name) = rule.keep.filter(|keep| kept.len() > *keep).and_then(|_| kept.pop_front()) {
            target.destroy_snapshot(&name)?;
        }
    }
    Ok(took)
}

/// Adds the number of snapshots, and the duration of the longest one.
pub fn measures(measures: &mut Measures, took: &[Duration]) {
    put(measures, "snapshots", took.len() as f64, "count");
    if let Some(longest) = took.iter().max() {
        put(measures, "snapshot_max", longest.as_nanos() as f64, "ns");
    }
}
