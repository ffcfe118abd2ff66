//! The interpretation of a curve in sentences, for the page and the terminal.

use poolwright_base::units::bytes;
use poolwright_mrc::advice::{Explained, Host, Saved, Step, StepVerdict};
use poolwright_mrc::analysis::Divided;
use poolwright_mrc::{Curve, partition};
use poolwright_report::Unit;

/// The assumptions of a division.
pub const DIVISION_ASSUMES: &str = "Each request of the trace is assumed to go to the database's own cache, an LRU. Its \
     misses and its evicted dirty pages go to the ARC. Checkpoints and the database's read-ahead are not modelled. The \
     model openzfs has no ARC below 64M. Of divisions within 2 % of each other, the one with the largest database cache \
     is best: a hit there needs no system call and no copy.";

/// The name of a curve: `arc, 16K records`.
pub fn name(curve: &Curve) -> String {
    match curve.recordsize {
        Some(size) => format!("{}, {} records", curve.model, bytes(size)),
        None => format!("{}, objects", curve.model),
    }
}

/// A value with its confidence interval, if it has one: `12.3/s (10.1 to 14.2/s)`.
fn figure(s: Saved, unit: Unit, factor: f64) -> String {
    let value = unit.format(s.value * factor);
    if s.low == s.high {
        return value;
    }
    format!("{value} ({})", unit.range((s.low * factor, s.high * factor)))
}

/// A remark on a step that saves no reads.
pub fn verdict(verdict: StepVerdict) -> &'static str {
    match verdict {
        StepVerdict::Saves => "",
        StepVerdict::Nothing => "nothing",
        StepVerdict::NoDifference => "no difference beyond the confidence interval",
        StepVerdict::Unknown => "beyond the curve",
    }
}

/// The value of a step and an explanation, for a tile.
pub fn saving(step: &Step) -> (String, String) {
    match (step.verdict, step.reads_s, step.wait_ms_s) {
        (StepVerdict::Saves, Some(reads), Some(wait)) => (
            format!("−{}", Unit::PerSecond.format(reads.value)),
            format!("reads, and {} of waiting per second", figure(wait, Unit::Nanoseconds, 1e6)),
        ),
        (StepVerdict::Saves, Some(reads), None) => {
            (format!("−{}", Unit::PerSecond.format(reads.value)), format!("reads{}", confidence(reads)))
        }
        (StepVerdict::Saves, None, _) => (
            format!("−{}", Unit::Fraction.format(step.reads.value)),
            "of requests need no read any more".into(),
        ),
        (StepVerdict::Nothing, ..) => ("nothing".into(), "all records that are used again fit".into()),
        (other, ..) => ("–".into(), verdict(other).into()),
    }
}

fn confidence(s: Saved) -> String {
    if s.low == s.high { String::new() } else { format!(", {}", Unit::PerSecond.range((s.low, s.high))) }
}

/// The effect of a step, as a sentence without a period.
pub fn buys(step: &Step) -> String {
    let more = bytes(step.to_bytes - step.from_bytes);
    match (step.verdict, step.reads_s, step.wait_ms_s) {
        (StepVerdict::Saves, Some(reads), wait) => {
            let wait = wait.map_or(String::new(), |w| {
                format!(" and {} of waiting per second", figure(w, Unit::Nanoseconds, 1e6))
            });
            let reads = figure(reads, Unit::PerSecond, 1.0).replace("/s", "");
            format!("{more} more saves {reads} reads per second{wait}")
        }
        (StepVerdict::Saves, None, _) => {
            format!(
                "{more} more saves the reads of {} of the requests",
                figure(step.reads, Unit::Fraction, 1.0)
            )
        }
        (StepVerdict::Nothing, ..) => format!("{more} more saves nothing"),
        (StepVerdict::NoDifference, ..) => {
            format!("{more} more makes no difference beyond the confidence interval of the sample")
        }
        (StepVerdict::Unknown, ..) => {
            "the effect of more memory is unknown, because the curve ends before".into()
        }
    }
}

/// Returns the interpretation of a curve as sentences.
pub fn sentences(explained: &Explained) -> Vec<String> {
    let advice = &explained.advice;
    let mut all = Vec::new();
    if let Some(knee) = advice.knee {
        all.push(format!(
            "Knee at {}: {} of the requests read from the device.",
            bytes(knee.cache_bytes),
            Unit::Fraction.format(knee.read_ratio)
        ));
    }
    if let Some(enough) = advice.enough {
        all.push(format!(
            "{} is enough: {} of the requests read from the device; the largest cache reaches {}.",
            bytes(enough.cache_bytes),
            Unit::Fraction.format(enough.read_ratio),
            Unit::Fraction.format(enough.best_read_ratio)
        ));
    }
    if let Some(today) = &advice.today {
        let now = today
            .read_ratio
            .map_or("outside the curve".into(), |r| format!("{} read", Unit::Fraction.format(r)));
        all.push(format!("Today's ARC of {}: {now}; {}.", bytes(today.from_bytes), buys(today)));
    }
    if let Some(first) = advice.steps.first().filter(|s| s.verdict == StepVerdict::Saves) {
        all.push(format!("At {}, {}.", bytes(first.from_bytes), buys(first)));
    }
    all.extend(advice.notes.iter().map(|n| sentence(n)));
    all
}

/// Returns the sample behind a curve and the sizes that it does not cover; `None` if the curve is exact.
pub fn sample(curve: &Curve) -> Option<String> {
    let sample = curve.sample.as_ref()?;
    let records = Unit::Count.format(sample.records as f64);
    let mut text = format!("Sample of {records} records, {} %.", sample.rate * 100.0);
    if let Some(most) = sample.unsupported_sizes.iter().map(|u| u.needs_rate).max_by(f64::total_cmp) {
        let sizes: Vec<String> = sample.unsupported_sizes.iter().map(|u| bytes(u.cache_bytes)).collect();
        text += &format!(" Too few of them fit into {}; use --sample {most:.2}.", sizes.join(", "));
    }
    Some(text)
}

/// Adds a capital letter and a period.
pub fn sentence(text: &str) -> String {
    format!("{}.", poolwright_report::text::capitalised(text))
}

/// The share of requests that read from the device.
pub fn device_ratio(s: &partition::Share) -> f64 {
    if s.requests == 0 { 0.0 } else { s.device_reads as f64 / s.requests as f64 }
}

/// Returns a sentence on the best division and on both extremes.
pub fn best_division(divided: &Divided) -> String {
    let (Some(best), Some(arc), Some(own)) =
        (partition::best(&divided.shares), divided.shares.first(), divided.shares.last())
    else {
        return "No divisions were modelled.".into();
    };
    let share = |s: &partition::Share| Unit::Fraction.format(device_ratio(s));
    format!(
        "The best division of {} is {} for the database's own cache and {} for the ARC ({}): {} of the requests read \
         from the device. All for the ARC: {}. All for the database: {}.",
        bytes(divided.total_bytes),
        bytes(best.database_bytes),
        bytes(best.arc_bytes),
        divided.model,
        share(&best),
        share(arc),
        share(own)
    )
}

/// Names and values of today's ARC and the host's memory.
pub fn host(host: &Host) -> Vec<(&'static str, String)> {
    let known = [
        ("ARC limit (c_max)", host.arc_max_bytes),
        ("ARC now (size)", host.arc_bytes),
        ("memory", host.memory_bytes),
    ];
    let mut all: Vec<_> = known.into_iter().filter_map(|(name, n)| Some((name, bytes(n?)))).collect();
    if host.arc_max_bytes.is_none() {
        all.insert(0, ("ARC today", "none: the ZFS kernel module is not loaded".into()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_begin_and_end() {
        assert_eq!(sentence("no knee: flat"), "No knee: flat.");
    }
}
