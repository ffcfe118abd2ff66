//! The settings that a confirmation compares: today's, the recommended settings, and the runner-up.

use std::collections::BTreeMap;

use poolwright_openzfs::property::Settings;
use poolwright_plan::metric::CONFIRMED;
use poolwright_plan::{
    Contender, Evidence, EvidenceKind, Gains, MetricName, Outcome, Plan, PredictedChange, RolePlan,
};
use poolwright_tune::candidates::{same, with};
use poolwright_tune::objective::{Metrics, weighted};

use crate::{Dataset, DatasetLayout, Error, Result};

/// A setting that the confirmation runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Its name.
    pub name: Contender,
    /// Dataset → properties.
    pub datasets: BTreeMap<String, Settings>,
    /// Metric → the change from today's settings that the plan predicts. Empty for today's settings.
    pub predicted: BTreeMap<MetricName, PredictedChange>,
}

/// Selects today's settings, the recommended settings if the plan recommends a change, and the runner-up if the plan raced other
/// settings, in this order.
///
/// # Errors
/// [`Error::NothingToCompare`] if there are only today's settings.
pub fn contenders(plan: &Plan, layout: &DatasetLayout) -> Result<Vec<Chosen>> {
    let today = Chosen {
        name: Contender::Today,
        datasets: all(plan, layout, &|role| role.current.clone()),
        predicted: BTreeMap::new(),
    };
    let applied = all(plan, layout, &|role| with(&role.current, &role.recommended));
    let recommended = (applied != today.datasets).then(|| Chosen {
        name: Contender::Recommended,
        datasets: applied,
        predicted: of_gains(plan, recommended_gains(plan)),
    });
    let runner_up = runner_up(plan, layout, &today.datasets);
    let chosen: Vec<Chosen> = [Some(today), recommended, runner_up].into_iter().flatten().collect();
    if chosen.len() < 2 {
        return Err(Error::NothingToCompare);
    }
    Ok(chosen)
}

/// The settings of each dataset: those of its lead role, or of the first role if it has no lead. `of` returns a role's
/// settings.
fn all(
    plan: &Plan,
    layout: &DatasetLayout,
    of: &dyn Fn(&RolePlan) -> Settings,
) -> BTreeMap<String, Settings> {
    let one = |dataset: &Dataset| match dataset.lead {
        Some(lead) => of(&plan.roles[lead]),
        None => plan.roles.first().map(|role| role.current.clone()).unwrap_or_default(),
    };
    layout.datasets.iter().map(|d| (d.name.clone(), one(d))).collect()
}

/// The gains of the whole plan, or of the one role that changes.
fn recommended_gains(plan: &Plan) -> &Gains {
    let role = plan.roles.iter().find(|r| !r.gain.is_empty()).filter(|_| plan.gain.is_empty());
    role.map_or(&plan.gain, |role| &role.gain)
}

/// Predicted changes from the gains of a race.
fn of_gains(plan: &Plan, gains: &Gains) -> BTreeMap<MetricName, PredictedChange> {
    let metrics: Metrics = gains.iter().map(|(name, gain)| (name.clone(), 1.0 + gain.change)).collect();
    let mut predicted = BTreeMap::new();
    for name in CONFIRMED {
        let gain = gains.get(name).or_else(|| gains.get(name.stand_in()?));
        if let Some(gain) = gain {
            let ci95 = Some(plan.expected(name, gain.change, gain.ci95));
            predicted.insert(name.clone(), PredictedChange { change: gain.change, ci95 });
        }
    }
    if !metrics.is_empty() {
        let ones: Metrics = metrics.keys().map(|name| (name.clone(), 1.0)).collect();
        let change = weighted(&plan.goal.weights, &metrics, &ones) - 1.0;
        predicted.insert(MetricName::Objective, PredictedChange { change, ci95: None });
    }
    predicted
}

/// The best raced setting besides today's and the recommended one, of a role that changes; of any role if none changes. All other
/// datasets get today's settings.
fn runner_up(plan: &Plan, layout: &DatasetLayout, today: &BTreeMap<String, Settings>) -> Option<Chosen> {
    let leads = || layout.datasets.iter().filter_map(|d| Some((d, &plan.roles[d.lead?])));
    let changes = leads().any(|(_, role)| !role.recommended.is_empty());
    let of_interest = leads().filter(|(_, role)| !changes || !role.recommended.is_empty());
    let mut best: Option<(f64, &Dataset, &RolePlan, &Evidence)> = None;
    for (dataset, role) in of_interest {
        for evidence in role.evidence.iter().filter(|e| is_other(role, e)) {
            let Some(objective) = evidence.objective else { continue };
            if best.is_none_or(|(least, ..)| objective < least) {
                best = Some((objective, dataset, role, evidence));
            }
        }
    }
    let (objective, dataset, role, evidence) = best?;
    let mut datasets = today.clone();
    datasets.insert(dataset.name.clone(), with(&role.current, &evidence.settings));
    Some(Chosen { name: Contender::RunnerUp, datasets, predicted: of_evidence(role, evidence, objective) })
}

/// Whether the setting was raced, and is neither today's setting nor the recommended one.
fn is_other(role: &RolePlan, evidence: &Evidence) -> bool {
    let settings = with(&role.current, &evidence.settings);
    evidence.kind == EvidenceKind::Trial
        && evidence.outcome == Outcome::Raced
        && !same(&settings, &role.current)
        && !same(&settings, &with(&role.current, &role.recommended))
}

/// Predicted changes from the medians of a race. Its trials are not paired, so there is no interval.
fn of_evidence(
    role: &RolePlan,
    evidence: &Evidence,
    objective: f64,
) -> BTreeMap<MetricName, PredictedChange> {
    let change = |change: f64| PredictedChange { change, ci95: None };
    let mut predicted = BTreeMap::from([(MetricName::Objective, change(objective - 1.0))]);
    let today = role.evidence.iter().find(|e| e.outcome == Outcome::Current);
    for name in CONFIRMED {
        let stand_in = name.stand_in().filter(|_| !evidence.metrics.contains_key(name));
        let source = stand_in.unwrap_or(name);
        let (Some(from), Some(to)) =
            (today.and_then(|e| e.metrics.get(source)), evidence.metrics.get(source))
        else {
            continue;
        };
        if from.median > 0.0 {
            predicted.insert(name.clone(), change(to.median / from.median - 1.0));
        }
    }
    predicted
}
