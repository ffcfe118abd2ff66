//! Trials of published advice that the race did not try: replays of the whole application, today's settings against
//! the rule's.

use std::collections::BTreeMap;

use poolwright_openzfs::property::Settings;
use poolwright_trace::layout::Role;

use crate::Result;
use crate::candidates::{assignments, same, with};
use crate::evidence;
use crate::findings::RacedTrials;
use crate::fit::CALIBRATION_S;
use crate::objective::{Metrics, name_in};
use crate::pareto::METRICS;
use crate::race::PAIRS;
use crate::scatter::Scatter;
use crate::tuner::{Tuner, for_all};
use poolwright_plan::{AdviceStatus, CheckedAdvice, MeasuredChange, MetricName};

/// Today's metrics and the rule's, from trials that ran one after the other.
type Pairs = Vec<(Metrics, Metrics)>;

impl Tuner<'_> {
    /// Tries the rules that the race did not try. Rules that result in the same settings of a dataset share
    /// their trials.
    ///
    /// # Errors
    /// A failed trial adds a warning and is not an error; so does an interruption, which ends the trials. Other
    /// errors of the run are returned.
    pub(crate) fn try_advice(&mut self, races: &[RacedTrials], all: &mut [CheckedAdvice]) -> Result<()> {
        let mut done: Vec<(Role, Settings, Pairs)> = Vec::new();
        let missing = |a: &CheckedAdvice| a.status == AdviceStatus::NotTried && can_be_tried(a);
        for entry in all.iter_mut().filter(|a| missing(a)) {
            let Some(race) = races.iter().find(|r| r.roles.first() == Some(&entry.role)) else { continue };
            let wanted = with(&self.current_of(entry.role).settings, &entry.settings);
            let known =
                done.iter().find(|(role, settings, _)| *role == entry.role && same(settings, &wanted));
            let pairs = match known {
                Some((.., pairs)) => pairs.clone(),
                None => match self.advice_pairs(race, entry, &wanted) {
                    Ok(pairs) => pairs,
                    Err(error) if error.ends_the_run() => {
                        self.warnings.push(format!("{error}: some published advice was not tried"));
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                },
            };
            fill(entry, &pairs);
            done.push((entry.role, wanted, pairs));
        }
        Ok(())
    }

    fn advice_pairs(
        &mut self,
        race: &RacedTrials,
        entry: &CheckedAdvice,
        wanted: &Settings,
    ) -> Result<Pairs> {
        let base = self.settings_today();
        let mut changed = base.clone();
        changed.extend(for_all(&race.roles, wanted));
        let raced = self.fits.values().map(|f| f.seconds).fold(0.0, f64::max);
        let seconds = if raced > 0.0 { raced } else { CALIBRATION_S.min(self.replayable()) };
        let mut pairs = Pairs::new();
        for i in 1..=PAIRS {
            self.report_progress(format!(
                "published advice, {} with {}: pair {i} of {PAIRS}",
                entry.role,
                assignments(&entry.settings)
            ));
            pairs.extend(self.pair(&base, &changed, seconds)?);
        }
        Ok(pairs)
    }
}

/// Whether the engine supports all properties of the rule.
fn can_be_tried(entry: &CheckedAdvice) -> bool {
    entry.settings.iter().all(|(name, value)| poolwright_openzfs::property::check(name, value).is_ok())
}

/// Adds the result of the pairs.
fn fill(entry: &mut CheckedAdvice, pairs: &[(Metrics, Metrics)]) {
    let gains = evidence::gains(pairs, &Scatter::default());
    let Some((today, _)) = pairs.first() else { return };
    let one = |metric| -> Option<(MetricName, MeasuredChange)> {
        let name = name_in(metric, today)?;
        let gain = gains.get(name)?;
        Some((name.clone(), MeasuredChange { change: gain.change, ci95: gain.ci95, verdict: gain.verdict }))
    };
    let measured: BTreeMap<MetricName, MeasuredChange> = METRICS.iter().filter_map(one).collect();
    if measured.is_empty() {
        return;
    }
    entry.measured = measured;
    entry.status = AdviceStatus::Tried;
    entry.basis = format!("{} pairs of trials against today's settings", pairs.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_plan::AdviceSource;

    fn entry(property: &str, value: &str) -> CheckedAdvice {
        CheckedAdvice {
            rule: "a-rule".into(),
            advice: "advice".into(),
            source: AdviceSource::default(),
            role: Role::Data,
            settings: Settings::from([(property.into(), value.into())]),
            status: AdviceStatus::NotTried,
            basis: "not tried".into(),
            measured: BTreeMap::new(),
        }
    }

    #[test]
    fn pairs_show_the_effect() {
        let metrics =
            |rate: f64| Metrics::from([(MetricName::WorkRate, rate), (MetricName::CpuNsPerOp, 1.0)]);
        let mut found = entry("recordsize", "16K");
        fill(
            &mut found,
            &[(metrics(1.0), metrics(1.2)), (metrics(1.1), metrics(1.31)), (metrics(1.0), metrics(1.21))],
        );
        assert_eq!((found.status, found.measured.len()), (AdviceStatus::Tried, 1));
        assert!(found.basis.starts_with("3 pairs"), "{found:?}");
        let mut untouched = entry("recordsize", "16K");
        fill(&mut untouched, &[(metrics(1.0), metrics(1.2))]);
        assert_eq!(untouched.status, AdviceStatus::NotTried, "one pair has no interval");
        assert!(can_be_tried(&untouched) && !can_be_tried(&entry("atime", "off")));
    }
}
