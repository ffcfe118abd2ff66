//! The Pareto set: settings that no other tried one beats in work rate, space and bytes written together.

use std::collections::BTreeMap;

use crate::candidates::difference;
use crate::objective::HIGHER_IS_BETTER;
use crate::observations::Observations;
use crate::plan::{Evidence, EvidenceKind, Outcome, Pareto, ParetoSetting, Settings};
use crate::statistics::t975;

/// What a setting is judged by; a metric's stand-in takes its place.
pub(crate) const METRICS: [&str; 3] = ["work_rate", "allocated_bytes", "vdev_write_bytes"];

/// A smaller relative difference is none, whatever the noise: two runs of one setting may take so much more space.
const SAME: f64 = 0.005;

/// The Pareto set of a role's trials; `evidence` has their medians, `observations` their noise. `None` for fewer than two
/// settings.
pub(crate) fn pareto(
    role: &str,
    today: &Settings,
    evidence: &[Evidence],
    observations: &Observations,
) -> Option<Pareto> {
    let done = |e: &&Evidence| e.kind == EvidenceKind::Trial && e.outcome != Outcome::Failed;
    let tried: Vec<&Evidence> = evidence.iter().filter(done).collect();
    let reference = tried.iter().find(|e| e.outcome == Outcome::Current)?;
    if tried.len() < 2 {
        return None;
    }
    let names: Vec<&str> = METRICS.iter().filter_map(|m| observations.name(m)).collect();
    let noise: BTreeMap<String, (f64, usize)> =
        names.iter().filter_map(|m| Some(((*m).to_owned(), observations.deviation(m)?))).collect();
    let contest = Contest { names, noise };
    let unbeaten: Vec<&Evidence> =
        tried.iter().copied().filter(|e| !tried.iter().any(|other| contest.beats(other, e))).collect();
    let beaten = (tried.len() - unbeaten.len()) as u32;
    let mut settings: Vec<ParetoSetting> =
        unbeaten.into_iter().map(|e| contest.entry(e, reference, today)).collect();
    let rate = |s: &ParetoSetting| {
        contest.names.first().and_then(|name| s.metrics.get(*name)).copied().unwrap_or(0.0)
    };
    settings.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let noise = contest.noise.iter().map(|(m, (deviation, _))| (m.clone(), deviation.exp() - 1.0)).collect();
    Some(Pareto { role: role.to_owned(), noise, settings, beaten })
}

/// The metrics that count, and the deviation of a trial's logarithm with its degrees of freedom.
struct Contest<'a> {
    names: Vec<&'a str>,
    noise: BTreeMap<String, (f64, usize)>,
}

impl Contest<'_> {
    /// Whether `a` is better beyond the noise in something, worse beyond it in nothing, and better on the whole. The last
    /// keeps three settings that differ by little from beating each other in a circle.
    fn beats(&self, a: &Evidence, b: &Evidence) -> bool {
        let (mut better, mut whole) = (false, 0.0);
        for name in &self.names {
            let (Some(x), Some(y)) = (a.metrics.get(*name), b.metrics.get(*name)) else { return false };
            let log = (x.median / y.median).ln();
            let gain = if HIGHER_IS_BETTER.contains(name) { log } else { -log };
            if !gain.is_finite() {
                return false;
            }
            let least = self.least(name, a.repeats, b.repeats);
            if gain < -least {
                return false;
            }
            better |= gain > least;
            whole += gain;
        }
        better && whole > 0.0
    }

    /// The smallest difference of logarithms that counts between medians of so many trials.
    fn least(&self, name: &str, a: u32, b: u32) -> f64 {
        let trials = |n: u32| 1.0 / f64::from(n.max(1));
        let noise = self
            .noise
            .get(name)
            .map_or(0.0, |(deviation, freedom)| t975(*freedom) * deviation * (trials(a) + trials(b)).sqrt());
        noise.max(SAME)
    }

    fn entry(&self, e: &Evidence, reference: &Evidence, today: &Settings) -> ParetoSetting {
        let median = |of: &Evidence, name: &str| of.metrics.get(name).map(|m| m.median);
        let change = |name: &&str| {
            let change = median(e, name)? / median(reference, name)? - 1.0;
            change.is_finite().then(|| ((*name).to_owned(), change))
        };
        ParetoSetting {
            changes: difference(&e.settings, today),
            trials: e.repeats,
            metrics: self
                .names
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), median(e, name)?)))
                .collect(),
            change: self.names.iter().filter_map(change).collect(),
            outcome: e.outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence;
    use crate::objective::Goal;
    use crate::observations::fixture::{Row, outcome, today};

    /// The set by its changes, and how many are beaten.
    fn set(rows: &[Row<'_>]) -> (Vec<String>, u32) {
        let o = outcome(rows);
        let evidence = evidence::collect(Some(&o), false, &[], &today(), Goal::Balanced, 12);
        let found = pareto("data", &today(), &evidence, &Observations::of(&o)).unwrap();
        let name = |s: &ParetoSetting| {
            let all: Vec<String> = s.changes.values().cloned().collect();
            if all.is_empty() { "today".to_owned() } else { all.join(" ") }
        };
        (found.settings.iter().map(name).collect(), found.beaten)
    }

    const TODAY: Row<'_> = (&[], &[(1.0, 100.0, 100.0), (1.02, 100.0, 102.0)]);

    #[test]
    fn the_unbeaten_stay_and_the_fastest_is_first() {
        let rows: [Row<'_>; 4] = [
            TODAY,
            (&[("recordsize", "16K")], &[(2.0, 120.0, 40.0), (2.02, 120.0, 41.0)]),
            (&[("compression", "zstd-3")], &[(0.8, 70.0, 90.0), (0.8, 70.0, 91.0)]),
            (&[("recordsize", "1M")], &[(0.3, 110.0, 400.0), (0.31, 110.0, 401.0)]),
        ];
        assert_eq!(set(&rows), (vec!["16K".into(), "today".into(), "zstd-3".into()], 1));
    }

    #[test]
    fn a_difference_inside_the_noise_is_none() {
        // 8 % slower at a noise of 5 %, all else equal: neither beats the other.
        let noisy: Row<'_> = (&[], &[(1.0, 100.0, 100.0), (1.1, 100.0, 100.0), (1.05, 100.0, 100.0)]);
        let slower: Row<'_> = (&[("recordsize", "64K")], &[(0.97, 100.0, 100.0)]);
        assert_eq!(set(&[noisy, slower]).0, ["today", "64K"]);
        // The same difference where trials repeat to 0.1 % is one, of a single trial too.
        let exact: Row<'_> = (&[], &[(1.05, 100.0, 100.0), (1.051, 100.0, 100.0), (1.049, 100.0, 100.0)]);
        assert_eq!(set(&[exact, slower]), (vec!["today".into()], 1));
        // Less than half a per cent never counts: more space alone would be a loss otherwise.
        let larger: Row<'_> = (&[("recordsize", "64K")], &[(1.05, 100.3, 100.0)]);
        assert_eq!(set(&[exact, larger]).1, 0);
    }

    #[test]
    fn changes_are_against_today_and_the_noise_is_said() {
        let o = outcome(&[TODAY, (&[("recordsize", "16K")], &[(2.02, 50.0, 50.5)])]);
        let evidence = evidence::collect(Some(&o), false, &[], &today(), Goal::Balanced, 12);
        let found = pareto("data", &today(), &evidence, &Observations::of(&o)).unwrap();
        assert!((found.settings[0].change["work_rate"] - 1.0).abs() < 1e-9, "{found:?}");
        assert_eq!(found.settings[0].change["allocated_bytes"], -0.5);
        assert!(found.noise["work_rate"] > 0.0 && found.noise["allocated_bytes"] == 0.0);
    }
}
