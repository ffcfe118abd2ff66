//! The part of an output that depends on the state of the pools, short enough to be reviewed.

use std::fmt::Write as _;

use poolwright_monitor::alert::{Evaluator, Thresholds, table};
use poolwright_monitor::family::{
    EVENT, POOL, POOL_STATE, POOL_STATE_NOW, VDEV_PLACE, VDEV_STATE, VDEV_STATE_NOW,
};
use poolwright_monitor::{FamilyType, MetricFamily, Readings, SourceReadings, Unit};

use crate::parsed_exposition::{ParsedFamily, ParsedSample};

/// Longer than any rule waits, in seconds.
const WAIT: f64 = 1e7;

/// The families with a sample for each state, of which one is 1.
pub static STATES: [&MetricFamily; 2] = [&POOL_STATE_NOW, &VDEV_STATE_NOW];

/// The alerts of an output; its samples that describe the state of pools and vdevs or that alert rules read; the numbers of
/// observations of its histograms; and the numbers of samples of its other families.
///
/// It is valid in Prometheus's text format: a Prometheus that scrapes it finds the same state.
pub fn text(sources: &[SourceReadings], families: &[ParsedFamily<'_>]) -> String {
    let mut text = alerts(sources, families);
    let read = families_of_rules();
    let (mut histograms, mut others) = (String::new(), String::new());
    for ParsedFamily { family, samples } in families {
        let is_state = STATES.contains(family);
        if family.kind == FamilyType::Histogram {
            add_observations(&mut histograms, samples);
        } else if [&POOL, &POOL_STATE, &VDEV_STATE, &VDEV_PLACE, &EVENT].contains(&family.resource)
            || read.contains(family)
        {
            for sample in samples.iter().filter(|sample| !is_state || sample.value == 1.0) {
                let _ = writeln!(text, "{}", sample.line);
            }
        } else {
            let _ = writeln!(others, "# {} {}", family.name, samples.len());
        }
    }
    let _ = write!(text, "# Observations of histograms:\n{histograms}# Samples of other families:\n{others}");
    text
}

/// The families that alert rules read, except for their history.
fn families_of_rules() -> Vec<&'static MetricFamily> {
    let mut families = Vec::new();
    for rule in table::rules() {
        rule.condition
            .visit(&mut |value| families.extend(value.selector().map(|(selector, _)| selector.family)));
    }
    families
}

/// The alerts of rules that need no history, at the latest time in the output, as comments.
fn alerts(sources: &[SourceReadings], families: &[ParsedFamily<'_>]) -> String {
    let rules = table::rules().filter(|rule| rule.is_local() && !rule.needs_history());
    let evaluator = Evaluator::of(rules.collect(), Thresholds::default());
    let times =
        families.iter().filter(|of| of.family.unit == Unit::Seconds && of.family.name.contains("_time_"));
    let latest = times.flat_map(|of| &of.samples).map(|sample| sample.value).fold(0.0, f64::max);
    let readings: Vec<&Readings> = sources.iter().filter_map(|source| source.readings.as_deref()).collect();
    for now in [0.0, WAIT] {
        evaluator.evaluate_at(latest, now, &readings);
    }
    let alerts = evaluator.alerts().alerts;
    alerts.iter().map(|alert| format!("# {}: {}\n", alert.name, alert.summary)).collect()
}

/// The numbers of observations, one line for the histograms of a vdev.
fn add_observations(text: &mut String, samples: &[ParsedSample<'_>]) {
    let totals: Vec<_> = samples.iter().filter(|sample| sample.name.ends_with("_count")).collect();
    fn of_vdev<'a, 's>(sample: &'s ParsedSample<'a>) -> (&'s (&'a str, &'a str), &'s [(&'a str, &'a str)]) {
        sample.labels.split_last().unwrap()
    }
    for vdev in totals.chunk_by(|one, next| of_vdev(one).1 == of_vdev(next).1) {
        let labels: Vec<&str> = of_vdev(vdev[0]).1.iter().map(|(_, value)| *value).collect();
        let counts: Vec<String> =
            vdev.iter().map(|total| format!("{} {}", of_vdev(total).0.1, total.value)).collect();
        let _ = writeln!(text, "# {} {}: {}", vdev[0].name, labels.join(" "), counts.join(", "));
    }
}
