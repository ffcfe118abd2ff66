//! The effect of each recommended property alone, from the trials of a race.

use std::collections::BTreeMap;

use poolwright_openzfs::property::{Settings, canonical};
use poolwright_trace::layout::Role;

use crate::objective::Goal;
use crate::observations::{Difference, Observations, Tried, spelled};
use poolwright_plan::{Contributions, MetricName, PropertyEffect};

/// Returns the effect of each recommended property, or `None` if nothing is recommended.
pub(crate) fn contributions(
    role: Role,
    today: &Settings,
    recommended: &Settings,
    goal: Goal,
    observations: &Observations,
) -> Option<Contributions> {
    let names: Vec<&MetricName> = goal.weights().iter().filter_map(|(m, _)| observations.name(m)).collect();
    let effect = |(property, to): (&String, &String)| {
        (property.clone(), effect(property, today.get(property), to, &names, observations))
    };
    (!recommended.is_empty()).then(|| Contributions {
        role,
        trials: observations.trials() as u32,
        effects: recommended.iter().map(effect).collect(),
    })
}

/// Returns the effect of one property: the mean over all pairs of tried settings that differ only in it, today's
/// value against `to`.
fn effect(
    property: &str,
    from: Option<&String>,
    to: &str,
    metrics: &[&MetricName],
    observations: &Observations,
) -> PropertyEffect {
    let pairs = pairs(property, from, to, observations);
    let one = |metric: &&MetricName| {
        let differences: Vec<Difference> =
            pairs.iter().filter_map(|(a, b)| observations.difference(metric, a, b)).collect();
        Some(((*metric).clone(), combined(&differences)?.effect(metric)))
    };
    let found: BTreeMap<_, _> = metrics.iter().filter_map(one).collect();
    PropertyEffect {
        from: from.cloned(),
        to: to.to_owned(),
        pairs: if found.is_empty() { 0 } else { pairs.len() as u32 },
        metrics: found,
    }
}

/// Returns the tried settings with today's value of a property, `None` if today's settings do not have it, each with the tried setting
/// that has the value `to` instead.
fn pairs<'a>(
    property: &str,
    from: Option<&String>,
    to: &str,
    observations: &'a Observations,
) -> Vec<(&'a Tried, &'a Tried)> {
    let from = from.map(|value| canonical(property, value));
    let has_from = |t: &Tried| t.settings.get(property) == from.as_ref();
    let partner = |t: &'a Tried| {
        let mut other = t.settings.clone();
        other.insert(property.to_owned(), to.to_owned());
        let other = spelled(&other);
        observations.tried.iter().find(|o| o.settings == other)
    };
    observations.tried.iter().filter(|t| has_from(t)).filter_map(|t| Some((t, partner(t)?))).collect()
}

/// Returns the mean of several differences, each weighted by its inverse variance. The differences share no
/// setting, so their errors are independent; the noise behind them is one pooled estimate.
fn combined(differences: &[Difference]) -> Option<Difference> {
    let freedom = differences.first()?.freedom;
    // Without any noise all differences have the same weight.
    let weight = |d: &Difference| if d.error > 0.0 { d.error.powi(-2) } else { 1.0 };
    let weights: f64 = differences.iter().map(weight).sum();
    let log = differences.iter().map(|d| d.log * weight(d)).sum::<f64>() / weights;
    let exact = differences.iter().all(|d| d.error == 0.0);
    Some(Difference { log, error: if exact { 0.0 } else { weights.powf(-0.5) }, freedom })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observations::fixture::{Row, outcome, today};
    use poolwright_plan::GainVerdict;

    const SMALL: &[(&str, &str)] = &[("recordsize", "16K")];
    const PACKED: &[(&str, &str)] = &[("compression", "zstd-3")];
    const BOTH: &[(&str, &str)] = &[("recordsize", "16K"), ("compression", "zstd-3")];

    fn of(rows: &[Row<'_>], recommended: &[(&str, &str)]) -> Contributions {
        let recommended = recommended.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let observations = Observations::of(&outcome(rows));
        contributions(Role::Data, &today(), &recommended, Goal::Balanced, &observations).unwrap()
    }

    #[test]
    fn each_property_gets_what_it_does() {
        // recordsize=16K doubles the work rate and writes a third; zstd-3 takes half the space.
        let found = of(
            &[
                (&[], &[(1.0, 100.0, 90.0), (1.02, 100.0, 90.0)]),
                (SMALL, &[(2.0, 100.0, 30.0), (2.04, 100.0, 30.0)]),
                (PACKED, &[(1.0, 50.0, 90.0)]),
                (BOTH, &[(2.0, 50.0, 30.0), (2.04, 50.0, 30.0)]),
            ],
            BOTH,
        );
        assert_eq!(found.trials, 7);
        let small = &found.effects["recordsize"];
        assert_eq!((small.from.as_deref(), small.pairs), (Some("128K"), 2));
        assert!((small.metrics[&MetricName::WorkRate].change - 1.0).abs() < 0.03, "{small:?}");
        assert_eq!(small.metrics[&MetricName::WorkRate].verdict, GainVerdict::Better);
        assert_eq!(small.metrics[&MetricName::AllocatedBytes].change, 0.0);
    }

    #[test]
    fn a_property_that_todays_settings_do_not_have_has_an_effect() {
        const DIRECT: &[(&str, &str)] = &[("recordsize", "16K"), ("direct", "disabled")];
        let found = of(
            &[
                (&[], &[(1.0, 100.0, 90.0), (1.01, 100.0, 90.0)]),
                (SMALL, &[(2.0, 100.0, 30.0)]),
                (DIRECT, &[(3.0, 100.0, 30.0)]),
            ],
            DIRECT,
        );
        let direct = &found.effects["direct"];
        assert_eq!((direct.from.as_deref(), direct.pairs), (None, 1));
        assert!((direct.metrics[&MetricName::WorkRate].change - 0.5).abs() < 0.03, "{direct:?}");
    }

    #[test]
    fn what_was_never_tried_alone_is_not_separated() {
        let found =
            of(&[(&[], &[(1.0, 100.0, 90.0), (1.0, 100.0, 90.0)]), (BOTH, &[(2.0, 50.0, 30.0)])], BOTH);
        assert!(found.effects.values().all(|e| e.pairs == 0 && e.metrics.is_empty()), "{found:?}");
        // Tried alone, but without repeated trials the noise is unknown.
        let found = of(&[(&[], &[(1.0, 100.0, 90.0)]), (SMALL, &[(2.0, 100.0, 30.0)])], SMALL);
        assert_eq!(found.effects["recordsize"].pairs, 0);
    }

    #[test]
    fn nothing_recommended_has_no_effects() {
        let observations = Observations::of(&outcome(&[(&[], &[(1.0, 100.0, 90.0)])]));
        assert_eq!(
            contributions(Role::Data, &today(), &Settings::new(), Goal::Balanced, &observations),
            None
        );
    }
}
