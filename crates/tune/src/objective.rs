//! Goals: weights of metrics, which reduce the metrics of a setting to one number, its objective.

use std::collections::BTreeMap;

use poolwright_base::stats::median;
use poolwright_plan::{self as plan, MetricName, metric::MIN_FOR_P99};
use poolwright_replay::Replay;
use poolwright_report::Better;

/// Metric → value in one trial, in the unit of [`poolwright_plan::metric::METRICS`].
pub type Metrics = BTreeMap<MetricName, f64>;

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
    pub weights: &'static [(MetricName, f64)],
    /// Limits in the form of [`Requirement`](crate::requirement::Requirement). A setting is not recommended if the whole interval of its
    /// change is beyond one.
    pub limits: &'static [&'static str],
}

/// What a database's users hardly notice: 5 % of the work rate, and 10 % of the latency of the slowest reads and syncs.
const HARDLY_SLOWER: &[&str] = &["work_rate>=-5%", "read_p99<=10%", "sync_p99<=10%"];

/// All goals. The command line, the plan and the documentation take names, weights and limits from this table;
/// `docs/method.md` gives the reasons for them.
pub const GOALS: &[GoalRow] = {
    use MetricName::*;
    &[
        GoalRow {
            goal: Goal::Balanced,
            name: "balanced",
            weights: &[(WorkRate, 0.3), (AllocatedBytes, 0.3), (WriteAmplification, 0.2), (CpuNsPerOp, 0.2)],
            limits: HARDLY_SLOWER,
        },
        GoalRow {
            goal: Goal::Space,
            name: "space",
            weights: &[(AllocatedBytes, 0.7), (WorkRate, 0.15), (WriteAmplification, 0.15)],
            limits: &[],
        },
        GoalRow {
            goal: Goal::Latency,
            name: "latency",
            weights: &[
                (WorkRate, 0.4),
                (ReadP99Ns, 0.2),
                (FsyncP99Ns, 0.2),
                (AllocatedBytes, 0.1),
                (WriteAmplification, 0.1),
            ],
            limits: HARDLY_SLOWER,
        },
        GoalRow {
            goal: Goal::Throughput,
            name: "throughput",
            weights: &[(WorkRate, 0.6), (CpuNsPerOp, 0.2), (AllocatedBytes, 0.1), (WriteAmplification, 0.1)],
            limits: HARDLY_SLOWER,
        },
        GoalRow {
            goal: Goal::Endurance,
            name: "endurance",
            weights: &[(VdevWriteBytes, 0.7), (AllocatedBytes, 0.15), (WorkRate, 0.15)],
            limits: &[],
        },
        GoalRow {
            goal: Goal::Efficiency,
            name: "efficiency",
            weights: &[(AllocatedBytes, 0.4), (WorkRate, 0.4), (CpuNsPerOp, 0.2)],
            limits: &[],
        },
    ]
};

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
    pub fn weights(self) -> &'static [(MetricName, f64)] {
        self.row().weights
    }

    /// The limits, in the form of [`Requirement`](crate::requirement::Requirement).
    pub fn limits(self) -> &'static [&'static str] {
        self.row().limits
    }

    /// Converts the goal to its form in the plan, with those of its limits that apply.
    pub fn to_plan(self, limits: Vec<String>) -> plan::Goal {
        plan::Goal { name: self.name().into(), weights: self.weights().iter().cloned().collect(), limits }
    }

    /// Returns the weighted geometric mean of the ratios of `metrics` to `today`. Lower is better; today's settings have 1.
    /// A metric that is missing or zero on either side is ignored, and the other weights are scaled up.
    pub fn objective(self, metrics: &Metrics, today: &Metrics) -> f64 {
        objective(self.weights().iter().map(|(metric, weight)| (metric, *weight)), metrics, today)
    }
}

/// Returns the metric's name, or that of its stand-in, whichever is in `metrics`.
pub(crate) fn name_in<'a>(metric: &'a MetricName, metrics: &'a Metrics) -> Option<&'a MetricName> {
    both(metric, metrics, metrics).map(|(name, ..)| name)
}

/// Returns the same as [`Goal::objective`] with the weights of a plan.
pub fn weighted(weights: &BTreeMap<MetricName, f64>, metrics: &Metrics, today: &Metrics) -> f64 {
    objective(weights.iter().map(|(metric, weight)| (metric, *weight)), metrics, today)
}

fn objective<'a>(
    goal: impl Iterator<Item = (&'a MetricName, f64)>,
    metrics: &Metrics,
    today: &Metrics,
) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (metric, weight) in goal {
        let Some((metric, a, b)) = both(metric, metrics, today) else { continue };
        if *a <= 0.0 || *b <= 0.0 || !a.is_finite() || !b.is_finite() {
            continue;
        }
        let ratio = match metric.better() {
            Better::Higher => b / a,
            Better::Lower => a / b,
        };
        sum += weight * ratio.ln();
        weights += weight;
    }
    if weights == 0.0 { 1.0 } else { (sum / weights).exp() }
}

/// Returns the name and both values of the metric, or of its stand-in if either side lacks the metric.
fn both<'a>(
    metric: &'a MetricName,
    a: &'a Metrics,
    b: &'a Metrics,
) -> Option<(&'a MetricName, &'a f64, &'a f64)> {
    std::iter::once(metric).chain(metric.stand_in()).find_map(|name| Some((name, a.get(name)?, b.get(name)?)))
}

/// Returns the median of each metric over some trials.
pub(crate) fn medians(trials: &[Metrics]) -> Metrics {
    let mut values: BTreeMap<&MetricName, Vec<f64>> = BTreeMap::new();
    for (name, value) in trials.iter().flatten() {
        values.entry(name).or_default().push(*value);
    }
    values.into_iter().map(|(name, values)| (name.clone(), median(&values))).collect()
}

/// Operation → the median, the 99th and the 99.9th percentile of its latency.
const PERCENTILES: [(&str, [MetricName; 3]); 3] = [
    ("read", [MetricName::ReadP50Ns, MetricName::ReadP99Ns, MetricName::ReadP999Ns]),
    ("write", [MetricName::WriteP50Ns, MetricName::WriteP99Ns, MetricName::WriteP999Ns]),
    ("fsync", [MetricName::FsyncP50Ns, MetricName::FsyncP99Ns, MetricName::FsyncP999Ns]),
];

/// Returns the median of the same operations; `None` if the metric is not a 99th percentile.
pub(crate) fn median_of_p99(metric: &MetricName) -> Option<MetricName> {
    PERCENTILES.into_iter().find_map(|(_, [p50, p99, _])| (p99 == *metric).then_some(p50))
}

/// Returns the metrics of one trial. Metrics of operations that the trial did not issue (no reads, no syncs) are missing.
pub fn metrics(replay: &Replay) -> Metrics {
    use MetricName::*;
    let mut m = Metrics::new();
    let mut put = |name: MetricName, value: f64| {
        if value.is_finite() && value > 0.0 {
            m.insert(name, value);
        }
    };
    // If the time limit ended the pass, extrapolate to the whole work.
    let share = replay.work_share.unwrap_or(1.0).max(f64::MIN_POSITIVE);
    let of_all = |part: u64| part as f64 / share;
    let grown = replay.allocated_bytes.saturating_sub(replay.allocated_before);
    put(AllocatedBytes, (replay.allocated_bytes - grown) as f64 + of_all(grown));
    put(SpaceRatio, replay.logical_bytes as f64 / replay.allocated_bytes.max(1) as f64);
    put(MeanLatencyNs, replay.mean_latency_ns);
    match replay.work_rate {
        Some(rate) => put(WorkRate, rate),
        None => put(OpsS, replay.ops_per_second),
    }
    put(WriteAmplification, replay.write_amplification.unwrap_or(0.0));
    put(ReadAmplification, replay.read_amplification.unwrap_or(0.0));
    put(VdevWriteBytes, of_all(replay.vdev.write_bytes));
    put(VdevReadBytes, of_all(replay.vdev.read_bytes));
    let accesses = replay.arc.hits + replay.arc.iohits + replay.arc.misses;
    put(ArcHitRatio, replay.arc.hits as f64 / accesses.max(1) as f64);
    put(CpuNsPerOp, replay.cpu_seconds * 1e9 / replay.ops.max(1) as f64);
    for (kind, [p50, p99, p999]) in PERCENTILES {
        let Some(latency) = replay.latency_ns.get(kind) else { continue };
        for (name, ns, least) in
            [(p50, latency.p50, 1), (p99, latency.p99, MIN_FOR_P99), (p999, latency.p999, 10 * MIN_FOR_P99)]
        {
            if latency.count >= least {
                put(name, ns as f64);
            }
        }
    }
    m
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_plan::MetricName::*;

    fn m(pairs: &[(MetricName, f64)]) -> Metrics {
        pairs.iter().cloned().collect()
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
        let today = m(&[(AllocatedBytes, 100.0), (WorkRate, 1.0), (WriteAmplification, 2.0)]);
        assert_eq!(Goal::Balanced.objective(&today, &today), 1.0);
        let half = m(&[(AllocatedBytes, 50.0), (WorkRate, 2.0), (WriteAmplification, 1.0)]);
        assert!((Goal::Balanced.objective(&half, &today) - 0.5).abs() < 1e-12);
        // Missing metrics are ignored.
        let only = m(&[(AllocatedBytes, 50.0)]);
        assert!((Goal::Balanced.objective(&only, &today) - 0.5).abs() < 1e-12);
        // A trace without durations has `ops_s`, which is better when higher.
        let fast = m(&[(OpsS, 200.0)]);
        assert!((Goal::Throughput.objective(&fast, &m(&[(OpsS, 100.0)])) - 0.5).abs() < 1e-12);
        assert_eq!(Goal::Space.objective(&Metrics::new(), &today), 1.0);
    }
}
