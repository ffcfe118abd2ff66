//! The table of metrics compared with trials, goals and the documentation.

use std::collections::BTreeSet;

use poolwright_openzfs::{ArcStats, VdevStats};
use poolwright_replay::Replay;
use poolwright_replay::result::Latency;
use poolwright_report::{Better, Unit};

use poolwright_plan::MetricName;
use poolwright_plan::metric::*;

use crate::objective::{GOALS, metrics};

/// The markers in `docs/plan-format.md` between which the table of metrics is.
const BEGIN: &str = "<!-- generated: metrics -->\n";
const END: &str = "<!-- end of generated -->\n";

/// A trial with a value for every metric; `work_rate` excludes `ops_s`.
fn trial(work_rate: Option<f64>) -> Replay {
    let latency = Latency { count: 10 * MIN_FOR_P99, mean: 1.0, p50: 1, p99: 1, p999: 1, max: 1 };
    Replay {
        ops: 1,
        ops_per_second: 1.0,
        latency_ns: ["read", "write", "fsync"].map(|kind| (kind.to_owned(), latency)).into(),
        mean_latency_ns: 1.0,
        work_rate,
        vdev: VdevStats { read_bytes: 1, write_bytes: 1, ..VdevStats::default() },
        write_amplification: Some(1.0),
        read_amplification: Some(1.0),
        arc: ArcStats { hits: 1, ..ArcStats::default() },
        allocated_bytes: 1,
        logical_bytes: 1,
        cpu_seconds: 1.0,
        ..Replay::default()
    }
}

#[test]
fn the_table_has_exactly_the_metrics_of_a_trial() {
    let measured: BTreeSet<MetricName> =
        [None, Some(1.0)].into_iter().flat_map(|rate| metrics(&trial(rate)).into_keys()).collect();
    let listed: BTreeSet<MetricName> = METRICS.iter().map(|metric| metric.name.clone()).collect();
    assert_eq!(measured, listed);
    assert_eq!(listed.len(), METRICS.len(), "a name is listed twice");
}

#[test]
fn every_metric_that_is_used_has_a_row() {
    let of_goals = GOALS.iter().flat_map(|row| row.weights.iter().map(|(name, _)| name));
    let related = METRICS.iter().flat_map(|metric| metric.stand_in.into_iter().chain(metric.same_cost_as));
    let listed = [crate::pareto::METRICS, CONFIRMED, VERIFIED, ON_TERMINAL].concat();
    for name in of_goals.chain(related).chain(&listed) {
        assert!(name.row().is_some(), "{name}");
    }
}

#[test]
fn requirements_and_precedences_are_unambiguous() {
    let requirements: Vec<&str> = METRICS.iter().filter_map(|metric| metric.requirement).collect();
    assert_eq!(requirements.iter().collect::<BTreeSet<_>>().len(), requirements.len());
    for family in [MetricFamily::Space, MetricFamily::Speed, MetricFamily::Wear] {
        let ranks: BTreeSet<u8> = METRICS
            .iter()
            .filter(|metric| metric.family == family)
            .filter_map(|metric| metric.precedence)
            .collect();
        let expected: BTreeSet<u8> = (1..=representatives(family).len() as u8).collect();
        assert_eq!(ranks, expected, "{family:?}");
    }
}

/// The table in the documentation; `REWRITE=1` writes it.
#[test]
fn the_documentation_has_the_same_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/plan-format.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the marker of the table's start");
    let (table, after) = rest.split_once(END).expect("the marker of the table's end");
    let expected = format!("\n{}\n", markdown());
    if std::env::var_os("REWRITE").is_some_and(|value| value == "1") {
        std::fs::write(path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert!(table == expected, "{path} differs from METRICS; run this test with REWRITE=1");
}

fn markdown() -> String {
    let mut text =
        String::from("| metric | title | unit | better | meaning |\n| --- | --- | --- | --- | --- |\n");
    for metric in METRICS {
        let unit = match metric.unit {
            Unit::Bytes => "bytes",
            Unit::Fraction => "fraction",
            Unit::Nanoseconds => "ns",
            Unit::PerSecond => "1/s",
            Unit::Ratio => "ratio",
            other => panic!("{}: {other:?} has no name in the documentation", metric.name),
        };
        let better = match metric.better {
            Better::Lower => "lower",
            Better::Higher => "higher",
        };
        text +=
            &format!("| `{}` | {} | {unit} | {better} | {} |\n", metric.name, metric.title, metric.meaning);
    }
    text
}
