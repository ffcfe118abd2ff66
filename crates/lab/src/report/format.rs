//! Formats figures, cases and settings as text, the same on the page, in Markdown and on the terminal.

use poolwright_stats::{PairedRatio, median};

use super::figure::Figure;
use super::measures;
use crate::campaign::{Case, Study, Times};
use crate::store::Trial;

/// A case by the levels of those factors that have more than one: `lz4, 16K`.
pub fn case(study: &Study, case: &Case) -> String {
    let varied = study.factors.iter().filter(|f| f.levels.len() > 1);
    let levels: Vec<&str> = varied.filter_map(|f| case.get(&f.name)).map(String::as_str).collect();
    if levels.is_empty() { "the only case".to_owned() } else { levels.join(", ") }
}

/// The levels in which two cases that name the same factors differ: `all` and `none`.
pub fn apart(a: &Case, b: &Case) -> (String, String) {
    let differ = |one: &Case, other: &Case| {
        let levels = one.iter().filter(|(factor, level)| other.get(*factor) != Some(*level));
        levels.map(|(_, level)| level.as_str()).collect::<Vec<_>>().join(", ")
    };
    (differ(a, b), differ(b, a))
}

/// `at least 2.00x`, `0.90x to 1.10x`; with `inverse`, of the ratio the other way round.
pub fn range(times: Times, inverse: bool) -> String {
    let show = |v: f64| poolwright_report::Unit::Ratio.format(if inverse { 1.0 / v } else { v });
    match (times.most, inverse) {
        (None, false) => format!("at least {}", show(times.least)),
        (None, true) => format!("at most {}", show(times.least)),
        (Some(most), false) => format!("{} to {}", show(times.least), show(most)),
        (Some(most), true) => format!("{} to {}", show(most), show(times.least)),
    }
}

/// A case of a claim: `primarycache=all`.
pub fn levels(case: &Case) -> String {
    case.iter().map(|(factor, level)| format!("{factor}={level}")).collect::<Vec<_>>().join(", ")
}

/// `recordsize=16K compression=lz4`, as `zfs set` takes them.
pub fn settings(properties: &[(String, String)]) -> String {
    properties.iter().map(|(p, v)| format!("{p}={v}")).collect::<Vec<_>>().join(" ")
}

/// A median with its interval: `812/s (790/s to 840/s)`.
pub fn figure(figure: &Figure) -> String {
    let value = measures::format(&figure.measure, &figure.unit, figure.median);
    let note = note(figure);
    if note.is_empty() { value } else { format!("{value} ({note})") }
}

/// What stands beside a median: its interval, and whether the trials differ by more than a tenth.
pub fn note(figure: &Figure) -> String {
    let show = |v| measures::format(&figure.measure, &figure.unit, v);
    let interval = match figure.ci95 {
        Some(_) => self::interval(figure.ci95, show).unwrap_or_default(),
        None if figure.values.len() == 1 => "1 trial".to_owned(),
        None => format!("{} trials", figure.values.len()),
    };
    let noisy = figure.variation.filter(|_| figure.noisy).map(|v| format!("varies ±{:.0} %", v * 100.0));
    [Some(interval).filter(|t| !t.is_empty()), noisy].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A factor with its interval: `4.27x (4.10x to 4.41x)`.
pub fn ratio(ratio: &PairedRatio) -> String {
    let show = |v| poolwright_report::Unit::Ratio.format(v);
    match interval(ratio.interval, show) {
        Some(interval) => format!("{} ({interval})", show(ratio.ratio)),
        None => show(ratio.ratio),
    }
}

/// `4.10x to 4.41x`; nothing where both ends are printed alike: all trials gave the same.
pub fn interval(ci95: Option<(f64, f64)>, show: impl Fn(f64) -> String) -> Option<String> {
    let (lo, hi) = ci95.map(|(lo, hi)| (show(lo), show(hi)))?;
    (lo != hi).then(|| format!("{lo} to {hi}"))
}

/// `1 trial`, `2 trials`.
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The unit of a measure, as the first trial that has it says.
pub fn unit(study: &Study, trials: &[Trial], measure: &str) -> String {
    let outcomes =
        trials.iter().filter(|t| t.key.study == study.name).filter_map(|t| t.outcome.as_ref().ok());
    outcomes.filter_map(|o| o.measure(measure)).map(|m| m.unit.clone()).next().unwrap_or_default()
}

/// Of the first and the second of each pair.
pub fn medians(pairs: &[(f64, f64)]) -> Option<(f64, f64)> {
    let side = |of: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
    (!pairs.is_empty()).then(|| (side(|p| p.0), side(|p| p.1)))
}
