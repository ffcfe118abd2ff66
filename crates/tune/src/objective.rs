//! Goals: weights of metrics, which reduce the metrics of a setting to one number, its objective.

use std::collections::BTreeMap;

use poolwright_base::stats::median;
use poolwright_plan::{
    self as plan,
    metric::{self, MIN_FOR_P99},
};
use poolwright_replay::Replay;
use poolwright_report::Better;

/// Metric → value in one trial, in the unit of [`poolwright_plan::metric::METRICS`].
pub type Metrics = BTreeMap<String, f64>;

/// What the recommended settings should improve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Work rate, space, bytes written and CPU time to similar degrees, without being noticeably slower than today.
    Balanced,
    /// Mainly less space.
    Space,
    /// Mainly lower latency of foreground operations, including their 99th percentiles.
    Latency,
    /// Mainly a higher work rate with less CPU time.
    Throughput,
    /// Mainly fewer bytes written to the devices.
    Endurance,
    /// Space and work rate to the same degree, and CPU time: the trade that compression makes.
    Efficiency,
}

/// A goal: its name on the command line, the weights of its metrics, and what it must not cost.
#[derive(Debug)]
pub struct GoalRow {
    /// The goal.
    pub goal: Goal,
    /// The name on the command line.
    pub name: &'static str,
    /// Metric → weight; the weights add up to 1.
    pub weights: &'static [(&'static str, f64)],
    /// Limits in the form of [`Requirement`](crate::requirement::Requirement). A setting is not recommended if the whole interval of its change is beyond one.
    pub limits: &'static [&'static str],
}

/// What a database's users hardly notice: 5 % of the work rate, and 10 % of the latency of the slowest reads and syncs.
const HARDLY_SLOWER: &[&str] = &["work_rate>=-5%", "read_p99<=10%", "sync_p99<=10%"];

/// All goals. The command line, the plan and the documentation take names, weights and limits from this table;
/// `docs/method.md` gives the reasons for them.
pub const GOALS: &[GoalRow] = &[
    GoalRow {
        goal: Goal::Balanced,
        name: "balanced",
        weights: &[
            ("work_rate", 0.3),
            ("allocated_bytes", 0.3),
            ("write_amplification", 0.2),
            ("cpu_ns_per_op", 0.2),
        ],
        limits: HARDLY_SLOWER,
    },
    GoalRow {
        goal: Goal::Space,
        name: "space",
        weights: &[("allocated_bytes", 0.7), ("work_rate", 0.15), ("write_amplification", 0.15)],
        limits: &[],
    },
    GoalRow {
        goal: Goal::Latency,
        name: "latency",
        weights: &[
            ("work_rate", 0.4),
            ("read_p99_ns", 0.2),
            ("fsync_p99_ns", 0.2),
            ("allocated_bytes", 0.1),
            ("write_amplification", 0.1),
        ],
        limits: HARDLY_SLOWER,
    },
    GoalRow {
        goal: Goal::Throughput,
        name: "throughput",
        weights: &[
            ("work_rate", 0.6),
            ("cpu_ns_per_op", 0.2),
            ("allocated_bytes", 0.1),
            ("write_amplification", 0.1),
        ],
        limits: HARDLY_SLOWER,
    },
    GoalRow {
        goal: Goal::Endurance,
        name: "endurance",
        weights: &[("vdev_write_bytes", 0.7), ("allocated_bytes", 0.15), ("work_rate", 0.15)],
        limits: &[],
    },
    GoalRow {
        goal: Goal::Efficiency,
        name: "efficiency",
        weights: &[("allocated_bytes", 0.4), ("work_rate", 0.4), ("cpu_ns_per_op", 0.2)],
        limits: &[],
    },
];

impl Goal {
    /// Returns the goal's row in [`GOALS`].
    fn row(self) -> &'static GoalRow {
        GOALS.iter().find(|row| row.goal == self).expect("every goal has a row")
    }

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the goal with this name on the command line.
    pub fn parse(name: &str) -> Option<Goal> {
        GOALS.iter().find(|row| row.name == name).map(|row| row.goal)
    }

    /// The weights: metric → weight, adding up to 1.
    pub fn weights(self) -> &'static [(&'static str, f64)] {
        self.row().weights
    }

    /// The limits, in the form of [`Requirement`](crate::requirement::Requirement).
    pub fn limits(self) -> &'static [&'static str] {
        self.row().limits
    }

    /// Converts the goal to its form in the plan, with those of its limits that apply.
    pub fn to_plan(self, limits: Vec<String>) -> plan::Goal {
        plan::Goal {
            name: self.name().into(),
            weights: self.weights().iter().map(|(metric, weight)| (metric.to_string(), *weight)).collect(),
            limits,
        }
    }

    /// Returns the weighted geometric mean of the ratios of `metrics` to `today`. Lower is better; today's settings have 1.
    /// A metric that is missing or zero on either side is ignored, and the other weights are scaled up.
    pub fn objective(self, metrics: &Metrics, today: &Metrics) -> f64 {
        objective(self.weights().iter().copied(), metrics, today)
    }
}

/// Returns the metric's name, or that of its stand-in, whichever is in `metrics`.
pub(crate) fn name_in<'a>(metric: &'a str, metrics: &'a Metrics) -> Option<&'a str> {
    both(metric, metrics, metrics).map(|(name, ..)| name)
}

/// Returns the same as [`Goal::objective`] with the weights of a plan.
pub fn weighted(weights: &BTreeMap<String, f64>, metrics: &Metrics, today: &Metrics) -> f64 {
    objective(weights.iter().map(|(metric, weight)| (metric.as_str(), *weight)), metrics, today)
}

fn objective<'a>(goal: impl Iterator<Item = (&'a str, f64)>, metrics: &Metrics, today: &Metrics) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (metric, weight) in goal {
        let Some((metric, a, b)) = both(metric, metrics, today) else { continue };
        if *a <= 0.0 || *b <= 0.0 || !a.is_finite() || !b.is_finite() {
            continue;
        }
        let ratio = match metric::better(metric) {
            Better::Higher => b / a,
            Better::Lower => a / b,
        };
        sum += weight * ratio.ln();
        weights += weight;
    }
    if weights == 0.0 { 1.0 } else { (sum / weights).exp() }
}

/// Returns the name and both values of the metric, or of its stand-in if either side lacks the metric.
fn both<'a>(metric: &'a str, a: &'a Metrics, b: &'a Metrics) -> Option<(&'a str, &'a f64, &'a f64)> {
    let stand_in = metric::find(metric).and_then(|m| m.stand_in);
    std::iter::once(metric).chain(stand_in).find_map(|name| Some((name, a.get(name)?, b.get(name)?)))
}

/// Returns the median of each metric over some trials.
pub(crate) fn medians(trials: &[Metrics]) -> Metrics {
    let mut values: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
    for (name, value) in trials.iter().flatten() {
        values.entry(name).or_default().push(*value);
    }
    values.into_iter().map(|(name, values)| (name.clone(), median(&values))).collect()
}

/// Returns the metrics of one trial. Metrics of operations that the trial did not issue (no reads, no syncs) are missing.
pub fn metrics(replay: &Replay) -> Metrics {
    let mut m = Metrics::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() && value > 0.0 {
            m.insert(name.to_owned(), value);
        }
    };
    // If the time limit ended the pass, extrapolate to the whole work.
    let share = replay.work_share.unwrap_or(1.0).max(f64::MIN_POSITIVE);
    let of_all = |part: u64| part as f64 / share;
    let grown = replay.allocated_bytes.saturating_sub(replay.allocated_before);
    put("allocated_bytes", (replay.allocated_bytes - grown) as f64 + of_all(grown));
    put("space_ratio", replay.logical_bytes as f64 / replay.allocated_bytes.max(1) as f64);
    put("mean_latency_ns", replay.mean_latency_ns);
    match replay.work_rate {
        Some(rate) => put("work_rate", rate),
        None => put("ops_s", replay.ops_per_second),
    }
    put("write_amplification", replay.write_amplification.unwrap_or(0.0));
    put("read_amplification", replay.read_amplification.unwrap_or(0.0));
    put("vdev_write_bytes", of_all(replay.vdev.write_bytes));
    put("vdev_read_bytes", of_all(replay.vdev.read_bytes));
    let accesses = replay.arc.hits + replay.arc.iohits + replay.arc.misses;
    put("arc_hit_ratio", replay.arc.hits as f64 / accesses.max(1) as f64);
    put("cpu_ns_per_op", replay.cpu_seconds * 1e9 / replay.ops.max(1) as f64);
    for (kind, latency) in &replay.latency_ns {
        if !["read", "write", "fsync"].contains(&kind.as_str()) || latency.count == 0 {
            continue;
        }
        for (quantile, ns, least) in [
            ("p50", latency.p50, 1),
            ("p99", latency.p99, MIN_FOR_P99),
            ("p999", latency.p999, 10 * MIN_FOR_P99),
        ] {
            if latency.count >= least {
                put(&format!("{kind}_{quantile}_ns"), ns as f64);
            }
        }
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(pairs: &[(&str, f64)]) -> Metrics {
        pairs.iter().map(|(k, v)| (k.to_string(), *v)).collect()
    }

    #[test]
    fn weights_add_up_and_names_are_metrics() {
        for GoalRow { goal, name, weights, .. } in GOALS {
            let sum: f64 = weights.iter().map(|(_, w)| w).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}");
            assert_eq!(Goal::parse(name), Some(*goal));
        }
    }

    #[test]
    fn the_objective_is_a_geometric_mean_of_ratios() {
        let today = m(&[("allocated_bytes", 100.0), ("work_rate", 1.0), ("write_amplification", 2.0)]);
        assert_eq!(Goal::Balanced.objective(&today, &today), 1.0);
        let half = m(&[("allocated_bytes", 50.0), ("work_rate", 2.0), ("write_amplification", 1.0)]);
        assert!((Goal::Balanced.objective(&half, &today) - 0.5).abs() < 1e-12);
        // Missing metrics are ignored.
        let only = m(&[("allocated_bytes", 50.0)]);
        assert!((Goal::Balanced.objective(&only, &today) - 0.5).abs() < 1e-12);
        // A trace without durations has `ops_s`, which is better when higher.
        let fast = m(&[("ops_s", 200.0)]);
        assert!((Goal::Throughput.objective(&fast, &m(&[("ops_s", 100.0)])) - 0.5).abs() < 1e-12);
        assert_eq!(Goal::Space.objective(&Metrics::new(), &today), 1.0);
    }
}
