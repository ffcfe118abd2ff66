//! Formats figures, cases and settings as text, identically on the page, in Markdown and on the terminal.

use poolwright_base::stats::{PairedRatio, median};
use poolwright_report::Unit;

use super::figure::Figure;
use super::measures;
use crate::campaign::{Case, Study, Times};
use crate::store::Trial;

/// Formats a case as the levels of the factors that have more than one: `lz4, 16K`.
pub fn case(study: &Study, case: &Case) -> String {
    let varied = study.factors.iter().filter(|f| f.levels.len() > 1);
    let levels: Vec<&str> = varied.filter_map(|f| case.get(&f.name)).map(String::as_str).collect();
    if levels.is_empty() { "the only case".to_owned() } else { levels.join(", ") }
}

/// Formats the levels in which two cases with the same factors differ: `all` and `none`.
pub fn apart(a: &Case, b: &Case) -> (String, String) {
    let differ = |one: &Case, other: &Case| {
        let levels = one.iter().filter(|(factor, level)| other.get(*factor) != Some(*level));
        levels.map(|(_, level)| level.as_str()).collect::<Vec<_>>().join(", ")
    };
    (differ(a, b), differ(b, a))
}

/// Formats a range: `at least 2.00x`, `0.90x to 1.10x`; with `inverse`, that of the inverse ratio.
pub fn range(times: Times, inverse: bool) -> String {
    let show = |v: f64| Unit::Ratio.format(if inverse { 1.0 / v } else { v });
    match (times.most, inverse) {
        (None, false) => format!("at least {}", show(times.least)),
        (None, true) => format!("at most {}", show(times.least)),
        (Some(most), false) => format!("{} to {}", show(times.least), show(most)),
        (Some(most), true) => format!("{} to {}", show(most), show(times.least)),
    }
}

/// Formats a case of a claim: `primarycache=all`.
pub fn levels(case: &Case) -> String {
    case.iter().map(|(factor, level)| format!("{factor}={level}")).collect::<Vec<_>>().join(", ")
}

/// Formats properties as arguments of `zfs set`: `recordsize=16K compression=lz4`.
pub fn settings(properties: &[(String, String)]) -> String {
    properties.iter().map(|(p, v)| format!("{p}={v}")).collect::<Vec<_>>().join(" ")
}

/// Formats a median with its interval: `812/s (790/s to 840/s)`.
pub fn figure(figure: &Figure) -> String {
    let value = measures::format(&figure.measure, &figure.unit, figure.median);
    let note = note(figure);
    if note.is_empty() { value } else { format!("{value} ({note})") }
}

/// Formats the note next to a median: its interval, and whether the trials vary by more than 10 %.
pub fn note(figure: &Figure) -> String {
    note_as(figure, |v| measures::format(&figure.measure, &figure.unit, v))
}

/// Formats a note like [`note`], with another form of the numbers.
pub fn note_as(figure: &Figure, show: impl Fn(f64) -> String) -> String {
    let interval = match figure.ci95 {
        Some(_) => self::interval(figure.ci95, show).unwrap_or_default(),
        None if figure.values.len() == 1 => "1 trial".to_owned(),
        None => format!("{} trials", figure.values.len()),
    };
    let noisy = figure.variation.filter(|_| figure.noisy).map(|v| format!("varies ±{:.0} %", v * 100.0));
    [Some(interval).filter(|t| !t.is_empty()), noisy].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns half the width of a figure's interval over its median.
pub fn half_width(figure: &Figure) -> Option<f64> {
    let (low, high) = figure.ci95?;
    Some((high - low) / 2.0 / figure.median.abs()).filter(|half| half.is_finite())
}

/// Formats a ratio with its interval: `4.27x (4.10x to 4.41x)`.
pub fn ratio(ratio: &PairedRatio) -> String {
    let shown = Unit::Ratio.format(ratio.ratio);
    match ratio_interval(ratio.interval) {
        interval if interval.is_empty() => shown,
        interval => format!("{shown} ({interval})"),
    }
}

/// Formats an interval: `4.10x to 4.41x`; `None` if both ends print the same, because all trials gave the same
/// value.
pub fn interval(ci95: Option<(f64, f64)>, show: impl Fn(f64) -> String) -> Option<String> {
    let (lo, hi) = ci95.map(|(lo, hi)| (show(lo), show(hi)))?;
    (lo != hi).then(|| format!("{lo} to {hi}"))
}

/// Formats the interval of a ratio like [`interval`]; empty if there is none.
pub fn ratio_interval(ci95: Option<(f64, f64)>) -> String {
    interval(ci95, |v| Unit::Ratio.format(v)).unwrap_or_default()
}

/// Returns the unit of a measure, from the first trial that has it.
pub fn unit(study: &Study, trials: &[Trial], measure: &str) -> String {
    let outcomes =
        trials.iter().filter(|t| t.key.study == study.name).filter_map(|t| t.outcome.as_ref().ok());
    outcomes.filter_map(|o| o.measure(measure)).map(|m| m.unit.clone()).next().unwrap_or_default()
}

/// Returns the medians of the first and of the second values of the pairs.
pub fn medians(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    let side = |of: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
    (!pairs.is_empty()).then(|| (side(|p| p.0), side(|p| p.1)))
}
