//! What estimate and model say of a setting before any trial.

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

use crate::candidates::{of_interest, with};
use crate::model::{Anchor, Packing, Prediction, Surroundings, predict};
use crate::objective::Metrics;
use crate::requirement::Criteria;
use crate::{Error, Result};

/// Recorded seconds that the model looks at: two transaction groups, about as long as a trial.
pub(crate) const MODEL_S: u64 = 10;

/// A combination with what estimate and model say of it.
#[derive(Clone, Debug)]
pub(crate) struct Screened {
    pub settings: Settings,
    /// Space ratio and its interval.
    pub space: (f64, [f64; 2]),
    pub predicted: Metrics,
    /// Of the model, against today's prediction; with `penalty`.
    pub objective: f64,
    /// More than 1 if the model predicts that a requirement is missed.
    pub penalty: f64,
}

/// Estimates a role's files under every recordsize and codec of these combinations, and today's.
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
    let mut recordsizes: Vec<u64> = all.iter().map(|s| of_interest(s).0).collect();
    recordsizes.sort_unstable();
    recordsizes.dedup();
    let mut compressions: Vec<String> = Vec::new();
    for s in &all {
        let name = canonical(of_interest(s).1);
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

/// The spelling under which the estimate has a codec: `lz4` for `on`.
fn canonical(compression: &str) -> String {
    property::canonical("compression", compression)
}

/// What the model is asked about.
pub(crate) struct Question<'a> {
    pub trace: &'a Trace,
    pub capture: &'a Capture,
    /// Those that share the dataset.
    pub roles: &'a [String],
    pub criteria: Criteria<'a>,
    pub ashift: u32,
    pub around: &'a Surroundings,
    /// What a trial of today's settings showed; without one, the model's own time for today stands in.
    pub anchor: Option<Anchor>,
    /// Threads that the work waits for; empty for all.
    pub foreground: &'a HashSet<u32>,
}

/// What estimate and model say of single settings, against one prediction for today's.
pub(crate) struct Forecast<'a> {
    question: &'a Question<'a>,
    estimate: Option<&'a Estimate>,
    /// Of today's settings.
    reference: Prediction,
    anchor: Anchor,
    /// Bytes that the events write.
    written: u64,
    /// The metrics of today's settings.
    pub baseline: Metrics,
}

/// Space ratio and its interval.
type SpaceRatio = (f64, [f64; 2]);

impl<'a> Forecast<'a> {
    pub fn new(
        question: &'a Question<'a>,
        today: &Settings,
        estimate: Option<&'a Estimate>,
    ) -> Result<Forecast<'a>> {
        let writes = events(question).filter(|e| e.op == poolwright_trace::Op::Write);
        let written = writes.map(|e| e.len).sum();
        let reference = prediction(question, estimate, today)?;
        let anchor = question.anchor.unwrap_or_else(|| without_think_time(&reference, question.around.cores));
        let baseline = Metrics::new();
        let mut forecast = Forecast { question, estimate, reference, anchor, written, baseline };
        forecast.baseline = forecast.figures(today, &forecast.reference).0;
        Ok(forecast)
    }

    /// Whether the space of a setting was estimated; without that its predictions mean little.
    pub fn knows(&self, settings: &Settings) -> bool {
        cell(self.question, self.estimate, settings).is_some()
    }

    /// Whether a trial of today's settings says how long the work takes.
    pub fn is_anchored(&self) -> bool {
        self.question.anchor.is_some()
    }

    /// What estimate and model say of a setting whose other properties are as today, against today's settings.
    pub fn screen(&self, today: &Settings, settings: &Settings) -> Result<Screened> {
        let (predicted, space) = self.of(&with(today, settings))?;
        let criteria = self.question.criteria;
        let objective = criteria.objective(&predicted, &self.baseline);
        let penalty = criteria.penalty(&predicted, &self.baseline);
        Ok(Screened { settings: settings.clone(), space, predicted, objective, penalty })
    }

    /// The same for each of these, the best first.
    pub fn rank(&self, today: &Settings, combinations: &[Settings]) -> Result<Vec<Screened>> {
        let all = combinations.par_iter().map(|settings| self.screen(today, settings));
        let mut all: Vec<Screened> = all.collect::<Result<_>>()?;
        all.sort_by(|a, b| a.objective.total_cmp(&b.objective));
        Ok(all)
    }

    /// The metrics of a setting, and its space.
    pub fn of(&self, settings: &Settings) -> Result<(Metrics, SpaceRatio)> {
        Ok(self.figures(settings, &prediction(self.question, self.estimate, settings)?))
    }

    fn figures(&self, settings: &Settings, prediction: &Prediction) -> (Metrics, SpaceRatio) {
        let cell = cell(self.question, self.estimate, settings);
        let allocated = cell.map_or(0.0, |c| c.total_bytes as f64);
        let rate = self.anchor.work_rate(prediction, &self.reference);
        let space = cell.map_or((1.0, [1.0; 2]), |c| (c.ratio, c.ratio_ci95));
        (prediction.metrics(allocated, self.written, rate), space)
    }
}

/// What the estimate has of a setting.
fn cell<'a>(q: &Question<'_>, estimate: Option<&'a Estimate>, settings: &Settings) -> Option<&'a Cell> {
    let (recordsize, compression) = of_interest(settings);
    estimate?.cell(recordsize, &canonical(compression), q.ashift)
}

/// A codec's speed in bytes a second. It hardly depends on the record size, but one cell's figure is a few milliseconds of a
/// busy machine: the median over all record sizes is what the model takes.
fn speed(estimate: Option<&Estimate>, compression: &str, of: fn(&Cell) -> Option<f64>) -> f64 {
    let cells = estimate.map_or(&[][..], |e| e.cells.as_slice());
    let all: Vec<f64> = cells.iter().filter(|c| c.compression == compression).filter_map(of).collect();
    if all.is_empty() { f64::INFINITY } else { median(&all) * 1048576.0 }
}

fn prediction(q: &Question<'_>, estimate: Option<&Estimate>, settings: &Settings) -> Result<Prediction> {
    let compression = canonical(of_interest(settings).1);
    let packing = Packing {
        ratio: cell(q, estimate, settings).map_or(1.0, |c| c.ratio).clamp(0.01, 1e3),
        compress_bytes_s: speed(estimate, &compression, |c| c.compress_mib_s),
        decompress_bytes_s: speed(estimate, &compression, |c| c.decompress_mib_s),
    };
    let is_foreground = |e: &Event| q.foreground.is_empty() || q.foreground.contains(&e.tid);
    predict(q.trace, events(q), settings, packing, q.around, &is_foreground)
}

/// The time of today's settings if nothing but storage took time.
fn without_think_time(today: &Prediction, cores: f64) -> Anchor {
    let seconds = today.wait_ns / 1e9;
    Anchor { seconds, cpu_seconds: today.cpu_ns / 1e9, cores, threads: 1.0, recorded_s: 1.0 }
}

/// The events of the roles in the first [`MODEL_S`] seconds.
fn events<'a>(q: &Question<'a>) -> impl Iterator<Item = &'a Event> + Clone {
    let (capture, roles) = (q.capture, q.roles);
    let in_time = q.trace.events.partition_point(|e| e.t_ns < MODEL_S * 1_000_000_000);
    let events = q.trace.events[..in_time].iter();
    events.filter(move |e| roles.contains(&capture.roles[e.file as usize]) && capture.keeps(e))
}
