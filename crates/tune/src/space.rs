//! The space of the database's files under many settings, from the estimate. A trial contains only the regions that the recording touches,
//! and the others may compress better or worse.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use poolwright_estimate::{Estimate, Input, Layout, Options, nominal_speed};
use poolwright_openzfs::property::{Settings, canonical};

use poolwright_replay::Replay;

use crate::candidates::block_size_and_compression;
use crate::{Error, Result};

/// A setting and the space of the files under it.
#[derive(Clone, Debug)]
pub(crate) struct EstimatedSpace {
    pub settings: Settings,
    /// Logical bytes per allocated byte.
    pub ratio: f64,
    /// The 95 % interval of `ratio`.
    pub ci95: [f64; 2],
    /// Allocated bytes, with indirect blocks.
    pub bytes: f64,
    /// Logical bytes per byte in the ARC, which has neither parity nor padding.
    pub arc_ratio: f64,
}

/// The space of all files of the database under some settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DatabaseSpace {
    /// Allocated bytes.
    pub allocated: f64,
    /// Bytes of the files.
    pub logical: f64,
    /// Half of the 95 % interval of `allocated`, in bytes.
    pub error: f64,
}

impl DatabaseSpace {
    pub fn of(estimates: &[&EstimatedSpace]) -> DatabaseSpace {
        let error = |e: &EstimatedSpace| match e.ci95 {
            [low, high] if low == high => 0.0,
            [low, high] => e.bytes * (high - e.ratio).max(e.ratio - low) / e.ratio,
        };
        // Samples of different files have independent errors.
        DatabaseSpace {
            allocated: estimates.iter().map(|e| e.bytes).sum(),
            logical: estimates.iter().map(|e| e.bytes * e.ratio).sum(),
            error: estimates.iter().map(|e| error(e).powi(2)).sum::<f64>().sqrt(),
        }
    }

    /// Gives a trial's figures the space of all files instead of that of the replayed regions.
    pub fn replace_in(&self, replay: &mut Replay) {
        replay.allocated_bytes = self.allocated as u64;
        replay.allocated_before = replay.allocated_bytes;
        replay.logical_bytes = self.logical as u64;
    }

    /// Returns half of the 95 % interval of the logarithm of the change from `self` to `new`. Both estimates are of the same samples, whose
    /// common error this counts, too.
    pub fn error_of_change(&self, new: &DatabaseSpace) -> f64 {
        (self.error / self.allocated.max(1.0)).hypot(new.error / new.allocated.max(1.0))
    }
}

/// Returns the estimate for the record size and codec of these settings.
pub(crate) fn find<'e>(estimates: &'e [EstimatedSpace], settings: &Settings) -> Option<&'e EstimatedSpace> {
    let key = |settings: &Settings| {
        let (recordsize, codec) = block_size_and_compression(settings);
        (recordsize, canonical("compression", codec))
    };
    let wanted = key(settings);
    estimates.iter().find(|e| key(&e.settings) == wanted)
}

/// The processors of the machine whose speed limits an estimate (`docs/derivations.md`, "What work costs").
const PROCESSORS: f64 = 2.0;
/// A sample reads this many times as many bytes in the same time as an estimate of all bytes compresses, because it compresses most of them
/// under few settings.
const SAMPLED: u64 = 5;

/// Returns the bytes that an estimate of all bytes under these settings reads and compresses in `time`, by the nominal speeds of the codecs.
fn bytes_in(time: Duration, recordsizes: &[u64], compressions: &[String]) -> u64 {
    let mib_s: f64 = compressions.iter().map(|codec| 1.0 / nominal_speed(codec)).sum();
    let byte_s = mib_s / f64::from(1 << 20) * recordsizes.len() as f64;
    (time.as_secs_f64() * PROCESSORS / byte_s) as u64
}

/// Estimates a role's files under these combinations of record size and codec, and under today's settings, which come last. `time` limits
/// the bytes that are read, by constants, so that the result does not depend on the speed of this machine.
pub(crate) fn estimate(
    files: &[PathBuf],
    combinations: &[Settings],
    today: &Settings,
    (layout, ashift): (Layout, u32),
    seed: u64,
    time: Duration,
    cancel: &Arc<AtomicBool>,
) -> Result<Vec<EstimatedSpace>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let all = || combinations.iter().chain([today]).map(block_size_and_compression);
    let mut recordsizes: Vec<u64> = all().map(|(recordsize, _)| recordsize).collect();
    recordsizes.sort_unstable();
    recordsizes.dedup();
    let mut compressions: Vec<String> = Vec::new();
    for (_, codec) in all() {
        let name = canonical("compression", codec);
        if !compressions.contains(&name) {
            compressions.push(name);
        }
    }
    let exact_below = bytes_in(time, &recordsizes, &compressions);
    let options = Options {
        recordsizes,
        compressions,
        // The pool's comes first, and the plain one last: `of` relies on it.
        layouts: if layout == Layout::Plain { vec![layout] } else { vec![layout, Layout::Plain] },
        ashifts: if ashift == 9 { vec![9] } else { vec![9, ashift] },
        within: 0.03,
        time_limit: None,
        byte_limit: Some(SAMPLED * exact_below),
        exact_below,
        seed,
        cancel: Arc::clone(cancel),
        ..Options::default()
    };
    let estimate = poolwright_estimate::estimate(&Input::files(files.to_vec())?, &options, &mut |_| {})?;
    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(combinations.iter().chain([today]).filter_map(|settings| of(&estimate, settings, ashift)).collect())
}

fn of(estimate: &Estimate, settings: &Settings, ashift: u32) -> Option<EstimatedSpace> {
    let (recordsize, codec) = block_size_and_compression(settings);
    let codec = canonical("compression", codec);
    let cell = estimate.cell(recordsize, &codec, ashift)?;
    let plain = estimate.cells_of(recordsize, &codec, ashift).last()?;
    Some(EstimatedSpace {
        settings: settings.clone(),
        ratio: cell.ratio,
        ci95: cell.ratio_ci95,
        bytes: cell.total_bytes as f64,
        arc_ratio: plain.ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(recordsize: &str, ratio: f64, ci95: [f64; 2], bytes: f64) -> EstimatedSpace {
        let settings =
            Settings::from([("recordsize".into(), recordsize.into()), ("compression".into(), "lz4".into())]);
        EstimatedSpace { settings, ratio, ci95, bytes, arc_ratio: ratio }
    }

    #[test]
    fn the_space_of_the_database_is_that_of_its_roles_and_the_errors_are_independent() {
        let data = estimate("16K", 2.0, [1.94, 2.06], 100.0);
        let log = estimate("128K", 1.0, [0.96, 1.04], 100.0);
        let both = DatabaseSpace::of(&[&data, &log]);
        assert_eq!((both.allocated, both.logical), (200.0, 300.0));
        assert!((both.error - 5.0).abs() < 1e-9, "{both:?}");
        assert_eq!(DatabaseSpace::of(&[&estimate("16K", 2.0, [2.0, 2.0], 7.0)]).error, 0.0);
    }

    #[test]
    fn the_errors_of_both_sides_count() {
        let exact = DatabaseSpace { allocated: 100.0, logical: 200.0, error: 0.0 };
        let sampled = DatabaseSpace { error: 3.0, ..exact };
        assert_eq!(exact.error_of_change(&exact), 0.0);
        assert_eq!(exact.error_of_change(&sampled), 0.03);
        assert!((sampled.error_of_change(&sampled) - 0.0424).abs() < 1e-4);
    }

    #[test]
    fn spellings_of_a_setting_have_one_estimate() {
        let all = [estimate("16K", 2.0, [2.0, 2.0], 1.0), estimate("128K", 3.0, [3.0, 3.0], 2.0)];
        let settings =
            Settings::from([("recordsize".into(), "131072".into()), ("compression".into(), "on".into())]);
        assert_eq!(find(&all, &settings).map(|e| e.bytes), Some(2.0));
        assert!(find(&all, &Settings::from([("recordsize".into(), "8K".into())])).is_none());
    }
}
