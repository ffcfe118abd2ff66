//! What "better" means: goals as weights over metrics, one number per setting.

use std::collections::BTreeMap;

use poolwright_replay::Replay;

use crate::plan;

/// Metric → figure of one trial.
pub type Metrics = BTreeMap<String, f64>;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Work rate, space and bytes written alike, work rate a little more.
    Balanced,
    /// Above all, less space.
    Space,
    /// Above all, shorter waits of the foreground, the slow ones too.
    Latency,
    /// Above all, a higher work rate, and less CPU time for it.
    Throughput,
    /// Above all, fewer bytes written to the devices.
    Endurance,
}

/// A goal, its name on the command line, and metric → weight.
pub type GoalRow = (Goal, &'static str, &'static [(&'static str, f64)]);

/// Goal, name, and weights that add up to 1. The one table behind the command line, the plan and the documentation, which
/// defends them (`docs/method.md`).
pub const GOALS: &[GoalRow] = &[
    (
        Goal::Balanced,
        "balanced",
        &[("work_rate", 0.4), ("allocated_bytes", 0.3), ("write_amplification", 0.3)],
    ),
    (Goal::Space, "space", &[("allocated_bytes", 0.7), ("work_rate", 0.15), ("write_amplification", 0.15)]),
    (
        Goal::Latency,
        "latency",
        &[
            ("work_rate", 0.4),
            ("read_p99_ns", 0.2),
            ("fsync_p99_ns", 0.2),
            ("allocated_bytes", 0.1),
            ("write_amplification", 0.1),
        ],
    ),
    (
        Goal::Throughput,
        "throughput",
        &[("work_rate", 0.6), ("cpu_ns_per_op", 0.2), ("allocated_bytes", 0.1), ("write_amplification", 0.1)],
    ),
    (
        Goal::Endurance,
        "endurance",
        &[("vdev_write_bytes", 0.7), ("allocated_bytes", 0.15), ("work_rate", 0.15)],
    ),
];

/// A metric that stands in for one that a trial does not have: a recording without durations has no think times, so it
/// is replayed as fast as possible.
const STAND_INS: &[(&str, &str)] = &[("work_rate", "ops_s")];

/// Metrics of which more is better; all others are better when lower.
pub const HIGHER_IS_BETTER: &[&str] = &["ops_s", "work_rate", "space_ratio", "arc_hit_ratio"];

impl Goal {
    /// Its row in [`GOALS`].
    fn row(self) -> &'static GoalRow {
        GOALS.iter().find(|row| row.0 == self).expect("every goal has a row")
    }

    /// As on the command line.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// By its name on the command line.
    pub fn parse(name: &str) -> Option<Goal> {
        GOALS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Metric → weight.
    pub fn weights(self) -> &'static [(&'static str, f64)] {
        self.row().2
    }

    /// As the plan holds it.
    pub fn to_plan(self) -> plan::Goal {
        plan::Goal {
            name: self.name().into(),
            weights: self.weights().iter().map(|(metric, weight)| (metric.to_string(), *weight)).collect(),
        }
    }

    /// The weighted geometric mean of the ratios to `today`: lower is better, 1 is today. A metric that is missing or
    /// zero on either side takes no part, and the other weights are scaled up.
    pub fn objective(self, metrics: &Metrics, today: &Metrics) -> f64 {
        objective(self.weights().iter().copied(), metrics, today)
    }
}

/// The metric's own name, or that of its stand-in, whichever `metrics` has.
pub(crate) fn name_in<'a>(metric: &'a str, metrics: &'a Metrics) -> Option<&'a str> {
    both(metric, metrics, metrics).map(|(name, ..)| name)
}

/// The same with a plan's own weights.
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
        let ratio = if HIGHER_IS_BETTER.contains(&metric) { b / a } else { a / b };
        sum += weight * ratio.ln();
        weights += weight;
    }
    if weights == 0.0 { 1.0 } else { (sum / weights).exp() }
}

/// A metric of both, or its stand-in.
fn both<'a>(metric: &'a str, a: &'a Metrics, b: &'a Metrics) -> Option<(&'a str, &'a f64, &'a f64)> {
    let stand_ins = STAND_INS.iter().filter(|(name, _)| *name == metric).map(|(_, other)| *other);
    std::iter::once(metric).chain(stand_ins).find_map(|name| Some((name, a.get(name)?, b.get(name)?)))
}

/// The plan's metrics of one trial. What a trial did not do (no reads, no syncs) is left out.
pub fn metrics(replay: &Replay) -> Metrics {
    let mut m = Metrics::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() && value > 0.0 {
            m.insert(name.to_owned(), value);
        }
    };
    // Of a pass that its time limit ended: what all of the work would have taken.
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
        // fdatasync is a sync like any other to whoever waits for it.
        let kind = if kind == "fdatasync" { "fsync" } else { kind };
        if !["read", "write", "fsync"].contains(&kind) || latency.count == 0 {
            continue;
        }
        for (quantile, ns) in [("p50", latency.p50), ("p99", latency.p99), ("p999", latency.p999)] {
            put(&format!("{kind}_{quantile}_ns"), ns as f64);
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
        for (goal, name, weights) in GOALS {
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
        // What is missing takes no part.
        let only = m(&[("allocated_bytes", 50.0)]);
        assert!((Goal::Balanced.objective(&only, &today) - 0.5).abs() < 1e-12);
        // A recording without durations has operations a second, of which more are better.
        let fast = m(&[("ops_s", 200.0)]);
        assert!((Goal::Throughput.objective(&fast, &m(&[("ops_s", 100.0)])) - 0.5).abs() < 1e-12);
        assert_eq!(Goal::Space.objective(&Metrics::new(), &today), 1.0);
    }
}
