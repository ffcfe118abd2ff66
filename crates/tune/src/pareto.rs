//! The Pareto set: the tried settings that no other dominates in work rate, space and bytes written.

use std::collections::BTreeMap;

use poolwright_base::stats::{median, t975};
use poolwright_report::Better;

use crate::candidates::difference;
use crate::observations::Observations;
use poolwright_plan::{Evidence, EvidenceKind, MetricName, Outcome, Pareto, ParetoSetting, Role, Settings};

/// The metrics by which settings are compared; a metric that is missing is replaced by its stand-in.
pub(crate) const METRICS: &[MetricName] =
    &[MetricName::WorkRate, MetricName::AllocatedBytes, MetricName::VdevWriteBytes];

/// A smaller relative difference is none, whatever the noise: two runs of one setting may take so much more space.
const SAME: f64 = 0.005;

/// The Pareto set of a role's trials, those of the confirmation among them; `evidence` says what became of each setting.
/// `None` for fewer than two settings.
pub(crate) fn pareto(
    role: Role,
    today: &Settings,
    evidence: &[Evidence],
    observations: &Observations,
) -> Option<Pareto> {
    let names: Vec<&MetricName> = METRICS.iter().filter_map(|m| observations.name(m)).collect();
    let done = |e: &&Evidence| e.kind == EvidenceKind::Trial && e.outcome != Outcome::Failed;
    let tried: Vec<Contender<'_>> =
        evidence.iter().filter(done).filter_map(|e| Contender::new(e, observations, &names)).collect();
    let reference = tried.iter().find(|c| c.evidence.outcome == Outcome::Current)?;
    if tried.len() < 2 {
        return None;
    }
    let noise: BTreeMap<MetricName, (f64, usize)> =
        names.iter().filter_map(|m| Some(((*m).clone(), observations.deviation(m)?))).collect();
    let contest = Contest { names, noise };
    let unbeaten = contest.unbeaten(&tried, reference);
    let mut settings: Vec<ParetoSetting> = unbeaten.iter().map(|c| c.entry(reference, today)).collect();
    let beaten = (tried.len() - settings.len()) as u32;
    let rate = |s: &ParetoSetting| {
        contest.names.first().and_then(|name| s.metrics.get(*name)).copied().unwrap_or(0.0)
    };
    settings.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let noise = contest.noise.iter().map(|(m, (deviation, _))| (m.clone(), deviation.exp() - 1.0)).collect();
    Some(Pareto { role, noise, settings, beaten })
}

/// A tried setting.
struct Contender<'a> {
    evidence: &'a Evidence,
    trials: u32,
    /// Metric → median.
    medians: BTreeMap<MetricName, f64>,
}

impl<'a> Contender<'a> {
    fn new(
        evidence: &'a Evidence,
        observations: &Observations,
        names: &[&MetricName],
    ) -> Option<Contender<'a>> {
        let tried = observations.find(&evidence.settings)?;
        let middle = |name: &&MetricName| {
            let median = median(&tried.logs(name)).exp();
            median.is_finite().then(|| ((*name).clone(), median))
        };
        let medians = names.iter().filter_map(middle).collect();
        Some(Contender { evidence, trials: tried.trials.len() as u32, medians })
    }

    fn entry(&self, reference: &Contender<'_>, today: &Settings) -> ParetoSetting {
        let change = |(name, median): (&MetricName, &f64)| {
            let change = median / reference.medians.get(name)? - 1.0;
            change.is_finite().then(|| (name.clone(), change))
        };
        ParetoSetting {
            changes: difference(&self.evidence.settings, today),
            trials: self.trials,
            metrics: self.medians.clone(),
            change: self.medians.iter().filter_map(change).collect(),
            outcome: self.evidence.outcome,
        }
    }
}

/// The metrics that count, and the deviation of a trial's logarithm with its degrees of freedom.
struct Contest<'a> {
    names: Vec<&'a MetricName>,
    noise: BTreeMap<MetricName, (f64, usize)>,
}

impl Contest<'_> {
    /// The settings of the set: from the best on the whole down, each joins unless a member beats it. So every setting that is
    /// left out is beaten by one of the set, although "beats" is not transitive: what beats a setting by a single noisy
    /// trial, and is beaten itself, does not keep it out.
    fn unbeaten<'t, 'e>(
        &self,
        tried: &'t [Contender<'e>],
        reference: &Contender<'_>,
    ) -> Vec<&'t Contender<'e>> {
        let whole =
            |c: &Contender<'_>| self.names.iter().filter_map(|m| self.gain(m, c, reference)).sum::<f64>();
        let mut order: Vec<&Contender<'_>> = tried.iter().collect();
        order.sort_by(|a, b| whole(b).total_cmp(&whole(a)));
        let mut set: Vec<&Contender<'_>> = Vec::new();
        for contender in order {
            if !set.iter().any(|member| self.beats(member, contender)) {
                set.push(contender);
            }
        }
        set
    }

    /// By how much `a` is better than `b`, as a difference of logarithms.
    fn gain(&self, metric: &MetricName, a: &Contender<'_>, b: &Contender<'_>) -> Option<f64> {
        let log = (a.medians.get(metric)? / b.medians.get(metric)?).ln();
        Some(match metric.better() {
            Better::Higher => log,
            Better::Lower => -log,
        })
    }

    /// Whether `a`, which is better on the whole, is better beyond the noise in something and worse beyond it in nothing.
    fn beats(&self, a: &Contender<'_>, b: &Contender<'_>) -> bool {
        let mut better = false;
        for name in &self.names {
            let Some(gain) = self.gain(name, a, b) else { return false };
            let least = self.least(name, a.trials, b.trials);
            if gain < -least {
                return false;
            }
            better |= gain > least;
        }
        better
    }

    /// The smallest difference of logarithms that counts between medians of so many trials.
    fn least(&self, name: &MetricName, a: u32, b: u32) -> f64 {
        let trials = |n: u32| 1.0 / f64::from(n.max(1));
        let noise = self.noise.get(name).map_or(0.0, |(deviation, freedom)| {
            t975(*freedom as f64) * deviation * (trials(a) + trials(b)).sqrt()
        });
        noise.max(SAME)
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
        let found = pareto(Role::Data, &today(), &evidence, &Observations::of(&o)).unwrap();
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
    fn what_is_beaten_itself_keeps_nothing_out() {
        // A single trial of 64K beats today's by its space, its loss of work rate is inside its noise. 16K beats 64K, but not
        // today's: with as many trials its loss is clear.
        let today: Row<'_> = (&[], &[(1.0, 100.0, 100.0), (1.06, 100.0, 100.0), (1.03, 100.0, 100.0)]);
        let small: Row<'_> =
            (&[("recordsize", "16K")], &[(0.91, 50.0, 90.0), (0.97, 50.0, 90.0), (0.94, 50.0, 90.0)]);
        let wide: Row<'_> = (&[("recordsize", "64K")], &[(0.96, 60.0, 95.0)]);
        assert_eq!(set(&[today, small, wide]), (vec!["today".into(), "16K".into()], 1));
    }

    #[test]
    fn trials_of_the_confirmation_count() {
        // By the race alone 2 % is inside the noise; five pairs more show it.
        let mut o = outcome(&[TODAY, (&[("recordsize", "64K")], &[(0.99, 100.0, 101.0)])]);
        let evidence = evidence::collect(Some(&o), false, &[], &today(), Goal::Balanced, 12);
        assert_eq!(pareto(Role::Data, &today(), &evidence, &Observations::of(&o)).unwrap().beaten, 0);
        let (mut a, mut b) = (o.today.trials[0].clone(), o.others[0].trials[0].clone());
        a.insert(MetricName::WorkRate, 1.01);
        b.insert(MetricName::WorkRate, 0.97);
        o.best = Some(0);
        o.pairs = vec![(a, b); 9];
        let found = pareto(Role::Data, &today(), &evidence, &Observations::of(&o)).unwrap();
        assert_eq!((found.beaten, found.settings[0].trials), (1, 11));
    }

    #[test]
    fn changes_are_against_today_and_the_noise_is_said() {
        let o = outcome(&[TODAY, (&[("recordsize", "16K")], &[(2.02, 50.0, 50.5)])]);
        let evidence = evidence::collect(Some(&o), false, &[], &today(), Goal::Balanced, 12);
        let found = pareto(Role::Data, &today(), &evidence, &Observations::of(&o)).unwrap();
        assert!((found.settings[0].change[&MetricName::WorkRate] - 1.0).abs() < 1e-3, "{found:?}");
        assert!((found.settings[0].change[&MetricName::AllocatedBytes] + 0.5).abs() < 1e-9);
        assert!(found.noise[&MetricName::WorkRate] > 0.0 && found.noise[&MetricName::AllocatedBytes] == 0.0);
    }
}
