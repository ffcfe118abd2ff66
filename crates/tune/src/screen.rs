//! Screening: the predictions of the space estimate and the model for settings, before any trial.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use poolwright_estimate::{Cell, Estimate, Input, Options};
use poolwright_openzfs::property::{self, Settings};
use poolwright_replay::Capture;
use poolwright_stats::median;
use poolwright_trace::{Event, Trace};
use rayon::prelude::*;

use crate::candidates::{recordsize_and_compression, with};
use crate::model::{Anchor, Packing, Prediction, Surroundings, predict};
use crate::objective::Metrics;
use crate::requirement::Criteria;
use crate::{Error, Result};

/// Recorded seconds that the model evaluates: two transaction groups, about as long as a trial.
pub(crate) const MODEL_S: u64 = 10;

/// A combination with its estimate and prediction.
#[derive(Clone, Debug)]
pub(crate) struct Screened {
    pub settings: Settings,
    /// Space ratio (logical bytes per allocated byte) and its 95 % interval.
    pub space: (f64, [f64; 2]),
    pub predicted: Metrics,
    /// The predicted objective relative to today's, including `penalty`.
    pub objective: f64,
    /// A factor above 1 if the model predicts that a requirement is missed.
    pub penalty: f64,
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
) -> Result<Option<Estimate>> {
    if files.is_empty() {
        return Ok(None);
    }
    let all: Vec<Settings> = combinations.iter().chain([today]).cloned().collect();
    let mut recordsizes: Vec<u64> = all.iter().map(|s| recordsize_and_compression(s).0).collect();
    recordsizes.sort_unstable();
    recordsizes.dedup();
    let mut compressions: Vec<String> = Vec::new();
    for s in &all {
        let name = canonical(recordsize_and_compression(s).1);
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
    Ok(Some(estimate))
}

/// Returns the estimate's spelling of a codec: `lz4` for `on`.
fn canonical(compression: &str) -> String {
    property::canonical("compression", compression)
}

/// Input of the model.
pub(crate) struct ForecastInput<'a> {
    pub trace: &'a Trace,
    /// Where the trials begin, in seconds since the start of the recording.
    pub begin_s: f64,
    pub capture: &'a Capture,
    /// The roles that share the dataset.
    pub roles: &'a [String],
    pub criteria: Criteria<'a>,
    pub ashift: u32,
    pub around: &'a Surroundings,
    /// The calibration from a trial of today's settings; without it, the model's own time for today's settings
    /// is used.
    pub anchor: Option<Anchor>,
    /// Threads for which the work waits; empty for all threads.
    pub foreground: &'a HashSet<u32>,
}

/// Predictions for single settings, relative to today's.
pub(crate) struct Forecast<'a> {
    input: &'a ForecastInput<'a>,
    estimate: Option<&'a Estimate>,
    /// The prediction for today's settings.
    reference: Prediction,
    anchor: Anchor,
    /// Bytes that the events write.
    written: u64,
    /// The metrics of today's settings.
    pub baseline: Metrics,
}

/// Space ratio (logical bytes per allocated byte) and its 95 % interval.
type SpaceRatio = (f64, [f64; 2]);

impl<'a> Forecast<'a> {
    /// Predicts today's settings, with which others are compared.
    ///
    /// # Errors
    /// As [`predict`].
    pub fn new(
        input: &'a ForecastInput<'a>,
        today: &Settings,
        estimate: Option<&'a Estimate>,
    ) -> Result<Forecast<'a>> {
        let writes = events(input).filter(|e| e.op == poolwright_trace::Op::Write);
        let written = writes.map(|e| e.len).sum();
        let reference = prediction(input, estimate, today)?;
        let anchor = input.anchor.unwrap_or_else(|| without_think_time(&reference, input.around.cores));
        let baseline = Metrics::new();
        let mut forecast = Forecast { input, estimate, reference, anchor, written, baseline };
        forecast.baseline = forecast.figures(today, &forecast.reference).0;
        Ok(forecast)
    }

    /// Whether the space of a setting was estimated; otherwise its predictions mean little.
    pub fn knows(&self, settings: &Settings) -> bool {
        cell(self.input, self.estimate, settings).is_some()
    }

    /// Whether the predictions are calibrated with a trial of today's settings.
    pub fn is_anchored(&self) -> bool {
        self.input.anchor.is_some()
    }

    /// Predicts a setting, whose other properties are as today, relative to today's settings.
    ///
    /// # Errors
    /// As [`predict`].
    pub fn screen(&self, today: &Settings, settings: &Settings) -> Result<Screened> {
        let (predicted, space) = self.of(&with(today, settings))?;
        let criteria = self.input.criteria;
        let objective = criteria.objective(&predicted, &self.baseline);
        let penalty = criteria.penalty(&predicted, &self.baseline);
        Ok(Screened { settings: settings.clone(), space, predicted, objective, penalty })
    }

    /// Predicts each of `combinations`; the best first.
    ///
    /// # Errors
    /// As [`predict`].
    pub fn rank(&self, today: &Settings, combinations: &[Settings]) -> Result<Vec<Screened>> {
        let all = combinations.par_iter().map(|settings| self.screen(today, settings));
        let mut all: Vec<Screened> = all.collect::<Result<_>>()?;
        all.sort_by(|a, b| a.objective.total_cmp(&b.objective));
        Ok(all)
    }

    /// Returns the metrics of a setting and its space.
    ///
    /// # Errors
    /// As [`predict`].
    pub fn of(&self, settings: &Settings) -> Result<(Metrics, SpaceRatio)> {
        Ok(self.figures(settings, &prediction(self.input, self.estimate, settings)?))
    }

    fn figures(&self, settings: &Settings, prediction: &Prediction) -> (Metrics, SpaceRatio) {
        let cell = cell(self.input, self.estimate, settings);
        let allocated = cell.map_or(0.0, |c| c.total_bytes as f64);
        let rate = self.anchor.work_rate(prediction, &self.reference);
        let space = cell.map_or((1.0, [1.0; 2]), |c| (c.ratio, c.ratio_ci95));
        (prediction.metrics(allocated, self.written, rate), space)
    }
}

/// Returns the estimate's cell for a setting.
fn cell<'a>(q: &ForecastInput<'_>, estimate: Option<&'a Estimate>, settings: &Settings) -> Option<&'a Cell> {
    let (recordsize, compression) = recordsize_and_compression(settings);
    estimate?.cell(recordsize, &canonical(compression), q.ashift)
}

/// Returns a codec's speed in bytes per second: the median over all record sizes. The speed hardly depends on the
/// record size, but the figure of one cell is measured in a few milliseconds on a busy machine.
fn speed(estimate: Option<&Estimate>, compression: &str, of: fn(&Cell) -> Option<f64>) -> f64 {
    let cells = estimate.map_or(&[][..], |e| e.cells.as_slice());
    let all: Vec<f64> = cells.iter().filter(|c| c.compression == compression).filter_map(of).collect();
    if all.is_empty() { f64::INFINITY } else { median(&all) * 1048576.0 }
}

fn prediction(q: &ForecastInput<'_>, estimate: Option<&Estimate>, settings: &Settings) -> Result<Prediction> {
    let compression = canonical(recordsize_and_compression(settings).1);
    let packing = Packing {
        ratio: cell(q, estimate, settings).map_or(1.0, |c| c.ratio).clamp(0.01, 1e3),
        compress_bytes_s: speed(estimate, &compression, |c| c.compress_mib_s),
        decompress_bytes_s: speed(estimate, &compression, |c| c.decompress_mib_s),
    };
    let is_foreground = |e: &Event| q.foreground.is_empty() || q.foreground.contains(&e.tid);
    predict(q.trace, events(q), settings, packing, q.around, &is_foreground)
}

/// Returns the anchor for a recording in which only storage took time.
fn without_think_time(today: &Prediction, cores: f64) -> Anchor {
    let seconds = today.wait_ns / 1e9;
    Anchor { seconds, cpu_seconds: today.cpu_ns / 1e9, cores, threads: 1.0, recorded_s: 1.0 }
}

/// Returns the events of the roles in the first [`MODEL_S`] seconds from the begin of the trials.
fn events<'a>(q: &ForecastInput<'a>) -> impl Iterator<Item = &'a Event> + Clone {
    let (capture, roles) = (q.capture, q.roles);
    let begin_ns = (q.begin_s * 1e9) as u64;
    let until = |t_ns: u64| q.trace.events.partition_point(|e| e.t_ns < t_ns);
    let events = q.trace.events[until(begin_ns)..until(begin_ns + MODEL_S * 1_000_000_000)].iter();
    events.filter(move |e| roles.contains(&capture.roles[e.file as usize]) && capture.keeps(e))
}
