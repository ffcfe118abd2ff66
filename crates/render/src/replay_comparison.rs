//! The comparison of replayed settings with the first one.

use std::collections::BTreeMap;

use poolwright_replay::Replay;
use poolwright_replay::rounds::Trials;
use poolwright_replay::settings::PerRole;
use poolwright_report::{Cell, Column, Table, Terminal};
use poolwright_stats::PairedRatio;
use poolwright_tune::metric;
use poolwright_tune::objective::metrics;

use crate::replay_table;

/// A setting compared with the first one; the trials of a round are a pair.
#[derive(Debug, serde::Serialize)]
pub struct Comparison {
    settings: PerRole,
    /// Metric → relative change.
    changes: BTreeMap<String, Change>,
}

/// The relative change of a metric, a fraction.
#[derive(Debug, serde::Serialize)]
pub struct Change {
    change: f64,
    ci95: (f64, f64),
    pairs: usize,
}

/// The metrics that are compared.
const COMPARED: &[&str] =
    &["work_rate", "ops_s", "mean_latency_ns", "write_amplification", "allocated_bytes", "cpu_ns_per_op"];

/// Compares each setting with the first one. Settings with too few pairs for an interval are left out.
pub fn compare(settings: &[PerRole], runs: &[Vec<Replay>]) -> Vec<Comparison> {
    let first: Vec<_> = runs[0].iter().map(metrics).collect();
    let against = |i: usize| {
        let other: Vec<_> = runs[i].iter().map(metrics).collect();
        let change = |metric: &str| {
            let pairs: Vec<(f64, f64)> = first
                .iter()
                .zip(&other)
                .filter_map(|(a, b)| Some((*a.get(metric)?, *b.get(metric)?)))
                .collect();
            let c = PairedRatio::of_means(&pairs, None)?.change()?;
            Some((metric.to_owned(), Change { change: c.change, ci95: c.ci95, pairs: pairs.len() }))
        };
        let changes = COMPARED.iter().filter_map(|metric| change(metric)).collect();
        Comparison { settings: settings[i].clone(), changes }
    };
    (1..settings.len()).map(against).filter(|c| !c.changes.is_empty()).collect()
}

/// Renders the comparisons with the setting `first`; empty without comparisons.
pub fn text(first: &PerRole, comparisons: &[Comparison], terminal: Terminal) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let columns = std::iter::once(Column::left("settings"))
        .chain(COMPARED.iter().map(|name| Column::left(metric::title(name))));
    let mut table = Table::new(columns);
    for c in comparisons {
        let cell = |name: &&str| match c.changes.get(*name) {
            Some(x) => Cell::text(format!(
                "{:+.1} % ({:+.1} to {:+.1})",
                x.change * 100.0,
                x.ci95.0 * 100.0,
                x.ci95.1 * 100.0
            )),
            None => Cell::missing(),
        };
        let label = Cell::text(replay_table::settings(&c.settings));
        table.row(std::iter::once(label).chain(COMPARED.iter().map(cell)));
    }
    format!(
        "\nChanges against {} (95 % intervals from pairs; an interval that includes 0 shows no difference):\n{}",
        replay_table::settings(first),
        table.terminal_in_parts(terminal, 1)
    )
}

/// The trials as JSON: a single one as its object; several as `{"runs":[…],"comparisons":[…],"stopped":[…]}`.
///
/// # Errors
/// If a figure cannot be represented in JSON.
pub fn json(trials: &Trials, comparisons: &[Comparison]) -> serde_json::Result<String> {
    let all: Vec<&Replay> = trials.runs.iter().flatten().collect();
    if let ([one], []) = (all.as_slice(), trials.stopped.as_slice()) {
        return serde_json::to_string(one);
    }
    let object = serde_json::json!({ "runs": all, "comparisons": comparisons, "stopped": trials.stopped });
    Ok(object.to_string())
}
