//! Figures and failures of one trial.

use std::path::Path;

use poolwright_lab::Outcome;
use poolwright_plan::MetricName;
use poolwright_tune::objective::Metrics;

use crate::command::COMMAND_HEADING;
use crate::{COPY, Error, LOAD, LOAD_S, Result, WORK};

/// The number of lines of a failed trial's log that are shown.
const LAST_LINES: usize = 12;
/// The number of bytes at the end of a log that are searched for them.
const LAST_BYTES: u64 = 8 << 10;

/// A figure of the measured phase.
///
/// # Errors
/// [`Error::Trial`] if the trial did not report it.
pub(crate) fn figure(outcome: &Outcome, name: &str) -> Result<f64> {
    let found = outcome.measure(&format!("{LOAD}/{name}")).map(|m| m.value);
    found.ok_or_else(|| Error::Trial(format!("the trial reported no {name}")))
}

/// The metrics of a trial, in the units of [`CONFIRMED`](poolwright_plan::metric::CONFIRMED).
///
/// # Errors
/// [`Error::Trial`] if the trial did not report a figure.
pub(crate) fn metrics(outcome: &Outcome) -> Result<Metrics> {
    let (seconds, work) = (figure(outcome, LOAD_S)?, figure(outcome, WORK)?);
    let mut metrics = Metrics::new();
    let mut put = |name: MetricName, value: f64| {
        if value.is_finite() && value > 0.0 {
            metrics.insert(name, value);
        }
    };
    put(MetricName::WorkRate, work / seconds);
    put(MetricName::AllocatedBytes, figure(outcome, "allocated")?);
    put(MetricName::VdevWriteBytes, figure(outcome, "vdev_write_bytes")? / work);
    put(MetricName::VdevReadBytes, figure(outcome, "vdev_read_bytes")? / work);
    let cpu =
        ["user_s", "system_s", "engine_s"].iter().map(|name| figure(outcome, name)).sum::<Result<f64>>()?;
    put(MetricName::CpuNsPerOp, cpu * 1e9 / work);
    Ok(metrics)
}

/// The message of a failed trial: the cause, and the last lines that the command printed which ran last.
pub(crate) fn failure(why: &str, log: &str) -> String {
    // The last line of the log is the driver's message, which `why` quotes.
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = lines.iter().rposition(|line| line.starts_with("poolwright: ")).unwrap_or(lines.len());
    let heading = lines[..end].iter().rposition(|line| line.starts_with(COMMAND_HEADING));
    let first = heading.map_or(0, |heading| heading + 1).max(end.saturating_sub(LAST_LINES));
    let log_lines = &lines[first..end];
    let why = why.rsplit_once("): ").map_or(why, |(_, last)| last).trim_start_matches("poolwright: ");
    if log_lines.is_empty() {
        return why.to_owned();
    }
    format!("{why}\nthe last lines of its output:\n  {}", log_lines.join("\n  "))
}

/// The end of the log of the phase that ran last.
pub(crate) fn last_lines(scratch: &Path) -> String {
    let read = |phase: &str| -> Option<String> {
        let text = std::fs::read(scratch.join("log").join(format!("{phase}.log"))).ok()?;
        let from = text.len().saturating_sub(LAST_BYTES as usize);
        Some(String::from_utf8_lossy(&text[from..]).into_owned())
    };
    read(LOAD).or_else(|| read(COPY)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_log_without_saying_things_twice() {
        let why = "phase load: /proc/1/exe failed (exit status: 1): poolwright: the start command failed (exit status: 3)";
        let log = "poolwright runs the command: load\n1 of 9\npoolwright runs the command: start\nstarting\n\nno such table\npoolwright: the start command failed (exit status: 3)\n";
        let text = failure(why, log);
        assert_eq!(
            text,
            "the start command failed (exit status: 3)\nthe last lines of its output:\n  starting\n  no such table"
        );
    }
}
