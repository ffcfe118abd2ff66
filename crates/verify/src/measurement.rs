//! Measures the database in operation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use poolwright_base::{memory, time};
use poolwright_plan::{LiveMeasurement, MetricName, Plan, RateUnit};
use poolwright_record::{Options as RecorderOptions, Progress, Recorder, Subject};
use poolwright_trace::{Event, Reader, Trace};

use crate::blocks::{BLOCKS, MIN_FOR_DEVICES_S, TraceFigures, figures};
use crate::counters::{DeviceCounters, PoolMeter};
use crate::state::PlanMounts;
use crate::work_count::count;
use crate::{Error, Result};

/// How often the samplers look whether the recording is over.
const POLL: Duration = Duration::from_millis(20);

/// Memory that an event takes when a trace is read: sorting takes half as much again.
const BYTES_PER_EVENT: u64 = size_of::<Event>() as u64 * 3 / 2;
/// How long the last sample may come after the end of the recording.
const LATE: Duration = Duration::from_secs(1);

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Length of the recording.
    pub duration: Duration,
    /// The trace to write.
    pub trace: PathBuf,
    /// A shell command that prints how much work the application has done so far.
    pub work: Option<String>,
}

/// Records the database of the plan, and returns its figures.
///
/// # Errors
/// [`Error::NothingRecorded`] if no process used the database; [`Error::Interrupted`] if `is_interrupted` returned true;
/// [`Error::Work`] if the command does not count; the errors of the recorder and of the pool.
pub fn measure(
    plan: &Plan,
    options: &Options,
    is_interrupted: &(dyn Fn() -> bool + Sync),
    mut progress: impl FnMut(&Progress),
) -> Result<LiveMeasurement> {
    let directory = PathBuf::from(&plan.subject.directory);
    let mounts = PlanMounts::read()?;
    let sampler = Sampler { meter: PoolMeter::of(plan, &mounts)?, work: options.work.as_deref() };
    // A command that does not count must fail before the recording.
    sampler.sample()?;
    let recorder = Recorder::start(Subject::Dir(directory.clone()), &RecorderOptions::new(&options.trace))?;
    let (over, began, events) = (AtomicBool::new(false), Instant::now(), AtomicU64::new(0));
    let most_events = memory::available().unwrap_or(u64::MAX) / 2 / BYTES_PER_EVENT;
    let is_too_large = || events.load(Ordering::Relaxed) > most_events;
    let is_over = || {
        began.elapsed() >= options.duration
            || is_interrupted()
            || over.load(Ordering::Relaxed)
            || is_too_large()
    };
    let (summary, samples) = std::thread::scope(|scope| {
        let sampled = scope.spawn(|| {
            let samples = sampler.run(options.duration, &over);
            over.store(samples.is_err(), Ordering::Relaxed);
            samples
        });
        let summary = recorder.run(is_over, |now| {
            events.store(now.events, Ordering::Relaxed);
            progress(now);
        });
        over.store(true, Ordering::Relaxed);
        (summary, sampled.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let (summary, samples) = (summary?, samples?);
    if is_interrupted() {
        return Err(Error::Interrupted);
    }
    if is_too_large() {
        let (events, seconds) = (summary.trace.events, began.elapsed().as_secs_f64());
        return Err(Error::TooManyEvents { events, seconds });
    }
    if let Some(command) = options.work.as_ref().filter(|_| samples.len() <= BLOCKS) {
        let why = "takes longer than a block of the recording".to_owned();
        return Err(Error::Work { command: command.clone(), why });
    }
    if summary.trace.events == 0 {
        return Err(Error::NothingRecorded(directory));
    }
    let trace = Trace::load(&options.trace)?;
    let mut found = of_figures(&trace, figures(&trace), &samples, options.work.as_deref());
    found.created = Some(time::now());
    if let Some(sample) = mounts.files(&directory) {
        found.bytes = sample.bytes;
        if mounts.of_dataset(&directory).is_some() && sample.bytes > 0 {
            add_space(&mut found, sample.allocated);
        }
    }
    Ok(found)
}

/// What is known of the state before a plan from its own recording, or from `trace`: neither counters of the pool nor a count of
/// work. `None` if the plan's recording was not kept, or if its file has another content now.
///
/// # Errors
/// [`Error::OtherRecording`] if `trace` is not of the plan's database; the errors of reading a trace.
pub fn from_recording(plan: &Plan, trace: Option<&Path>) -> Result<Option<LiveMeasurement>> {
    let subject = &plan.subject;
    let path = match trace {
        Some(path) => {
            let (found, expected) =
                (Reader::open(path)?.meta().subject.clone(), format!("dir:{}", subject.directory));
            if found != expected {
                return Err(Error::OtherRecording { path: path.to_owned(), subject: found, expected });
            }
            path
        }
        None => match kept_recording(plan) {
            Some(path) => path,
            None => return Ok(None),
        },
    };
    let trace = Trace::load(path)?;
    let mut found = of_figures(&trace, figures(&trace), &[], None);
    let directory = Path::new(&subject.directory);
    // The plan counts the files of one file system. The space on another file system is not that of today's settings.
    if subject.dataset.is_some() && subject.bytes > 0 && !PlanMounts::read()?.has_mounts_below(directory) {
        found.bytes = subject.bytes;
        add_space(&mut found, subject.allocated_bytes);
    }
    Ok(Some(found))
}

/// The plan's own recording, if it is still there and unchanged.
fn kept_recording(plan: &Plan) -> Option<&Path> {
    let path = Path::new(plan.trace.as_ref()?.path.as_ref()?);
    let checksum = &plan.request.as_ref()?.trace_checksum;
    (Reader::open(path).ok()?.fingerprint() == *checksum).then_some(path)
}

/// Adds the allocated bytes of the files per byte of their lengths, which must not be 0.
fn add_space(found: &mut LiveMeasurement, allocated: u64) {
    found.metrics.insert(MetricName::AllocatedBytes, vec![allocated as f64 / found.bytes as f64]);
}

fn of_figures(trace: &Trace, of: TraceFigures, samples: &[Sample], work: Option<&str>) -> LiveMeasurement {
    let mut metrics = of.metrics;
    let mut units: Vec<f64> = of.operations.iter().map(|count| *count as f64).collect();
    let mut seconds = vec![of.block_s; units.len()];
    if work.is_some() {
        (units, seconds) = samples
            .windows(2)
            .map(|pair| (pair[1].work.unwrap_or(0.0) - pair[0].work.unwrap_or(0.0), pair[1].at - pair[0].at))
            .unzip();
    }
    let rates = units.iter().zip(&seconds).map(|(units, seconds)| units / seconds).collect();
    metrics.insert(MetricName::WorkRate, rates);
    let share_of_pool = add_devices(&mut metrics, of.block_s, &of.written_bytes, &units, samples);
    LiveMeasurement {
        seconds: of.block_s * BLOCKS as f64,
        blocks: BLOCKS as u32,
        events: trace.events.len() as u64,
        lost_events: trace.meta.lost_events,
        rate: work.map_or(RateUnit::FileOperations, |command| RateUnit::Command(command.to_owned())),
        metrics,
        mix: of.mix,
        share_of_pool,
        ..LiveMeasurement::default()
    }
}

/// Adds the metrics of the devices, for groups of blocks. Returns the database's share of the writes to the pool.
fn add_devices(
    metrics: &mut BTreeMap<MetricName, Vec<f64>>,
    block_s: f64,
    written: &[u64],
    units: &[f64],
    samples: &[Sample],
) -> Option<f64> {
    let counters: Option<Vec<DeviceCounters>> = samples.iter().map(|sample| sample.counters).collect();
    let counters = counters.filter(|counters| counters.len() == BLOCKS + 1)?;
    // A recording can be some milliseconds shorter than its nominal length.
    let group = ((0.99 * MIN_FOR_DEVICES_S / block_s).ceil() as usize).clamp(1, BLOCKS);
    let blocks: Vec<DeviceCounters> = counters.windows(2).map(|pair| pair[1].since(pair[0])).collect();
    let written: Vec<f64> = written.iter().map(|bytes| *bytes as f64).collect();
    let device_written: Vec<f64> = blocks.iter().map(|block| block.device_written as f64).collect();
    metrics.insert(MetricName::WriteAmplification, ratios(&device_written, &written, group));
    metrics.insert(MetricName::VdevWriteBytes, ratios(&device_written, units, group));
    let total = counters[BLOCKS].since(counters[0]);
    (total.written_by_all > 0).then(|| total.written_by_database as f64 / total.written_by_all as f64)
}

/// The ratios of the sums of `group` successive values. An incomplete group at the end is left out, as is a divisor of 0.
fn ratios(values: &[f64], of: &[f64], group: usize) -> Vec<f64> {
    let sums = |all: &[f64]| -> Vec<f64> { all.chunks_exact(group).map(|some| some.iter().sum()).collect() };
    sums(values).into_iter().zip(sums(of)).filter(|(_, of)| *of > 0.0).map(|(value, of)| value / of).collect()
}

/// The counters at one time.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Seconds since the start of the recording.
    at: f64,
    counters: Option<DeviceCounters>,
    work: Option<f64>,
}

struct Sampler<'a> {
    meter: Option<PoolMeter>,
    work: Option<&'a str>,
}

impl Sampler<'_> {
    fn sample(&self) -> Result<(Option<DeviceCounters>, Option<f64>)> {
        let counters = self.meter.as_ref().map(PoolMeter::read).transpose()?.flatten();
        Ok((counters, self.work.map(count).transpose()?))
    }

    /// Samples at the boundaries of the blocks. An interrupted run returns fewer samples.
    fn run(&self, duration: Duration, over: &AtomicBool) -> Result<Vec<Sample>> {
        let (began, block) = (Instant::now(), duration / BLOCKS as u32);
        let mut samples = Vec::new();
        for boundary in 0..=BLOCKS as u32 {
            // The recording can end a moment before the last boundary.
            let is_last = boundary == BLOCKS as u32;
            let is_ended = |early: Duration| over.load(Ordering::Relaxed) && (!is_last || early > LATE);
            loop {
                let early = (block * boundary).saturating_sub(began.elapsed());
                if is_ended(early) {
                    return Ok(samples);
                }
                if early.is_zero() {
                    break;
                }
                std::thread::sleep(early.min(POLL));
            }
            let at = began.elapsed().as_secs_f64();
            let (counters, work) = self.sample()?;
            samples.push(Sample { at, counters, work });
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A transaction group of 1 MB each 5 s, in blocks of 3 s.
    #[test]
    fn bytes_on_devices_are_counted_over_transaction_groups() {
        let sample = |boundary: u32| Sample {
            at: f64::from(boundary) * 3.0,
            counters: Some(DeviceCounters {
                device_written: u64::from(boundary) * 3 / 5 * 1_000_000,
                written_by_database: u64::from(boundary) * 300_000,
                written_by_all: u64::from(boundary) * 400_000,
            }),
            work: None,
        };
        let samples: Vec<Sample> = (0..=BLOCKS as u32).map(sample).collect();
        let mut metrics = BTreeMap::new();
        let share = add_devices(&mut metrics, 3.0, &[300_000; BLOCKS], &[10.0; BLOCKS], &samples);
        assert_eq!(share, Some(0.75));
        // Two groups of 12 s: the first ends after two transaction groups, the second after four.
        let amplification = &metrics[&MetricName::WriteAmplification];
        assert_eq!(amplification.len(), 2, "{amplification:?}");
        assert!(amplification.iter().all(|value| (value - 2.0 / 1.2).abs() < 1e-9), "{amplification:?}");
        assert_eq!(metrics[&MetricName::VdevWriteBytes], [50_000.0; 2]);
    }

    #[test]
    fn a_pool_without_counters_has_no_figures_of_devices() {
        let samples: Vec<Sample> =
            (0..=BLOCKS as u32).map(|n| Sample { at: f64::from(n), counters: None, work: None }).collect();
        let mut metrics = BTreeMap::new();
        assert_eq!(add_devices(&mut metrics, 1.0, &[1; BLOCKS], &[1.0; BLOCKS], &samples), None);
        assert!(metrics.is_empty());
    }

    #[test]
    fn the_sampler_ends_with_an_interrupted_recording() {
        let sampler = Sampler { meter: None, work: None };
        let over = AtomicBool::new(true);
        // The first sample is due at once; the next ones in minutes.
        assert!(sampler.run(Duration::from_secs(6000), &over).unwrap().len() <= 1);
        // The end of the recording does not prevent the last sample, which is due a moment later.
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let run = scope.spawn(|| sampler.run(Duration::from_millis(500), &over).unwrap().len());
            std::thread::sleep(Duration::from_millis(480));
            over.store(true, Ordering::Relaxed);
            assert!(run.join().unwrap() >= 1);
        });
    }
}
