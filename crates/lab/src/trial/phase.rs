//! Runs one phase: from the start of the driver to the sizes of the datasets afterwards.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_base::memory_limit::MemoryGroup;
use poolwright_base::quoted;

use super::driver::{Driver, Received};
use super::figures::{self, add_point, put, since};
use super::protocol::{self, DriverMessage, Edge, Latency, Progress};
use super::sampler::{Sampler, Snapshot};
use super::target::{DatasetServer, Recorded, Target};
use super::{Logs, Setting, calls, processes, snapshots};
use crate::campaign::{Change, Phase, SnapshotRule};
use crate::{Error, PhaseOutcome, Result, TargetSpec, TrialSpec};

/// Interval for checking the driver, the mount process and Ctrl-C while the driver prints nothing.
const LOOK: Duration = Duration::from_millis(50);
/// Time that processes started by the driver may take to end after it before they count as left running.
const FAREWELL: Duration = Duration::from_secs(2);
/// Interval between two progress messages to the starting process.
const SAY_EVERY: Duration = Duration::from_millis(250);
/// Number of lines of a failed driver's log that are passed to the starting process.
const LAST_LINES: usize = 12;
/// The shortest interval of progress that yields a point of the rate.
const RATE_OVER: f64 = 0.9;

/// The result of a phase.
pub struct Done {
    /// The outcome for the results.
    pub outcome: PhaseOutcome,
    /// Versions that the driver reported.
    pub versions: BTreeMap<String, String>,
}

/// Runs a phase on a mounted target.
///
/// # Errors
/// Fails if the driver fails, exceeds the phase's limit, violates the protocol or leaves processes running, if the
/// target fails, or if the user interrupts the trial.
pub fn run(
    spec: &TrialSpec,
    setting: &Setting,
    phase: &Phase,
    target: &mut dyn Target,
    logs: &Logs,
) -> Result<Done> {
    target.prepare(phase.cold, phase.record)?;
    let mut notes = watched(spec, setting, phase, &*target, logs)?;
    target.sync()?;
    let synced = Sampler::new(&*target, None).snapshot();
    let sizes = target.sizes()?;
    let traces = target.recorded()?;
    if let Some(why) = target.trouble() {
        return Err(Error::Trial(why));
    }
    figures::of_sync(&mut notes.outcome.measures, &notes.first.snapshot, &synced);
    figures::of_sizes(&mut notes.outcome.measures, &sizes);
    notes.finish(phase, &traces)
}

/// Runs the sampled part: from the driver's start to the end of all processes that it started.
fn watched(
    spec: &TrialSpec,
    setting: &Setting,
    phase: &Phase,
    target: &dyn Target,
    logs: &Logs,
) -> Result<PhaseRecorder> {
    let pool = match &spec.target {
        TargetSpec::Pool(pool) => Some(pool),
        TargetSpec::Dataset(_) | TargetSpec::Directory(_) => None,
    };
    let is_limited = pool.is_some_and(|pool| pool.memory != "none");
    let rule = pool.filter(|_| phase.measure).map_or(Ok(None), |pool| SnapshotRule::parse(&pool.snapshots));
    let rule = rule.map_err(Error::Trial)?;
    let sampler = Sampler::new(target, is_limited.then(|| MemoryGroup::current().ok()).flatten());
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| sampler.watch(stop));
        let snapshots =
            rule.map(|rule| scope.spawn(move || snapshots::take(target, rule, &phase.name, stop)));
        let notes = with_driver(spec, setting, phase, target, &sampler, logs);
        stop.store(true, Ordering::Release);
        let samples = watching.join().map_err(|_| Error::Trial("the sampler thread panicked".into()))?;
        let taken = snapshots.map(|thread| thread.join());
        let mut notes = notes?;
        notes.snapshots = samples;
        if let Some(taken) = taken {
            let taken = taken.map_err(|_| Error::Trial("the snapshot thread panicked".into()))??;
            snapshots::measures(&mut notes.outcome.measures, &taken);
        }
        Ok(notes)
    })
}

fn with_driver(
    spec: &TrialSpec,
    setting: &Setting,
    phase: &Phase,
    target: &dyn Target,
    sampler: &Sampler<'_>,
    logs: &Logs,
) -> Result<PhaseRecorder> {
    let paths: BTreeMap<&String, PathBuf> =
        spec.datasets.keys().map(|role| (role, target.path(role))).collect();
    let input = serde_json::json!({
        "protocol": protocol::VERSION, "phase": phase.name, "parameters": spec.parameters, "paths": paths,
        "scratch": logs.driver, "cache": spec.cache, "tools": spec.tools, "seed": spec.seed,
        "engine_pid": target.servers().into_iter().find_map(DatasetServer::process),
    });
    let mut notes = PhaseRecorder::new(phase, EdgeSnapshot::of(sampler.snapshot()));
    let mut driver =
        Driver::start(&spec.driver, &spec.driver_words, &input, &logs.driver, &logs.of(&phase.name))?;
    let run = listen(setting, phase, target, sampler, &mut driver, &mut notes);
    let status = match run {
        Ok(status) => status,
        Err(why) => {
            driver.end();
            processes::end(&sampler.except(), FAREWELL);
            return Err(why);
        }
    };
    let left = processes::settled(&sampler.except(), FAREWELL);
    if notes.last.is_none() {
        notes.last = Some(EdgeSnapshot::of(sampler.snapshot()));
    }
    if !left.is_empty() {
        processes::end(&sampler.except(), FAREWELL);
    }
    // If the datasets have failed, this is the cause; the driver's own error does not help.
    if let Some(why) = target.trouble() {
        return Err(Error::Trial(why));
    }
    if !status.success() {
        let words = driver.last_output();
        let lines: Vec<&str> = words.lines().collect();
        for line in &lines[lines.len().saturating_sub(LAST_LINES)..] {
            (setting.say)(&serde_json::json!({ "log": line }));
        }
        return Err(Error::Trial(failure(&spec.driver.to_string_lossy(), status, &words)));
    }
    if !left.is_empty() {
        let names: Vec<String> = left.iter().map(|p| format!("{} (process {})", p.name, p.pid)).collect();
        return Err(Error::Trial(format!(
            "the driver {} left {} running: a driver must stop the processes that it starts",
            quoted(&spec.driver),
            names.join(", ")
        )));
    }
    Ok(notes)
}

/// Processes the driver's messages until it ends.
fn listen(
    setting: &Setting,
    phase: &Phase,
    target: &dyn Target,
    sampler: &Sampler<'_>,
    driver: &mut Driver,
    notes: &mut PhaseRecorder,
) -> Result<ExitStatus> {
    let limit = Duration::from_nanos(phase.limit_ns);
    let started = Instant::now();
    let (mut ended, mut silent) = (None, false);
    loop {
        match driver.recv(LOOK) {
            Received::Line(at, text) => notes.take(at, &text, sampler, setting)?,
            Received::Nothing => {}
            Received::End => {
                silent = true;
                std::thread::sleep(LOOK / 5);
            }
        }
        notes.change(target)?;
        if ended.is_none() {
            ended = driver.ended().map(|status| (status, Instant::now()));
        }
        if let Some((status, when)) = ended {
            // Its last lines may still be in the pipe, and a process that it left running may keep the
            // pipe open.
            if silent || when.elapsed() > FAREWELL {
                return Ok(status);
            }
        }
        if (setting.interrupted)() {
            return Err(Error::Interrupted);
        }
        if let Some(why) = target.trouble() {
            return Err(Error::Trial(why));
        }
        if started.elapsed() > limit {
            let words = last_line(&driver.last_output())
                .map_or_else(String::new, |line| format!("; its last message: {line}"));
            return Err(Error::Trial(format!(
                "the driver exceeded the phase's limit of {} s{words}",
                limit.as_secs_f64()
            )));
        }
    }
}

fn last_line(words: &str) -> Option<&str> {
    words.lines().map(str::trim).rfind(|line| !line.is_empty())
}

fn failure(driver: &str, status: ExitStatus, words: &str) -> String {
    match last_line(words) {
        Some(line) => format!("{driver} failed ({status}): {line}"),
        None => format!("{driver} failed ({status}) and printed nothing on its standard error"),
    }
}

/// An edge of the measured window: its time and the counters.
struct EdgeSnapshot {
    at: Instant,
    snapshot: Snapshot,
}

impl EdgeSnapshot {
    fn of(snapshot: Snapshot) -> EdgeSnapshot {
        EdgeSnapshot { at: snapshot.at, snapshot }
    }
}

/// Collects the data of a phase while the driver runs.
struct PhaseRecorder {
    outcome: PhaseOutcome,
    versions: BTreeMap<String, String>,
    /// The window's edges: those of the whole phase until the driver reports others. The times are those of the
    /// driver's lines; the counters are read a moment later.
    first: EdgeSnapshot,
    last: Option<EdgeSnapshot>,
    opened: bool,
    snapshots: Vec<Snapshot>,
    progress: Vec<(Instant, Progress)>,
    series: Vec<(Instant, protocol::Figure)>,
    log: Vec<(Instant, String)>,
    changes: Vec<(Instant, String)>,
    /// Changes that have not been made yet.
    pending: Vec<Change>,
    reported_at: Option<Instant>,
}

impl PhaseRecorder {
    fn new(phase: &Phase, first: EdgeSnapshot) -> PhaseRecorder {
        let outcome =
            PhaseOutcome { name: phase.name.clone(), measured: phase.measure, ..PhaseOutcome::default() };
        PhaseRecorder {
            outcome,
            versions: BTreeMap::new(),
            first,
            last: None,
            opened: false,
            snapshots: Vec::new(),
            progress: Vec::new(),
            series: Vec::new(),
            log: Vec::new(),
            changes: Vec::new(),
            pending: phase.at.clone(),
            reported_at: None,
        }
    }

    fn take(&mut self, at: Instant, text: &str, sampler: &Sampler<'_>, setting: &Setting) -> Result<()> {
        let line = protocol::parse(text).map_err(|why| Error::Trial(format!("the driver: {why}")))?;
        match line {
            DriverMessage::Measure(Edge::Start) if !self.opened => {
                (self.opened, self.first) = (true, EdgeSnapshot { at, snapshot: sampler.snapshot() });
            }
            DriverMessage::Measure(Edge::Stop) if self.opened && self.last.is_none() => {
                self.last = Some(EdgeSnapshot { at, snapshot: sampler.snapshot() });
            }
            DriverMessage::Measure(edge) => {
                return Err(Error::Trial(format!(
                    "the driver: unexpected measure {}: start and stop must occur once each, in this order",
                    if edge == Edge::Start { "start" } else { "stop" }
                )));
            }
            DriverMessage::Progress(progress) => self.progressed(at, progress, setting),
            DriverMessage::Latency(latency) => self.latency(&latency),
            DriverMessage::Figure(figure) => {
                put(&mut self.outcome.measures, figure.name, figure.value, &figure.unit)
            }
            DriverMessage::Series(figure) => self.series.push((at, figure)),
            DriverMessage::Version(version) => {
                self.versions.insert(version.name, version.value);
            }
            DriverMessage::Log(line) => {
                (setting.say)(&serde_json::json!({ "log": line }));
                self.log.push((at, line));
            }
        }
        Ok(())
    }

    fn latency(&mut self, latency: &Latency) {
        let Latency { op, count, p50, p95, p99, p999, max } = latency;
        let all = &mut self.outcome.measures;
        for (name, value) in [("p50", p50), ("p95", p95), ("p99", p99), ("p999", p999), ("max", max)] {
            put(all, format!("{op}_{name}"), *value, "ns");
        }
        put(all, format!("{op}_count"), *count, "count");
    }

    fn progressed(&mut self, at: Instant, progress: Progress, setting: &Setting) {
        let last = progress.of > 0.0 && progress.done >= progress.of;
        if last
            || self
                .reported_at
                .is_none_or(|reported_at| at.saturating_duration_since(reported_at) >= SAY_EVERY)
        {
            self.reported_at = Some(at);
            (setting.say)(&serde_json::json!({
                "phase": self.outcome.name, "done": progress.done, "of": progress.of, "unit": progress.unit,
            }));
        }
        self.progress.push((at, progress));
    }

    /// Makes the changes that are due. The driver continues during the changes, and its messages are queued.
    fn change(&mut self, target: &dyn Target) -> Result<()> {
        // The progress of a driver without a window is measured from the beginning.
        let measured = (self.opened || !self.progress.is_empty()) && self.last.is_none();
        if self.pending.is_empty() || !measured {
            return Ok(());
        }
        let done = self.progress.last().map_or(0.0, |(_, p)| if p.of > 0.0 { p.done / p.of } else { 0.0 });
        let elapsed = self.first.at.elapsed().as_secs_f64();
        let due = |change: &Change| {
            change.progress.is_some_and(|share| done >= share)
                || change.seconds.is_some_and(|seconds| elapsed >= seconds)
        };
        let (now, later) = std::mem::take(&mut self.pending).into_iter().partition(due);
        self.pending = later;
        for change in now {
            for (location, value) in &change.set {
                let Some((role, property)) = location.split_once('.') else {
                    return Err(Error::Trial(format!(
                        "{location} cannot be changed live: write ROLE.property"
                    )));
                };
                target.set(role, &BTreeMap::from([(property.to_owned(), value.clone())]))?;
                self.changes.push((Instant::now(), format!("{location}={value}")));
            }
        }
        Ok(())
    }

    /// Finishes everything that depends on the beginning of the window, and the window's measures.
    fn finish(mut self, phase: &Phase, traces: &BTreeMap<String, Recorded>) -> Result<Done> {
        if let Some(change) = self.pending.first() {
            return Err(Error::Trial(format!(
                "the driver ended before the change of {} was due; it printed {} lines of progress",
                change.set.keys().cloned().collect::<Vec<_>>().join(", "),
                self.progress.len()
            )));
        }
        let last = self.last.take().ok_or_else(|| Error::Trial("the window has no end".into()))?;
        let began = self.first.at;
        let wall = last.at.saturating_duration_since(began).as_secs_f64();
        let ours = figures::of_window(wall, &self.first.snapshot, &last.snapshot, &self.snapshots);
        // The driver's figures take precedence over ours with the same name.
        for (name, measure) in ours {
            self.outcome.measures.entry(name).or_insert(measure);
        }
        if let Some(rate) = rate(&self.progress, began, last.at) {
            self.outcome.measures.entry("rate".into()).or_insert(rate);
        }
        self.outcome.series = figures::of_snapshots(&self.snapshots, began);
        for (at, done, rate) in rates(&self.progress) {
            add_point(&mut self.outcome.series, "done", "count", since(began, at), done);
            add_point(&mut self.outcome.series, "rate", "1/s", since(began, at), rate);
        }
        for (at, figure) in &self.series {
            add_point(&mut self.outcome.series, &figure.name, &figure.unit, since(began, *at), figure.value);
        }
        let lines = |all: Vec<(Instant, String)>| {
            all.into_iter().map(|(at, line)| (since(began, at), line)).collect()
        };
        self.outcome.log = lines(self.log);
        self.outcome.changes = lines(self.changes);
        if phase.record {
            let (histograms, measures) = calls::of_traces(traces, (began, last.at))?;
            self.outcome.histograms = histograms;
            for (name, measure) in measures {
                self.outcome.measures.entry(name).or_insert(measure);
            }
        }
        Ok(Done { outcome: self.outcome, versions: self.versions })
    }
}

/// Returns the work done per second in the window.
fn rate(progress: &[(Instant, Progress)], first: Instant, last: Instant) -> Option<crate::Measure> {
    let done_by = |moment| progress.iter().rfind(|(at, _)| *at <= moment).map(|(_, progress)| progress.done);
    let seconds = last.saturating_duration_since(first).as_secs_f64();
    let done = done_by(last)? - done_by(first).unwrap_or(0.0);
    (seconds > 0.0).then(|| crate::Measure { value: done / seconds, unit: "1/s".into() })
}

/// Returns points of time, work done until then, and the rate since the previous point.
fn rates(progress: &[(Instant, Progress)]) -> Vec<(Instant, f64, f64)> {
    let mut points = Vec::new();
    let Some((first, rest)) = progress.split_first() else { return points };
    let mut from = first;
    for now in rest {
        let seconds = now.0.saturating_duration_since(from.0).as_secs_f64();
        if now.1.done < from.1.done || now.1.unit != from.1.unit {
            from = now;
        } else if seconds >= RATE_OVER {
            points.push((now.0, now.1.done, (now.1.done - from.1.done) / seconds));
            from = now;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(start: Instant, seconds: f64, done: f64) -> (Instant, Progress) {
        (start + Duration::from_secs_f64(seconds), Progress { done, of: 100.0, unit: "rows".into() })
    }

    #[test]
    fn rates_are_over_about_a_second() {
        let start = Instant::now();
        let all = [
            at(start, 0.0, 0.0),
            at(start, 0.5, 10.0),
            at(start, 1.0, 20.0),
            at(start, 3.0, 40.0),
            at(start, 4.0, 0.0),
            at(start, 5.0, 5.0),
        ];
        let points: Vec<(f64, f64)> = rates(&all).iter().map(|(_, done, rate)| (*done, *rate)).collect();
        assert_eq!(points, [(20.0, 20.0), (40.0, 10.0), (5.0, 5.0)]);
        assert!(rates(&[]).is_empty());
    }

    #[test]
    fn the_rate_is_of_the_window() {
        let start = Instant::now();
        let all = [at(start, 0.0, 10.0), at(start, 1.0, 20.0), at(start, 2.0, 50.0), at(start, 9.0, 100.0)];
        let moment = |seconds: f64| start + Duration::from_secs_f64(seconds);
        assert_eq!(rate(&all, moment(1.0), moment(3.0)).unwrap().value, 15.0);
        assert_eq!(rate(&[], moment(1.0), moment(3.0)), None);
    }
}
