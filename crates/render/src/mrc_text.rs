//! Miss-ratio curves as terminal text and as JSON.

use poolwright_base::units::{counted, format_count, format_size};
use poolwright_mrc::advice::{Explained, Host};
use poolwright_mrc::analysis::{Divided, Ended, Explanation, MrcResult, Remark};
use poolwright_mrc::{Confidence, Curve, Point, Skipped, UnsupportedSize};
use poolwright_report::{Table, Terminal, Unit};
use poolwright_trace::UnseenOperation;
use schemars::JsonSchema;
use serde::Serialize;

use crate::mrc_page::{self, format};

/// The outcome of an `mrc` run.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The curves and the facts about the run.
    pub result: &'a MrcResult,
    /// The interpretation of the curves.
    pub explanation: &'a Explanation,
}

/// The JSON of `mrc --json`. The first curve is repeated at the top level.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MrcOutput {
    /// The file, or the recorded directory or process.
    pub source: String,
    /// The format of the file, or `live` for a recording.
    pub format: String,
    /// Why the run ended.
    pub ended: Ended,
    /// Recorded time in seconds; 0 if unknown.
    pub duration_s: f64,
    /// Events that the models do not use.
    pub skipped: Skipped,
    /// Events that the recorder lost because its buffer was full.
    pub lost_events: u64,
    /// Kinds of operations that the recorder cannot see.
    pub unseen: Vec<UnseenOperation>,
    /// Memory used by the records and the models, in bytes.
    pub memory_bytes: usize,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// Today's ARC and memory.
    pub host: Host,
    /// The curves with their interpretation.
    pub curves: Vec<Explained>,
    /// Bytes in the cache of all records that the trace touches, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint_bytes: Option<u64>,
    /// Time that a read from the device takes, in nanoseconds, as measured or as given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_latency_ns: Option<u64>,
    /// The division of memory, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Divided>,
    /// The first of the curves.
    #[serde(flatten)]
    pub first: Option<Explained>,
}

/// Returns the object of `--json`, a [`MrcOutput`].
pub fn json(run: &Run<'_>) -> serde_json::Value {
    let (result, explanation) = (run.result, run.explanation);
    let output = MrcOutput {
        source: result.source.clone(),
        format: result.format.to_owned(),
        ended: result.ended,
        duration_s: result.duration_ns as f64 / 1e9,
        skipped: result.skipped,
        lost_events: result.lost_events,
        unseen: result.unseen.iter().map(UnseenOperation::new).collect(),
        memory_bytes: result.memory_bytes,
        seconds: result.seconds,
        host: explanation.given.host,
        curves: explanation.curves.clone(),
        footprint_bytes: explanation.given.footprint_bytes,
        miss_latency_ns: explanation.given.miss_latency_ns,
        split: explanation.split.clone(),
        first: explanation.curves.first().cloned(),
    };
    serde_json::to_value(output).expect("the output has only numbers, texts and string keys")
}

/// Renders a table and an interpretation for each curve.
pub fn text(run: &Run<'_>, to: Terminal) -> String {
    let mut out = format!("{}: {}", run.result.source, run.result.format);
    if run.result.duration_ns > 0 {
        out.push_str(&format!(", {:.1} s", run.result.duration_ns as f64 / 1e9));
    }
    out.push('\n');
    for explained in &run.explanation.curves {
        let curve = &explained.curve;
        out.push('\n');
        out.push_str(&title(curve));
        out.push_str(&table(&curve.points).terminal(to));
        out.push_str(&unsupported_sizes(curve));
        for sentence in format::sentences(explained) {
            out.push_str(&format!("- {sentence}\n"));
        }
    }
    if let Some(divided) = &run.explanation.split {
        out.push_str(&format!(
            "\n{} divided:\n{}- {}\n- {}\n",
            format_size(divided.total_bytes),
            mrc_page::shares(divided).terminal(to),
            format::best_division(divided),
            format::DIVISION_ASSUMES
        ));
    }
    out
}

fn title(curve: &Curve) -> String {
    let records = match curve.recordsize {
        Some(bytes) if curve.records == 1 => format!("record of {}", format_size(bytes)),
        Some(bytes) => format!("records of {}", format_size(bytes)),
        None if curve.records == 1 => "object".to_owned(),
        None => "objects".to_owned(),
    };
    let about = if curve.sample.is_some() { "about " } else { "" };
    let sample = match &curve.sample {
        Some(sample) => {
            format!(
                "; a sample of {} records, {} %",
                format_count(sample.records),
                significant(sample.rate * 100.0)
            )
        }
        None => String::new(),
    };
    format!(
        "{}: {} for {about}{} {records}{sample}\n",
        curve.model,
        counted(curve.requests, "request"),
        format_count(curve.records)
    )
}

/// One line for each cache size that the sample does not cover.
fn unsupported_sizes(curve: &Curve) -> String {
    let sizes = curve.sample.iter().flat_map(|sample| &sample.unsupported_sizes);
    let line = |unsupported_sizes: &UnsupportedSize| {
        let size = format_size(unsupported_sizes.cache_bytes);
        format!("{size}: the sample has too few records; use {}\n", enough(unsupported_sizes.needs_rate))
    };
    sizes.map(line).collect()
}

/// The sampling rate that suffices, rounded up to two digits.
fn enough(rate: f64) -> String {
    let digits = (1.0 - rate.log10().floor()).max(1.0);
    let shift = 10f64.powf(digits);
    let rate = (rate * shift).ceil() / shift;
    if rate >= 1.0 { "all records".into() } else { format!("--sample {rate}") }
}

/// One row per cache size; columns without information are left out.
fn table(points: &[Point]) -> Table {
    let has = |of: fn(&Point) -> f64| points.iter().any(|point| of(point) > 0.0);
    Table::of(points)
        .right("cache", |point| format_size(point.cache_bytes))
        .right("misses", |point| percent(point.miss_ratio))
        .right("hits", |point| percent(1.0 - point.miss_ratio))
        .right_if(has(|p| p.update_miss_ratio), "update misses", |point| percent(point.update_miss_ratio))
        .right_if(has(|p| p.write_miss_ratio), "write misses", |point| percent(point.write_miss_ratio))
        .right_if(points.iter().any(|point| point.confidence.is_some()), "misses, 95 %", |point| {
            let range = |of: Confidence| format!("{}…{}", hundredths(of.low), percent(of.high));
            point.confidence.map_or_else(String::new, range)
        })
        .table()
}

/// Three significant digits without trailing zeros, because a rate may be 0.00153 %.
fn significant(value: f64) -> String {
    let places = (2 - value.max(1e-9).log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn percent(share: f64) -> String {
    format!("{} %", hundredths(share))
}

/// A share in per cent, with the precision of the models.
fn hundredths(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// The limitations of the curves: events that the recorder lost or could not see, and why the run ended early.
pub fn warnings(run: &Run<'_>) -> Vec<String> {
    let mut all: Vec<String> = run
        .result
        .skipped
        .counts()
        .into_iter()
        .map(|(count, what)| format!("{} {what}", counted(count, "event")))
        .collect();
    if run.result.lost_events > 0 {
        all.push(format!(
            "{} EVENTS LOST: the buffer was full; record again with a larger --buffer, or with fewer models",
            format_count(run.result.lost_events)
        ));
    }
    all.extend(run.result.unseen.iter().map(|(what, count)| match count {
        0 => format!("not seen: {what}"),
        count => format!("not seen: {count} {what}"),
    }));
    all.extend(run.result.remarks.iter().map(remark));
    let share =
        run.result.share.map_or(String::new(), |share| format!(" ({:.0} % of the trace)", share * 100.0));
    match (run.result.ended, run.result.format) {
        (Ended::Done, _) => {}
        (Ended::Interrupted, _) => {
            all.push(format!("interrupted; the figures cover what was read so far{share}"));
        }
        (Ended::Empty, "live") => all.push(format!(
            "nothing was recorded: no read or write of {}; check that it is the directory, process or volume of the \
             database, and that the database has load",
            run.result.source
        )),
        (Ended::Empty, _) => all.push(format!(
            "{} has no request that a cache would see, so there is no curve",
            run.result.source
        )),
    }
    all
}

/// A remark with the options that help.
fn remark(remark: &Remark) -> String {
    match remark {
        Remark::FitsSmallestArc { .. } => format!("{remark}; use --model lru or arc for smaller caches"),
        Remark::SmallRecords { .. } => format!("{remark}; use --recordsize 8K or more"),
    }
}

/// Names and values that describe the trace and the run.
pub fn about(run: &Run<'_>) -> Vec<(String, String)> {
    let mut all = vec![
        ("trace".to_owned(), run.result.source.to_owned()),
        ("format".to_owned(), run.result.format.to_owned()),
    ];
    if run.result.duration_ns > 0 {
        all.push(("length".to_owned(), Unit::Nanoseconds.format(run.result.duration_ns as f64)));
    }
    all.extend(
        run.explanation
            .given
            .footprint_bytes
            .map(|bytes| ("records touched".to_owned(), format!("about {}", format_size(bytes)))),
    );
    all.push(("memory for records and models".to_owned(), format_size(run.result.memory_bytes as u64)));
    all.push(("took".to_owned(), Unit::Seconds.format(run.result.seconds)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_short() {
        let cases = [(100.0, "100"), (10.0, "10"), (6.25, "6.25"), (0.1, "0.1"), (0.001525878, "0.00153")];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
    }
}
