//! What was found, as tables and as JSON.

use poolwright_mrc::{Curve, Point, UnsupportedSize};
use poolwright_report::{Cell, Column, Table, Terminal, Unit};
use poolwright_trace::{counted, format_count, format_size};
use serde_json::json;

use super::analysis::Explanation;
use super::result::{Ended, MrcResult};
use crate::mrc_page::{self, format};

/// The object of `--json`; the fields of the first curve stand at its top.
pub fn json(found: &MrcResult, explanation: &Explanation) -> serde_json::Value {
    let mut object = json!({
        "source": found.source,
        "format": found.format,
        "ended": found.ended.name(),
        "duration_s": found.duration_ns as f64 / 1e9,
        "skipped": found.skipped,
        "lost_events": found.lost_events,
        "unseen": found.unseen.iter().map(|(what, n)| json!({"what": what, "count": n})).collect::<Vec<_>>(),
        "memory_bytes": found.memory,
        "seconds": found.seconds,
        "host": explanation.given.host,
        "curves": explanation.curves,
    });
    let fields = object.as_object_mut().expect("it was written as an object");
    if let Some(bytes) = found.footprint {
        fields.insert("footprint_bytes".into(), bytes.into());
    }
    if let Some(ns) = explanation.given.miss_latency_ns {
        fields.insert("miss_latency_ns".into(), ns.into());
    }
    if let Some(split) = &explanation.split {
        fields.insert("split".into(), serde_json::to_value(split).expect("a division is plain figures"));
    }
    if let Some(first) = explanation.curves.first() {
        let curve = serde_json::to_value(first).expect("a curve is plain figures");
        fields.extend(curve.as_object().expect("a curve is an object").clone());
    }
    object
}

/// A table for each curve, and what it means.
pub fn text(found: &MrcResult, explanation: &Explanation, to: Terminal) -> String {
    let mut out = format!("{}: {}", found.source, found.format);
    if found.duration_ns > 0 {
        out.push_str(&format!(", {:.1} s", found.duration_ns as f64 / 1e9));
    }
    out.push('\n');
    for explained in &explanation.curves {
        let curve = &explained.curve;
        out.push('\n');
        out.push_str(&title(curve));
        out.push_str(&table(&curve.points).terminal(to));
        out.push_str(&unsupported_sizes(curve));
        for sentence in format::sentences(explained) {
            out.push_str(&format!("- {sentence}\n"));
        }
    }
    if let Some(divided) = &explanation.split {
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
                "; of the records {} were looked at, {} %",
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

/// Sizes that a sample says nothing of.
fn unsupported_sizes(curve: &Curve) -> String {
    let sizes = curve.sample.iter().flat_map(|sample| &sample.unsupported_sizes);
    let line = |unsupported_sizes: &UnsupportedSize| {
        let size = format_size(unsupported_sizes.cache_bytes);
        format!(
            "{size}: too few records are in the sample to say; {} would do\n",
            enough(unsupported_sizes.needs_rate)
        )
    };
    sizes.map(line).collect()
}

/// What to config for instead: two digits, rounded up.
fn enough(rate: f64) -> String {
    let digits = (1.0 - rate.log10().floor()).max(1.0);
    let shift = 10f64.powf(digits);
    let rate = (rate * shift).ceil() / shift;
    if rate >= 1.0 { "only all of them".into() } else { format!("--sample {rate}") }
}

/// Columns that say nothing are left out.
fn table(points: &[Point]) -> Table {
    let updates = points.iter().any(|point| point.update_miss_ratio > 0.0);
    let writes = points.iter().any(|point| point.write_miss_ratio > 0.0);
    let bands = points.iter().any(|point| point.confidence.is_some());
    let mut columns = vec!["cache", "misses", "hits"];
    columns.extend(updates.then_some("update misses"));
    columns.extend(writes.then_some("write misses"));
    columns.extend(bands.then_some("misses, 95 %"));
    let mut table = Table::new(columns.into_iter().map(Column::right));
    for point in points {
        let mut cells =
            vec![format_size(point.cache_bytes), percent(point.miss_ratio), percent(1.0 - point.miss_ratio)];
        cells.extend(updates.then(|| percent(point.update_miss_ratio)));
        cells.extend(writes.then(|| percent(point.write_miss_ratio)));
        let confidence = point
            .confidence
            .map(|confidence| format!("{}…{}", hundredths(confidence.low), percent(confidence.high)));
        cells.extend(bands.then(|| confidence.unwrap_or_default()));
        table.row(cells.into_iter().map(Cell::text));
    }
    table
}

/// Three significant digits, without noughts at the end: a rate may be 0.00153 %.
fn significant(value: f64) -> String {
    let places = (2 - value.max(1e-9).log10().floor() as i32).clamp(0, 12) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn percent(share: f64) -> String {
    format!("{} %", hundredths(share))
}

/// Of a per cent: what the models are held to.
fn hundredths(share: f64) -> String {
    format!("{:.2}", share * 100.0)
}

/// What the figures leave out, on standard error.
pub fn warn(found: &MrcResult) {
    for warning in warnings(found) {
        eprintln!("poolwright: {warning}");
    }
}

/// What the figures leave out.
pub fn warnings(found: &MrcResult) -> Vec<String> {
    let mut all: Vec<String> = found
        .skipped
        .counts()
        .into_iter()
        .map(|(count, what)| format!("{} {what}", counted(count, "event")))
        .collect();
    if found.lost_events > 0 {
        all.push(format!(
            "{} EVENTS LOST: the buffer was full; record again with a larger --buffer, or with fewer models",
            format_count(found.lost_events)
        ));
    }
    all.extend(found.unseen.iter().map(|(what, count)| match count {
        0 => format!("not seen: {what}"),
        count => format!("not seen: {count} {what}"),
    }));
    all.extend(found.notes.iter().cloned());
    let share = found.share.map_or(String::new(), |share| format!(" ({:.0} % of the trace)", share * 100.0));
    match (found.ended, found.format) {
        (Ended::Done, _) => {}
        (Ended::Interrupted, _) => {
            all.push(format!("interrupted; these are the figures of what was read so far{share}"));
        }
        (Ended::Empty, "live") => all.push(format!(
            "nothing was recorded: no process read or wrote a file of {}; is it the directory the database uses, and is \
             there load on it?",
            found.source
        )),
        (Ended::Empty, _) => all.push(format!(
            "{} holds no request that a cache would see: there is no curve to draw",
            found.source
        )),
    }
    all
}

/// The trace and the run, for the page.
pub fn about(found: &MrcResult) -> Vec<(String, String)> {
    let mut all =
        vec![("trace".to_owned(), found.source.clone()), ("format".to_owned(), found.format.to_owned())];
    if found.duration_ns > 0 {
        all.push(("length".to_owned(), Unit::Nanoseconds.format(found.duration_ns as f64)));
    }
    all.extend(
        found.footprint.map(|bytes| ("records touched".to_owned(), format!("about {}", format_size(bytes)))),
    );
    all.push(("memory for records and models".to_owned(), format_size(found.memory as u64)));
    all.push(("took".to_owned(), Unit::Seconds.format(found.seconds)));
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
