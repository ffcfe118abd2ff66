//! Compares published advice with today's settings, where the race tried it.

use std::collections::BTreeMap;

use poolwright_openzfs::property::{Settings, canonical};
use poolwright_trace::layout::Role;

use super::{Rule, applicable};
use crate::Result;
use crate::candidates::with;
use crate::current::Current;
use crate::findings::RacedTrials;
use crate::observations::Observations;
use crate::pareto::METRICS;
use crate::tuner::Tuner;
use poolwright_plan::{AdviceSource, AdviceStatus, CheckedAdvice, MeasuredChange, MetricName};

impl Tuner<'_> {
    /// Returns every rule that applies to a raced role, with its measured effect. Runs the missing trials if the request
    /// asks for them.
    ///
    /// # Errors
    /// As [`Tuner::try_advice`].
    pub(crate) fn published_advice(&mut self) -> Result<Vec<CheckedAdvice>> {
        let races = std::mem::take(&mut self.findings.races);
        let mut all = Vec::new();
        for race in &races {
            all.extend(self.advice_for(race));
        }
        if self.request.check_advice {
            self.try_advice(&races, &mut all)?;
        }
        Ok(all)
    }

    fn advice_for(&self, race: &RacedTrials) -> Vec<CheckedAdvice> {
        let current = self.current_of(race.roles[0]);
        let layout = self.inventory.found.as_ref().map(|f| f.layout.name);
        let one = |rule: &Rule| {
            let changes = changes(rule, current);
            let mut entry = entry(rule, race.roles[0]);
            if changes.is_empty() {
                entry.status = AdviceStatus::Followed;
                entry.basis = "today's settings already follow it".into();
            } else if let Some(why) = rule.untried {
                entry.basis = why.into();
            } else {
                measure(
                    &mut entry,
                    &race.observations,
                    &current.settings,
                    &with(&current.settings, &changes),
                );
            }
            entry
        };
        applicable(layout, &race.roles).into_iter().map(one).collect()
    }
}

/// Returns the properties of a rule whose values differ from today's.
fn changes(rule: &Rule, current: &Current) -> Settings {
    let differs = |(property, value): &&(&str, &str)| {
        let today = current.value(property);
        today.is_none_or(|t| canonical(property, &t) != canonical(property, value))
    };
    rule.settings.iter().filter(differs).map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect()
}

/// Returns the entry of a rule without any figures.
fn entry(rule: &Rule, role: Role) -> CheckedAdvice {
    CheckedAdvice {
        rule: rule.name.into(),
        advice: rule.advice.into(),
        source: AdviceSource { title: rule.source.title.into(), url: rule.source.url.into() },
        role,
        settings: rule.settings.iter().map(|(p, v)| ((*p).to_owned(), (*v).to_owned())).collect(),
        status: AdviceStatus::NotTried,
        basis: "the search did not try it".into(),
        measured: BTreeMap::new(),
    }
}

/// Adds the figures that the race measured with exactly these settings, if there are any.
fn measure(entry: &mut CheckedAdvice, all: &Observations, today: &Settings, wanted: &Settings) {
    let (Some(from), Some(to)) = (all.find(today), all.find(wanted)) else { return };
    let one = |metric| -> Option<(MetricName, MeasuredChange)> {
        let name = all.name(metric)?;
        Some((name.clone(), all.difference(name, from, to)?.effect(name)))
    };
    let measured: BTreeMap<MetricName, MeasuredChange> = METRICS.iter().filter_map(one).collect();
    if measured.is_empty() {
        return;
    }
    let trials = |n: usize| poolwright_base::units::counted(n as u64, "trial");
    entry.basis = format!("{} against {} of today's settings", trials(to.trials.len()), from.trials.len());
    entry.measured = measured;
    entry.status = AdviceStatus::Tried;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::RULES;
    use crate::observations::fixture::{outcome, today};

    fn rule(name: &str) -> &'static Rule {
        RULES.iter().find(|r| r.name == name).unwrap()
    }

    fn wanted(property: &str, value: &str) -> Settings {
        with(&today(), &Settings::from([(property.into(), value.into())]))
    }

    #[test]
    fn a_rule_that_was_tried_shows_what_was_measured() {
        let all = Observations::of(&outcome(&[
            (&[], &[(1.0, 100.0, 90.0), (1.01, 100.0, 90.0)]),
            (&[("recordsize", "16384")], &[(1.5, 90.0, 30.0)]),
        ]));
        let mut found = entry(rule("innodb-page"), Role::Data);
        measure(&mut found, &all, &today(), &wanted("recordsize", "16K"));
        assert_eq!(
            (found.status, found.basis.as_str()),
            (AdviceStatus::Tried, "1 trial against 2 of today's settings")
        );
        assert!((found.measured[&MetricName::WorkRate].change - 0.49).abs() < 0.01, "{found:?}");
        assert_eq!(
            found.measured[&MetricName::AllocatedBytes].ci95.0,
            found.measured[&MetricName::AllocatedBytes].ci95.1
        );
        let mut other = entry(rule("innodb-metadata-cache"), Role::Data);
        measure(&mut other, &all, &today(), &wanted("primarycache", "metadata"));
        assert_eq!(other.status, AdviceStatus::NotTried);
    }
}
