//! The alternative to a plan's recommendation: a smaller setting if the goal has limits, otherwise a faster one.

use crate::candidates::{difference, same};
use crate::criteria::{Criteria, limits};
use crate::objective::{Goal, Metrics};
use crate::observations::{Observations, Tried};
use crate::race::Outcome;
use poolwright_plan::metric::METRICS;
use poolwright_plan::{AlternativeKind, AlternativeSetting, MetricName, Settings};

/// By how much an alternative is smaller or faster than the recommended settings, at least.
const CLEARLY: f64 = 0.03;

/// Returns the best setting of the other kind among those that were tried, compared with `recommended` (today's, if the plan keeps them),
/// or `None` if none is clearly smaller or faster.
pub(crate) fn alternative(
    goal: Goal,
    today: &Settings,
    recommended: &Settings,
    outcome: &Outcome,
) -> Option<AlternativeSetting> {
    let observations = Observations::of(outcome);
    let (kind, goal) = match goal.limits().is_empty() {
        true => (AlternativeKind::Faster, Goal::Balanced),
        false => (AlternativeKind::Smaller, Goal::Space),
    };
    let (reference, chosen) = (observations.find(today)?, observations.find(recommended)?);
    let (from, at) = (reference.median(), chosen.median());
    let limits = limits(goal);
    let criteria = Criteria { goal, requirements: &limits };
    let metrics = |tried: &&Tried| -> Option<Metrics> {
        let metrics = tried.median();
        let is_other =
            !same(&tried.settings, &chosen.settings) && !same(&tried.settings, &reference.settings);
        (is_other && is_clearly(kind, &metrics, &at) && criteria.penalty(&metrics, &from) == 1.0)
            .then_some(metrics)
    };
    let candidates = observations.tried.iter().filter_map(|tried| Some((tried, metrics(&tried)?)));
    let objective = |metrics: &Metrics| criteria.goal.objective(metrics, &from);
    let (best, _) = candidates.min_by(|a, b| objective(&a.1).total_cmp(&objective(&b.1)))?;
    let change = |name: &MetricName| {
        Some((name.clone(), observations.difference(name, reference, best)?.effect(name)))
    };
    // As the search spelled it: 16K, not 16384.
    let spelled = outcome.others.iter().find(|runner| same(&runner.settings, &best.settings))?;
    Some(AlternativeSetting {
        kind,
        goal: goal.name().to_owned(),
        changes: difference(&spelled.settings, today),
        trials: best.trials.len() as u32,
        change: METRICS.iter().filter_map(|metric| change(&metric.name)).collect(),
    })
}

/// Whether these metrics are clearly smaller or faster than those at the recommended settings.
fn is_clearly(kind: AlternativeKind, metrics: &Metrics, at: &Metrics) -> bool {
    let ratio = |name: &MetricName| Some(metrics.get(name)? / at.get(name)?);
    match kind {
        AlternativeKind::Smaller => {
            ratio(&MetricName::AllocatedBytes).is_some_and(|ratio| ratio <= 1.0 - CLEARLY)
        }
        AlternativeKind::Faster => ratio(&MetricName::WorkRate)
            .or_else(|| ratio(&MetricName::OpsS))
            .is_some_and(|ratio| ratio >= 1.0 + CLEARLY),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::fixture::{Row, outcome, today};

    const ROWS: &[Row<'_>] = &[
        (&[], &[(1.0, 100.0, 100.0), (1.01, 100.0, 100.0)]),
        (&[("recordsize", "32K")], &[(1.2, 90.0, 60.0), (1.21, 90.0, 60.0)]),
        (&[("compression", "zstd-3")], &[(0.7, 60.0, 90.0)]),
        (&[("recordsize", "16K")], &[(1.4, 130.0, 50.0)]),
        (&[("recordsize", "64K")], &[(1.1, 89.0, 70.0)]),
    ];

    fn of(goal: Goal, recommended: &[(&str, &str)]) -> Option<AlternativeSetting> {
        let mut settings = today();
        settings.extend(recommended.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        alternative(goal, &today(), &settings, &outcome(ROWS))
    }

    #[test]
    fn a_goal_with_limits_has_a_smaller_alternative_with_its_price() {
        let found = of(Goal::Balanced, &[("recordsize", "32K")]).unwrap();
        assert_eq!((found.kind, found.goal.as_str(), found.trials), (AlternativeKind::Smaller, "space", 1));
        assert_eq!(found.changes, Settings::from([("compression".into(), "zstd-3".into())]));
        let rate = found.change[&MetricName::WorkRate];
        assert!((rate.change + 0.3).abs() < 0.01 && rate.ci95.1 < -0.25, "{rate:?}");
        assert!((found.change[&MetricName::AllocatedBytes].change + 0.4).abs() < 1e-9);
        assert_eq!(of(Goal::Balanced, &[("compression", "zstd-3")]), None, "nothing is smaller");
    }

    #[test]
    fn a_goal_without_limits_has_a_faster_alternative_within_the_default_limits() {
        let found = of(Goal::Space, &[("compression", "zstd-3")]).unwrap();
        assert_eq!(found.kind, AlternativeKind::Faster);
        assert_eq!(found.changes, Settings::from([("recordsize".into(), "32K".into())]));
        assert_eq!(of(Goal::Space, &[("recordsize", "16K")]), None, "nothing is faster");
    }
}
