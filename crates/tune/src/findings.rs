//! Results of the races other than their winners, collected for the plan.

use crate::objective::Goal;
use crate::observations::Observations;
use crate::race::Outcome;
use crate::{contribution, pareto};
use poolwright_plan as plan;
use poolwright_trace::layout::Role;

/// The results of all races so far.
#[derive(Default)]
pub(crate) struct Findings {
    pub pareto: Vec<plan::Pareto>,
    pub contributions: Vec<plan::Contributions>,
    pub races: Vec<RacedTrials>,
}

/// The trials of a race, kept for advice.
pub(crate) struct RacedTrials {
    /// Roles that share the dataset; the first one determined the candidates.
    pub roles: Vec<Role>,
    pub observations: Observations,
}

impl Findings {
    /// Adds the results of a race; does nothing without an outcome.
    pub fn add(&mut self, role: &plan::RolePlan, outcome: Option<&Outcome>, goal: Goal) {
        let Some(outcome) = outcome else { return };
        let observations = Observations::of(outcome);
        self.pareto.extend(pareto::pareto(role.role, &role.current, &role.evidence, &observations));
        self.contributions.extend(contribution::contributions(
            role.role,
            &role.current,
            &role.recommended,
            goal,
            &observations,
        ));
        let roles = std::iter::once(&role.role).chain(&role.together_with).copied().collect();
        self.races.push(RacedTrials { roles, observations });
    }
}
