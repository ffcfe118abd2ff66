//! The space of a role's files under many settings, from the estimate.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use poolwright_estimate::{Estimate, Input, Options};
use poolwright_openzfs::property::{Settings, canonical};

use crate::candidates::recordsize_and_compression;
use crate::{Error, Result};

/// A setting and the space of the files under it.
#[derive(Clone, Debug)]
pub(crate) struct EstimatedSpace {
    pub settings: Settings,
    /// Logical bytes per allocated byte.
    pub ratio: f64,
    /// The 95 % interval of `ratio`.
    pub ci95: [f64; 2],
}

/// Estimates a role's files under every recordsize and codec of these combinations and of today's settings.
pub(crate) fn estimate(
    files: &[PathBuf],
    combinations: &[Settings],
    today: &Settings,
    ashift: u32,
    seed: u64,
    limit: Duration,
    cancel: &Arc<AtomicBool>,
) -> Result<Vec<EstimatedSpace>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let all = || combinations.iter().chain([today]).map(recordsize_and_compression);
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
    let options = Options {
        recordsizes,
        compressions,
        ashifts: if ashift == 9 { vec![9] } else { vec![9, ashift] },
        within: 0.03,
        time_limit: Some(limit),
        seed,
        cancel: Arc::clone(cancel),
        ..Options::default()
    };
    let estimate = poolwright_estimate::estimate(&Input::files(files.to_vec())?, &options, &mut |_| {})?;
    if cancel.load(std::sync::atomic::Ordering::Relaxed) {
        return Err(Error::Interrupted);
    }
    Ok(combinations.iter().filter_map(|settings| of(&estimate, settings, ashift)).collect())
}

fn of(estimate: &Estimate, settings: &Settings, ashift: u32) -> Option<EstimatedSpace> {
    let (recordsize, codec) = recordsize_and_compression(settings);
    let cell = estimate.cell(recordsize, &canonical("compression", codec), ashift)?;
    Some(EstimatedSpace { settings: settings.clone(), ratio: cell.ratio, ci95: cell.ratio_ci95 })
}
