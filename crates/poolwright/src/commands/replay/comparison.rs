//! Settings against the first one.

use std::collections::BTreeMap;

use poolwright_replay::Replay;
use poolwright_report::{Cell, Column, Table};
use poolwright_stats::PairedRatio;
use poolwright_tune::objective::metrics;

use super::table::spelled;
use crate::commands::options::PerRole;

/// A setting against the first one, from trials paired by round.
#[derive(Debug, serde::Serialize)]
pub struct Comparison {
    settings: PerRole,
    /// Metric → relative change with its 95 % interval.
    changes: BTreeMap<String, Change>,
}

/// A metric's relative change, a fraction.
#[derive(Debug, serde::Serialize)]
pub struct Change {
    change: f64,
    ci95: (f64, f64),
    pairs: usize,
}

/// What is compared, with the words for it.
const COMPARED: &[(&str, &str)] = &[
    ("work_rate", "work rate"),
    ("ops_s", "operations/s"),
    ("mean_latency_ns", "mean latency"),
    ("write_amplification", "write amplification"),
    ("allocated_bytes", "space"),
    ("cpu_ns_per_op", "CPU per operation"),
];

/// Every setting against the first, where there are repeats enough for an interval.
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
        let changes = COMPARED.iter().filter_map(|(metric, _)| change(metric)).collect();
        Comparison { settings: settings[i].clone(), changes }
    };
    (1..settings.len()).map(against).filter(|c| !c.changes.is_empty()).collect()
}

/// Prints them as a table; nothing where there are none.
pub fn print(settings: &[PerRole], comparisons: &[Comparison]) {
    if comparisons.is_empty() {
        return;
    }
    println!(
        "\nAgainst {} (95 % intervals from pairs; an interval that includes 0 shows no difference):",
        spelled(&settings[0])
    );
    let columns = std::iter::once(Column::left("settings"))
        .chain(COMPARED.iter().map(|(_, words)| Column::left(words)));
    let mut table = Table::new(columns);
    for c in comparisons {
        let cell = |(metric, _): &(&str, &str)| match c.changes.get(*metric) {
            Some(x) => Cell::text(format!(
                "{:+.1} % ({:+.1} to {:+.1})",
                x.change * 100.0,
                x.ci95.0 * 100.0,
                x.ci95.1 * 100.0
            )),
            None => Cell::missing(),
        };
        table.row(std::iter::once(Cell::text(spelled(&c.settings))).chain(COMPARED.iter().map(cell)));
    }
    print!("{}", table.terminal_in_parts(crate::stdout::terminal(), 1));
}
