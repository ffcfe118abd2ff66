//! The criteria by which settings are ranked: a goal, and bounds on single metrics.

use crate::objective::{Goal, Metrics};
use crate::requirement::Requirement;

/// Returns what settings that are recommended for a goal must not cost.
pub fn limits(goal: Goal) -> Vec<Requirement> {
    let limit = |text: &&str| Requirement::parse(text).expect("the limits of GOALS are valid");
    goal.limits().iter().map(limit).collect()
}

/// The criteria by which settings are ranked.
#[derive(Clone, Copy, Debug)]
pub struct Criteria<'a> {
    /// The goal, which defines the objective.
    pub goal: Goal,
    /// Bounds that the settings must satisfy.
    pub requirements: &'a [Requirement],
}

/// Factor that ranks a setting which misses a requirement behind all settings that meet the requirements.
const UNMET: f64 = 1e3;

impl Criteria<'_> {
    /// Returns the goal's objective, multiplied by [`Criteria::penalty`].
    pub fn objective(&self, metrics: &Metrics, today: &Metrics) -> f64 {
        self.goal.objective(metrics, today) * self.penalty(metrics, today)
    }

    /// Returns 1 if the metrics meet all requirements, else 1000. A requirement whose metric is missing counts as met.
    pub fn penalty(&self, metrics: &Metrics, today: &Metrics) -> f64 {
        let is_unmet = |r: &Requirement| r.change(metrics, today).is_some_and(|change| !r.allows(change));
        if self.requirements.iter().any(is_unmet) { UNMET } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::GOALS;
    use poolwright_plan::MetricName;

    #[test]
    fn the_limits_of_every_goal_are_valid() {
        assert!(GOALS.iter().all(|row| limits(row.goal).len() == row.limits.len()));
    }

    #[test]
    fn what_does_not_meet_them_comes_last() {
        let m = |space: f64, rate: f64| {
            Metrics::from([(MetricName::AllocatedBytes, space), (MetricName::WorkRate, rate)])
        };
        let today = m(100.0, 1.0);
        let requirements = [Requirement::parse("space<=-20%").unwrap()];
        let criteria = Criteria { goal: Goal::Balanced, requirements: &requirements };
        assert!(criteria.objective(&m(79.0, 0.5), &today) < criteria.objective(&m(81.0, 2.0), &today));
    }
}
