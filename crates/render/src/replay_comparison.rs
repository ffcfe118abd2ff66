//! The comparison of replayed settings with the first one.

use std::collections::BTreeMap;

use poolwright_base::stats::PairedRatio;
use poolwright_plan::MetricName;
use poolwright_replay::rounds::{Stopped, Trials};
use poolwright_replay::settings::PerRole;
use poolwright_replay::{Replay, StoppedTrial};
use poolwright_report::{Table, Terminal};
use poolwright_tune::objective::metrics;

use crate::replay_table;

/// A setting compared with the first one; the trials of a round are a pair.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Comparison {
    /// Property → value of each role; the role `*` stands for all roles.
    settings: PerRole,
    /// Metric → relative change.
    changes: BTreeMap<MetricName, Change>,
}

/// The relative change of a metric, a fraction.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
pub struct Change {
    /// Change of the mean as a fraction: -0.25 is a quarter less.
    change: f64,
    /// 95 % interval of `change`.
    ci95: (f64, f64),
    /// Number of pairs of trials.
    pairs: usize,
}

/// The JSON of `replay --json`: the trial, if there was only one, or all trials with their comparison.
#[derive(Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum ReplayOutput {
    /// A single trial.
    One(Box<Replay>),
    /// Several trials.
    Several {
        /// The result of each trial, by setting.
        runs: Vec<Replay>,
        /// Each setting compared with the first one; empty with too few trials for an interval.
        comparisons: Vec<Comparison>,
        /// The settings that were given up.
        stopped: Vec<StoppedTrial>,
    },
}

impl ReplayOutput {
    /// The trials of all settings with their comparisons.
    pub fn new(trials: &Trials, comparisons: Vec<Comparison>) -> ReplayOutput {
        let mut runs: Vec<Replay> = trials.runs.iter().flatten().cloned().collect();
        let stopped: Vec<StoppedTrial> = trials.stopped.iter().map(Stopped::to_entry).collect();
        if runs.len() == 1 && stopped.is_empty() {
            return ReplayOutput::One(Box::new(runs.remove(0)));
        }
        ReplayOutput::Several { runs, comparisons, stopped }
    }
}

/// The metrics that are compared.
const COMPARED: &[MetricName] = &[
    MetricName::WorkRate,
    MetricName::OpsS,
    MetricName::MeanLatencyNs,
    MetricName::WriteAmplification,
    MetricName::AllocatedBytes,
    MetricName::CpuNsPerOp,
];

/// Compares each setting with the first one. Settings with too few pairs for an interval are left out.
pub fn compare(settings: &[PerRole], runs: &[Vec<Replay>]) -> Vec<Comparison> {
    let first: Vec<_> = runs[0].iter().map(metrics).collect();
    let against = |i: usize| {
        let other: Vec<_> = runs[i].iter().map(metrics).collect();
        let change = |metric: &MetricName| {
            let pairs: Vec<(f64, f64)> = first
                .iter()
                .zip(&other)
                .filter_map(|(a, b)| Some((*a.get(metric)?, *b.get(metric)?)))
                .collect();
            let c = PairedRatio::of_means(&pairs, None)?.change()?;
            Some((metric.clone(), Change { change: c.change, ci95: c.ci95, pairs: pairs.len() }))
        };
        let changes = COMPARED.iter().filter_map(change).collect();
        Comparison { settings: settings[i].clone(), changes }
    };
    (1..settings.len()).map(against).filter(|c| !c.changes.is_empty()).collect()
}

/// Renders the comparisons with the setting `first`; empty without comparisons.
pub fn text(first: &PerRole, comparisons: &[Comparison], terminal: Terminal) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let cell = |x: &Change| {
        let (change, low, high) = (x.change * 100.0, x.ci95.0 * 100.0, x.ci95.1 * 100.0);
        format!("{change:+.1} % ({low:+.1} to {high:+.1})")
    };
    let table = Table::of(comparisons)
        .left("settings", |c| replay_table::settings(&c.settings))
        .each(COMPARED, |table, name| table.left(name.title(), |c| c.changes.get(name).map(cell)))
        .table();
    format!(
        "\nChanges against {} (95 % intervals from pairs; an interval that includes 0 shows no difference):\n{}",
        replay_table::settings(first),
        table.terminal_in_parts(terminal, 1)
    )
}
