//! Races settings against today's: interleaved rounds, the slower half dropped after each, a fresh confirmation last.

use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_replay::Replay;

use crate::candidates::difference;
use crate::objective::{Metrics, metrics};
use crate::requirement::Criteria;
use crate::statistics::{Change, median, paired_change, t975};
use crate::{Error, Result};

/// A setting and what its trials gave.
#[derive(Clone, Debug)]
pub struct Runner {
    /// What was tried.
    pub settings: Settings,
    /// One entry per trial that gave a result, in order.
    pub trials: Vec<Metrics>,
    /// Why a trial gave none.
    pub failures: Vec<String>,
}

impl Runner {
    /// Ready to start.
    pub fn new(settings: Settings) -> Runner {
        Runner { settings, trials: Vec::new(), failures: Vec::new() }
    }

    /// Medians over the trials.
    pub fn median(&self) -> Metrics {
        let mut all = Metrics::new();
        let names: std::collections::BTreeSet<&String> = self.trials.iter().flat_map(|t| t.keys()).collect();
        for name in names {
            let values: Vec<f64> = self.trials.iter().filter_map(|t| t.get(name).copied()).collect();
            all.insert(name.clone(), median(&values));
        }
        all
    }
}

/// How hard to try.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wall time for the race.
    pub budget: Duration,
    /// Interleaved pairs of the confirmation, at least 2.
    pub pairs: u32,
    /// Wall time that a trial takes, as far as it is known.
    pub trial: Duration,
}

/// What a race found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Today's, with the trials of the elimination rounds.
    pub today: Runner,
    /// All others, likewise.
    pub others: Vec<Runner>,
    /// Index into `others` of the one that went into the confirmation.
    pub best: Option<usize>,
    /// Why a setting with a better median is not the one that was confirmed.
    pub left_out: Option<String>,
    /// The pairs of the confirmation: today's and the best one's metrics, side by side in time.
    pub pairs: Vec<(Metrics, Metrics)>,
    /// The objective's change in the confirmation; below 0 is better than today.
    pub change: Option<Change>,
    /// Trials run.
    pub trials: u64,
}

impl Outcome {
    /// Whether the best beat today's beyond noise, and by more than `worthwhile` (a fraction).
    pub fn is_better(&self, worthwhile: f64) -> bool {
        self.change.is_some_and(|c| c.ci95.1 < 0.0 && c.change <= -worthwhile)
    }
}

/// A race in progress: how a trial is run, and what time is left.
pub struct Race<'a> {
    /// Runs one trial of a setting.
    pub run: &'a mut dyn FnMut(&Settings) -> Result<Replay>,
    /// What counts.
    pub criteria: Criteria<'a>,
    /// How hard to try.
    pub limits: Limits,
}

impl Race<'_> {
    /// Races `candidates` against `today`. The order within a round alternates, so that nobody always runs first.
    pub fn race(
        &mut self,
        today: Settings,
        candidates: Vec<Settings>,
        refinements: &[Settings],
    ) -> Result<Outcome> {
        let began = Instant::now();
        let mut o = Outcome {
            today: Runner::new(today),
            others: candidates.into_iter().map(Runner::new).collect(),
            best: None,
            left_out: None,
            pairs: Vec::new(),
            change: None,
            trials: 0,
        };
        let mut alive: Vec<usize> = (0..o.others.len()).collect();
        let mut round = 0;
        loop {
            self.round(&mut o, &mut alive, round, began)?;
            if o.today.trials.is_empty() {
                let why = o.today.failures.last().cloned().unwrap_or_default();
                return Err(Error::Nothing(format!("today's settings could not be measured: {why}")));
            }
            self.rank(&o, &mut alive);
            round += 1;
            let half = alive.len().div_ceil(2).max(2);
            if alive.len() <= 1 || round >= 4 || !self.has_time_for(half + 1, began) {
                break;
            }
            alive.truncate(half);
        }
        if let Some(&best) = alive.first() {
            let refined = self.refine(&mut o, best, refinements, began)?;
            let best = simplest(&o, refined, &self.criteria);
            if best != refined {
                o.left_out = Some(left_out(&o, refined, best));
            }
            o.best = Some(best);
            self.confirm(&mut o, best, began)?;
        }
        Ok(o)
    }

    /// Whether so many trials fit into the budget before the confirmation.
    fn has_time_for(&self, trials: usize, began: Instant) -> bool {
        let trials = trials as u32 + 2 * self.limits.pairs;
        began.elapsed() + self.limits.trial * trials <= self.limits.budget
    }

    fn trial(&mut self, o: &mut Outcome, who: Option<usize>) -> Result<()> {
        let runner = match who {
            None => &mut o.today,
            Some(i) => &mut o.others[i],
        };
        o.trials += 1;
        match (self.run)(&runner.settings) {
            Ok(replay) => runner.trials.push(metrics(&replay)),
            Err(error) if error.is_interruption() => return Err(error),
            Err(error) => runner.failures.push(error.to_string()),
        }
        Ok(())
    }

    fn round(&mut self, o: &mut Outcome, alive: &mut Vec<usize>, round: usize, began: Instant) -> Result<()> {
        let mut order: Vec<Option<usize>> =
            std::iter::once(None).chain(alive.iter().copied().map(Some)).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for who in order {
            // The first round may not use the whole budget: the model ranked the candidates, the last ones are left out. Today's
            // settings and the first candidate are tried in any case.
            if who.is_none_or(|i| Some(&i) == alive.first()) || self.has_time_for(1, began) {
                self.trial(o, who)?;
            }
        }
        alive.retain(|i| !o.others[*i].trials.is_empty() && o.others[*i].failures.is_empty());
        Ok(())
    }

    fn rank(&self, o: &Outcome, alive: &mut [usize]) {
        let today = o.today.median();
        let score = |i: &usize| self.criteria.objective(&o.others[*i].median(), &today);
        alive.sort_by(|a, b| score(a).total_cmp(&score(b)));
    }

    /// Each refinement alone on top of the best, against a fresh trial of the best; the better one stays.
    fn refine(
        &mut self,
        o: &mut Outcome,
        best: usize,
        refinements: &[Settings],
        began: Instant,
    ) -> Result<usize> {
        let mut best = best;
        for refinement in refinements {
            if !self.has_time_for(2, began) {
                break;
            }
            let settings = crate::candidates::with(&o.others[best].settings, refinement);
            if crate::candidates::same(&settings, &o.others[best].settings) {
                continue;
            }
            o.others.push(Runner::new(settings));
            let new = o.others.len() - 1;
            // A property that is not needed is not set: it has to bring 3 % in both of its trials, and gets a second
            // one only if it did in the first.
            let mut clear = 0;
            for _ in 0..2 {
                self.trial(o, Some(new))?;
                let today = o.today.median();
                let score = self.criteria.objective(&o.others[best].median(), &today);
                let last =
                    o.others[new].trials.last().map_or(f64::MAX, |t| self.criteria.objective(t, &today));
                if last > 0.97 * score {
                    break;
                }
                clear += 1;
                self.trial(o, Some(best))?;
            }
            if clear == 2 {
                best = new;
            }
        }
        Ok(best)
    }

    /// Fresh pairs: the trials that chose the best are not the ones that judge it.
    fn confirm(&mut self, o: &mut Outcome, best: usize, began: Instant) -> Result<()> {
        for pair in 0..self.limits.pairs {
            if pair >= 3 && began.elapsed() > self.limits.budget {
                break;
            }
            let today = o.today.settings.clone();
            let other = o.others[best].settings.clone();
            let (a, b) = if pair % 2 == 0 {
                let a = self.fresh(o, &today)?;
                (a, self.fresh(o, &other)?)
            } else {
                let b = self.fresh(o, &other)?;
                (self.fresh(o, &today)?, b)
            };
            if let (Some(a), Some(b)) = (a, b) {
                o.pairs.push((a, b));
            }
        }
        let scores: Vec<(f64, f64)> =
            o.pairs.iter().map(|(a, b)| (1.0, self.criteria.goal.objective(b, a))).collect();
        o.change = paired_change(&scores);
        Ok(())
    }

    fn fresh(&mut self, o: &mut Outcome, settings: &Settings) -> Result<Option<Metrics>> {
        o.trials += 1;
        match (self.run)(settings) {
            Ok(replay) => Ok(Some(metrics(&replay))),
            Err(error) if error.is_interruption() => Err(error),
            Err(_) => Ok(None), // the caller of the trial has said why
        }
    }
}

/// Of `best` and the raced settings that change a part of what `best` changes, the one that changes least among those
/// within the noise of `best`. A setting with a single trial is not known well enough to be preferred.
fn simplest(o: &Outcome, best: usize, criteria: &Criteria<'_>) -> usize {
    let today = o.today.median();
    let Some((deviation, freedom)) = noise(o, criteria, &today) else { return best };
    let log = |i: usize| criteria.objective(&o.others[i].median(), &today).ln();
    let changes = |i: usize| difference(&o.others[i].settings, &o.today.settings);
    let trials = |i: usize| o.others[i].trials.len();
    if trials(best) < 2 {
        return best;
    }
    let (reference, all) = (log(best), changes(best));
    let within = |i: usize| {
        let some = changes(i);
        let part =
            !some.is_empty() && some.len() < all.len() && some.iter().all(|(k, v)| all.get(k) == Some(v));
        let error = deviation * (1.0 / trials(best) as f64 + 1.0 / trials(i).max(1) as f64).sqrt();
        part && trials(i) >= 2 && log(i) - reference <= t975(freedom) * error
    };
    let simpler = (0..o.others.len()).filter(|i| within(*i));
    simpler
        .min_by(|a, b| (changes(*a).len().cmp(&changes(*b).len())).then(log(*a).total_cmp(&log(*b))))
        .unwrap_or(best)
}

/// The standard deviation of a trial's objective, as a logarithm, and its degrees of freedom: pooled over all settings
/// that were tried more than once. `None` where none was.
fn noise(o: &Outcome, criteria: &Criteria<'_>, today: &Metrics) -> Option<(f64, usize)> {
    let (mut squares, mut freedom) = (0.0, 0);
    for runner in std::iter::once(&o.today).chain(&o.others).filter(|r| r.trials.len() > 1) {
        let logs: Vec<f64> = runner.trials.iter().map(|t| criteria.goal.objective(t, today).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        squares += logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
        freedom += logs.len() - 1;
    }
    (freedom > 0).then(|| ((squares / freedom as f64).sqrt(), freedom))
}

/// What is said of a setting that lost to a simpler one.
fn left_out(o: &Outcome, refined: usize, chosen: usize) -> String {
    let more = difference(&o.others[refined].settings, &o.others[chosen].settings);
    let more: Vec<String> = more.iter().map(|(k, v)| format!("{k}={v}")).collect();
    format!("{} is left out: what it brings lies within the noise of the trials", more.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Goal;

    const BALANCED: Criteria<'static> = Criteria { goal: Goal::Balanced, requirements: &[] };

    use poolwright_replay::result::Replay;
    use rand::{RngExt, SeedableRng};

    fn setting(recordsize: u32) -> Settings {
        Settings::from([
            ("recordsize".into(), format!("{recordsize}K")),
            ("compression".into(), "lz4".into()),
        ])
    }

    /// A trial whose true cost is |log2(recordsize / 16K)| and whose clock is noisy.
    fn noisy(seed: u64, noise: f64) -> impl FnMut(&Settings) -> Result<Replay> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        move |settings| {
            let (recordsize, _) = crate::candidates::of_interest(settings);
            let cost = 1.0 + (recordsize as f64 / 16384.0).log2().abs();
            let clock = (noise * (rng.random::<f64>() - 0.5) * 2.0).exp();
            Ok(Replay {
                ops: 1000,
                allocated_bytes: 1_000_000,
                logical_bytes: 2_000_000,
                work_rate: Some(1.0 / (cost * clock)),
                write_amplification: Some(cost),
                ..Replay::default()
            })
        }
    }

    fn race(seed: u64, noise: f64, today: u32, candidates: &[u32]) -> Outcome {
        let mut run = noisy(seed, noise);
        let limits = Limits { budget: Duration::from_secs(60), pairs: 5, trial: Duration::ZERO };
        let mut race = Race { run: &mut run, criteria: BALANCED, limits };
        race.race(setting(today), candidates.iter().map(|r| setting(*r)).collect(), &[]).unwrap()
    }

    #[test]
    fn the_best_is_found_under_noise() {
        for seed in 0..20 {
            let o = race(seed, 0.2, 128, &[4, 8, 16, 32, 64, 256, 512, 1024]);
            assert_eq!(o.others[o.best.unwrap()].settings["recordsize"], "16K", "seed {seed}");
            assert!(o.is_better(0.03));
        }
    }

    #[test]
    fn no_winner_is_made_up_when_today_is_best() {
        let better = (0..50).filter(|seed| race(*seed, 0.2, 16, &[4, 8, 32, 64]).is_better(0.03)).count();
        assert_eq!(better, 0);
    }

    #[test]
    fn equal_settings_are_noise() {
        // 16K against 16K under another name: the confirmation's pairs are fresh, so choosing the luckiest of the
        // first rounds does not count.
        let better = (0..200).filter(|seed| race(*seed, 0.3, 16, &[16, 16, 16]).is_better(0.0)).count();
        assert!(better <= 12, "{better} of 200 races found a winner among equals");
    }

    /// Property and value.
    type Changes = &'static [(&'static str, &'static str)];

    /// An outcome whose settings took these space figures, today's 100.
    fn outcome(tried: &[(Changes, &[f64])]) -> Outcome {
        let runner = |settings: Settings, space: &[f64]| Runner {
            settings,
            trials: space.iter().map(|v| Metrics::from([("allocated_bytes".into(), *v)])).collect(),
            failures: Vec::new(),
        };
        let today = setting(128);
        let with = |changes: Changes| {
            let changes = changes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            crate::candidates::with(&today, &changes)
        };
        Outcome {
            today: runner(today.clone(), &[99.0, 101.0, 100.0]),
            others: tried.iter().map(|(changes, space)| runner(with(changes), space)).collect(),
            best: None,
            left_out: None,
            pairs: Vec::new(),
            change: None,
            trials: 0,
        }
    }

    #[test]
    fn a_property_that_wins_by_less_than_the_noise_is_left_out() {
        const PLAIN: Changes = &[("recordsize", "16K")];
        const MORE: Changes = &[("recordsize", "16K"), ("primarycache", "metadata")];
        let o = outcome(&[(PLAIN, &[46.5, 47.5, 47.0]), (MORE, &[45.0, 47.0, 46.0])]);
        assert_eq!(simplest(&o, 1, &BALANCED), 0, "0.46 against 0.47");
        assert!(
            left_out(&o, 1, 0).starts_with("primarycache=metadata is left out"),
            "{}",
            left_out(&o, 1, 0)
        );
        // What it brings is beyond the noise.
        let o = outcome(&[(PLAIN, &[46.5, 47.5, 47.0]), (MORE, &[38.0, 39.0, 38.5])]);
        assert_eq!(simplest(&o, 1, &BALANCED), 1);
        // As good, but another setting and no simpler one; a single trial; nothing is known of the noise.
        let o = outcome(&[(&[("recordsize", "8K")], &[46.5, 47.5, 47.0]), (MORE, &[45.0, 47.0, 46.0])]);
        assert_eq!(simplest(&o, 1, &BALANCED), 1);
        let o = outcome(&[(PLAIN, &[47.0]), (MORE, &[45.0, 47.0, 46.0])]);
        assert_eq!(simplest(&o, 1, &BALANCED), 1);
        let mut o = outcome(&[(PLAIN, &[47.0]), (MORE, &[46.0])]);
        o.today.trials.truncate(1);
        assert_eq!(simplest(&o, 1, &BALANCED), 1);
    }

    #[test]
    fn a_failing_candidate_is_dropped_and_a_failing_today_is_an_error() {
        let mut good = noisy(1, 0.0);
        let mut run = |settings: &Settings| {
            if settings["recordsize"] == "16K" {
                Err(Error::Nothing("out of order".into()))
            } else {
                good(settings)
            }
        };
        let limits = Limits { budget: Duration::from_secs(60), pairs: 2, trial: Duration::ZERO };
        let mut one = Race { run: &mut run, criteria: BALANCED, limits };
        let o = one.race(setting(128), vec![setting(16), setting(32)], &[]).unwrap();
        assert_eq!(o.others[o.best.unwrap()].settings["recordsize"], "32K");
        assert_eq!(o.others[0].failures, ["out of order"]);
        let error = one.race(setting(16), vec![setting(32)], &[]).unwrap_err().to_string();
        assert!(error.contains("out of order"), "{error}");
    }
}
