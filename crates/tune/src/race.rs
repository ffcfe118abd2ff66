//! Races settings against today's: a sequential search guided by the model and by the previous trials, then single
//! properties on top of the best setting, then a confirmation in fresh trials. docs/method.md ("The race") describes
//! the method and its constants.

use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_replay::child::Ended as TrialEnd;
use poolwright_stats::{Deviation, PairedRatio, RelativeChange, median, t975};

use crate::candidates::{assignments, difference, same, with};
use crate::objective::{Metrics, metrics};
use crate::requirement::Criteria;
use crate::scatter::Scatter;
use crate::{Error, Result};

mod search;
#[cfg(test)]
mod tests;

/// Number of fresh trials of today's settings and of the best in the confirmation. On the virtual clock, trials of one setting
/// differ by less than 1 %, so more of them hardly narrow the interval.
pub(crate) const PAIRS: u32 = 2;
/// Trials that a setting needs before it can be confirmed or preferred.
const REPEATS: usize = 2;
/// A property is needed if the objective without it is worse by this factor; no second trial is then required.
const NEEDED: f64 = 1.05;
/// A refinement is better if it multiplies the objective by at most this factor.
const AHEAD: f64 = 0.97;
/// A setting whose trial takes this many times as long as today's is not considered when reserving time for further
/// trials.
const SLOWER: f64 = 1.5;
/// A property is not tried if the model predicts that it worsens the objective by this factor.
const HOPELESS: f64 = 1.1;

/// A setting and the results of its trials.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The setting that was tried.
    pub settings: Settings,
    /// The metrics of each trial that gave a result, in order.
    pub trials: Vec<Metrics>,
    /// The error of each trial that gave no result.
    pub failures: Vec<String>,
    /// Wall time of the longest trial.
    pub longest: Duration,
}

impl Runner {
    /// Creates a runner without trials.
    pub fn new(settings: Settings) -> Runner {
        Runner { settings, trials: Vec::new(), failures: Vec::new(), longest: Duration::ZERO }
    }

    /// Returns the median of each metric over the trials.
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

/// The limits of a race.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Wall time for the race.
    pub budget: Duration,
    /// Expected wall time of a trial of today's settings.
    pub trial: Duration,
    /// Number of trials that run at the same time.
    pub side_by_side: usize,
}

/// A setting that may be tried.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Its properties.
    pub settings: Settings,
    /// The objective that the model predicts, relative to today's (1).
    pub predicted: f64,
    /// The factor for requirements that the model predicts to be missed ([`Criteria::penalty`]).
    pub penalty: f64,
}

/// Why a race stopped trying settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// No setting is likely to be better than the best one found, or all were tried.
    #[default]
    Found,
    /// The time was used up.
    OutOfTime,
}

/// The result of a race.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Today's settings, with the trials of the search.
    pub today: Runner,
    /// All other settings, with the trials of the search.
    pub others: Vec<Runner>,
    /// Index into `others` of the setting that was confirmed.
    pub best: Option<usize>,
    /// Why a setting with a better median was not confirmed.
    pub left_out: Option<String>,
    /// The confirmation: today's metrics and those of the best setting.
    pub pairs: Vec<(Metrics, Metrics)>,
    /// The objective's change in the confirmation; below 0 is better than today.
    pub change: Option<RelativeChange>,
    /// Why the search ended.
    pub ended: Ended,
    /// Number of trials run.
    pub trials: u64,
}

impl Outcome {
    /// Creates an outcome without trials.
    pub fn new(today: Runner) -> Outcome {
        Outcome {
            today,
            others: Vec::new(),
            best: None,
            left_out: None,
            pairs: Vec::new(),
            change: None,
            ended: Ended::default(),
            trials: 0,
        }
    }

    /// Whether the best setting is better than today's beyond noise, and by at least `worthwhile` (a fraction).
    pub fn is_better(&self, worthwhile: f64) -> bool {
        self.change.is_some_and(|c| c.ci95.1 < 0.0 && c.change <= -worthwhile)
    }

    /// Returns the variance of a trial's metrics within a setting, over all settings that were tried more than
    /// once.
    pub fn scatter(&self) -> Scatter {
        Scatter::of(self.all_trials().iter().map(Vec::as_slice))
    }

    /// Returns the trials of each setting, including those of the confirmation; today's first.
    fn all_trials(&self) -> Vec<Vec<Metrics>> {
        let mut all: Vec<Vec<Metrics>> =
            std::iter::once(&self.today).chain(&self.others).map(|r| r.trials.clone()).collect();
        all[0].extend(self.pairs.iter().map(|(today, _)| today.clone()));
        if let Some(best) = self.best {
            all[1 + best].extend(self.pairs.iter().map(|(_, best)| best.clone()));
        }
        all
    }
}

/// A race in progress: the function that runs a trial, the criteria and the limits.
pub struct Race<'a> {
    /// Runs one trial of each of these settings, at most [`Limits::side_by_side`], at the same time.
    pub run: &'a mut dyn FnMut(&[Settings]) -> Vec<TrialEnd>,
    /// Returns the objective that the model predicts for a setting, relative to today's (1).
    pub predict: &'a dyn Fn(&Settings) -> Result<f64>,
    /// The goal and the requirements.
    pub criteria: Criteria<'a>,
    /// The limits of the race.
    pub limits: Limits,
}

impl Race<'_> {
    /// Searches `candidates` for the best, tries each of `refinements` on top of it, and confirms the result
    /// against today's settings in fresh pairs. `today` may already have trials.
    ///
    /// # Errors
    ///
    /// Fails if the user interrupts the race, or if no trial of today's settings succeeds.
    pub fn race(
        &mut self,
        today: Runner,
        candidates: Vec<Candidate>,
        refinements: &[Settings],
    ) -> Result<Outcome> {
        let o = self.start(today)?;
        self.race_on(o, candidates, refinements)
    }

    /// Starts a race with a trial of today's settings, unless they have one.
    ///
    /// # Errors
    ///
    /// As for [`Race::race`].
    pub fn start(&mut self, today: Runner) -> Result<Outcome> {
        let began = Instant::now();
        let mut o = Outcome::new(today);
        if o.today.trials.is_empty() {
            self.trial(&mut o, None)?;
        }
        self.limits.budget = self.limits.budget.saturating_sub(began.elapsed());
        if o.today.trials.is_empty() {
            let why = o.today.failures.last().cloned().unwrap_or_default();
            return Err(Error::Nothing(format!("cannot measure today's settings: {why}")));
        }
        Ok(o)
    }

    /// Runs one trial of a setting before the search. Returns whether it gave a result.
    ///
    /// # Errors
    ///
    /// Fails if the user interrupts the trial, or if the model fails.
    pub fn try_first(&mut self, o: &mut Outcome, settings: &Settings) -> Result<bool> {
        let began = Instant::now();
        o.others.push(Runner::new(settings.clone()));
        let new = o.others.len() - 1;
        self.trial(o, Some(new))?;
        self.limits.budget = self.limits.budget.saturating_sub(began.elapsed());
        Ok(!o.others[new].trials.is_empty())
    }

    /// Continues a race after [`Race::start`] and [`Race::try_first`].
    ///
    /// # Errors
    ///
    /// Fails if the user interrupts the race, or if the model fails.
    pub fn race_on(
        &mut self,
        mut o: Outcome,
        candidates: Vec<Candidate>,
        refinements: &[Settings],
    ) -> Result<Outcome> {
        let began = Instant::now();
        let best = search::search(self, &mut o, candidates, began)?;
        if let Some(best) = best {
            let refined = self.refine(&mut o, best, refinements, began)?;
            self.try_parts(&mut o, refined, began)?;
            let best = simplest(&o, refined, &self.criteria);
            if best != refined {
                o.left_out = Some(left_out(&o, refined, best));
            }
            o.best = Some(best);
            self.confirm(&mut o, best)?;
        }
        Ok(o)
    }

    /// Whether `trials` more trials fit into the budget before the confirmation, whose pairs include the best
    /// setting so far. Other slow settings do not count, because they are unlikely to be tried again.
    fn has_time_for(&self, o: &Outcome, trials: usize, began: Instant) -> bool {
        let today = o.today.longest.max(self.limits.trial);
        let longest = o.others.iter().map(|r| r.longest).filter(|t| *t <= today.mul_f64(SLOWER)).max();
        let trial = longest.unwrap_or_default().max(today);
        let best = self.best_so_far(o).map_or(trial, |best| best.longest.max(trial));
        let batches = |trials: usize| trials.div_ceil(self.limits.side_by_side) as u32;
        let confirmation = match self.limits.side_by_side {
            1 => (trial + best) * PAIRS,
            _ => best * batches(2 * PAIRS as usize),
        };
        began.elapsed() + trial * batches(trials) + confirmation <= self.limits.budget
    }

    /// Returns the setting with the lowest objective below 1 that gave a result, excluding today's.
    fn best_so_far<'o>(&self, o: &'o Outcome) -> Option<&'o Runner> {
        let today = o.today.median();
        let tried = o.others.iter().filter(|r| !r.trials.is_empty());
        let scored = tried.map(|r| (self.criteria.objective(&r.median(), &today), r));
        scored.filter(|(score, _)| *score < 1.0).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, r)| r)
    }

    fn trial(&mut self, o: &mut Outcome, of: Option<usize>) -> Result<()> {
        self.trials(o, &[of])
    }

    /// Runs one trial of each of these settings: today's (`None`) or others.
    fn trials(&mut self, o: &mut Outcome, of: &[Option<usize>]) -> Result<()> {
        for batch in of.chunks(self.limits.side_by_side) {
            let settings = |of: &Option<usize>| of.map_or(&o.today, |i| &o.others[i]).settings.clone();
            let settings: Vec<Settings> = batch.iter().map(settings).collect();
            for (of, (result, took)) in batch.iter().zip((self.run)(&settings)) {
                o.trials += 1;
                let runner = of.map_or(&mut o.today, |i| &mut o.others[i]);
                match result {
                    Ok(replay) => runner.trials.push(metrics(&replay)),
                    Err(error) if error.ends_the_run() => return Err(error.into()),
                    Err(error) => runner.failures.push(error.to_string()),
                }
                runner.longest = runner.longest.max(took);
            }
        }
        Ok(())
    }

    /// Tries each refinement alone on top of the best setting. Returns the best setting.
    fn refine(
        &mut self,
        o: &mut Outcome,
        best: usize,
        refinements: &[Settings],
        began: Instant,
    ) -> Result<usize> {
        let mut best = best;
        let mut left = self.promising(&o.others[best].settings, refinements)?;
        while !left.is_empty() {
            let batch: Vec<&Settings> = left.drain(..left.len().min(self.limits.side_by_side)).collect();
            if !self.has_time_for(o, batch.len() + 1, began) {
                o.ended = Ended::OutOfTime;
                break;
            }
            let mut tried = Vec::new();
            for refinement in batch {
                let settings = with(&o.others[best].settings, refinement);
                if !same(&settings, &o.others[best].settings) {
                    tried.push((o.others.len(), refinement));
                    o.others.push(Runner::new(settings));
                }
            }
            let all: Vec<Option<usize>> = tried.iter().map(|(new, _)| Some(*new)).collect();
            self.trials(o, &all)?;
            tried.retain(|(new, _)| self.is_ahead(o, *new, best));
            tried.sort_by(|a, b| self.score(o, a.0).total_cmp(&self.score(o, b.0)));
            let Some((new, _)) = tried.first().copied() else { continue };
            // A refinement must improve the objective in both of its trials, and gets a second one only if the first
            // one did (docs/method.md, "The race").
            self.trials(o, &[Some(best), Some(new)])?;
            if self.is_ahead(o, new, best) {
                best = new;
                left.splice(0..0, tried.into_iter().skip(1).map(|(_, refinement)| refinement));
            }
        }
        Ok(best)
    }

    /// The objective of a setting's median.
    fn score(&self, o: &Outcome, index: usize) -> f64 {
        self.criteria.objective(&o.others[index].median(), &o.today.median())
    }

    /// Whether the last trial of a setting improves the objective of another one by 3 %.
    fn is_ahead(&self, o: &Outcome, index: usize, best: usize) -> bool {
        let last = o.others[index].trials.last();
        last.is_some_and(|t| self.criteria.objective(t, &o.today.median()) <= AHEAD * self.score(o, best))
    }

    /// Tries the changes of `best` without each one of its properties, so that [`simplest`] knows whether that
    /// property is needed, as far as time allows.
    fn try_parts(&mut self, o: &mut Outcome, best: usize, began: Instant) -> Result<()> {
        let changes = difference(&o.others[best].settings, &o.today.settings);
        if changes.len() < 2 {
            return Ok(());
        }
        let without = |property: &String| {
            let mut part = changes.clone();
            part.remove(property);
            with(&o.today.settings, &part)
        };
        let parts: Vec<Settings> = changes.keys().map(without).collect();
        for _ in 0..REPEATS {
            let find = |o: &Outcome, part: &Settings| o.others.iter().position(|r| same(&r.settings, part));
            let is_missing = |part: &&Settings| {
                let is_done = |i: usize| o.others[i].trials.len() >= REPEATS || self.is_behind(o, i, best);
                !find(o, part).is_some_and(is_done)
            };
            let missing: Vec<&Settings> = parts.iter().filter(is_missing).collect();
            for batch in missing.chunks(self.limits.side_by_side) {
                if !self.has_time_for(o, batch.len(), began) {
                    o.ended = Ended::OutOfTime;
                    return Ok(());
                }
                let mut all = Vec::new();
                for part in batch {
                    all.push(Some(find(o, part).unwrap_or_else(|| {
                        o.others.push(Runner::new((*part).clone()));
                        o.others.len() - 1
                    })));
                }
                self.trials(o, &all)?;
            }
        }
        Ok(())
    }

    /// Whether a setting is clearly worse than another one, or failed.
    fn is_behind(&self, o: &Outcome, index: usize, best: usize) -> bool {
        let runner = &o.others[index];
        !runner.failures.is_empty()
            || (!runner.trials.is_empty() && self.score(o, index) > NEEDED * self.score(o, best))
    }

    /// Returns the refinements in order of their predicted objective, without those that the model predicts to
    /// be much worse.
    fn promising<'r>(&self, best: &Settings, refinements: &'r [Settings]) -> Result<Vec<&'r Settings>> {
        let reference = (self.predict)(best)?;
        let mut all = Vec::new();
        for refinement in refinements {
            let predicted = (self.predict)(&with(best, refinement))?;
            if predicted <= HOPELESS * reference {
                all.push((predicted, refinement));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        Ok(all.into_iter().map(|(_, refinement)| refinement).collect())
    }

    /// Runs fresh trials of today's settings and of the best, so that the trials that chose the best do not judge it. The scatter is
    /// that of all trials, because a few alone estimate it poorly.
    fn confirm(&mut self, o: &mut Outcome, best: usize) -> Result<()> {
        let pair = [o.today.settings.clone(), o.others[best].settings.clone()];
        let all: Vec<Settings> = pair.iter().cycle().take(2 * PAIRS as usize).cloned().collect();
        let mut fresh = Vec::new();
        for batch in all.chunks(self.limits.side_by_side) {
            for (result, _) in (self.run)(batch) {
                o.trials += 1;
                match result {
                    Ok(replay) => fresh.push(Some(metrics(&replay))),
                    Err(error) if error.ends_the_run() => return Err(error.into()),
                    Err(_) => fresh.push(None), // the function that runs the trial has added a warning
                }
            }
        }
        let complete = |pair: &[Option<Metrics>]| Some((pair.first()?.clone()?, pair.get(1)?.clone()?));
        o.pairs = fresh.chunks(2).filter_map(complete).collect();
        let scores: Vec<(f64, f64)> =
            o.pairs.iter().map(|(a, b)| (1.0, self.criteria.goal.objective(b, a))).collect();
        let noise = noise(o, &self.criteria, &o.today.median());
        o.change = PairedRatio::of_means(&scores, noise).and_then(|ratio| ratio.change());
        Ok(())
    }
}

/// Returns the simplest setting: among `best` and the raced settings that make only a part of its changes, the one
/// with the fewest changes whose objective is within the noise of `best`. A setting with a single trial is not
/// preferred.
fn simplest(o: &Outcome, best: usize, criteria: &Criteria<'_>) -> usize {
    let today = o.today.median();
    let Some(Deviation { deviation, freedom }) = noise(o, criteria, &today) else { return best };
    let log = |i: usize| criteria.objective(&o.others[i].median(), &today).ln();
    let changes = |i: usize| difference(&o.others[i].settings, &o.today.settings);
    let trials = |i: usize| o.others[i].trials.len();
    if trials(best) < REPEATS {
        return best;
    }
    let (reference, all) = (log(best), changes(best));
    let within = |i: usize| {
        let some = changes(i);
        let part =
            !some.is_empty() && some.len() < all.len() && some.iter().all(|(k, v)| all.get(k) == Some(v));
        let error = deviation * (1.0 / trials(best) as f64 + 1.0 / trials(i).max(1) as f64).sqrt();
        part && trials(i) >= REPEATS && log(i) - reference <= t975(freedom as f64) * error
    };
    let simpler = (0..o.others.len()).filter(|i| within(*i));
    simpler
        .min_by(|a, b| (changes(*a).len().cmp(&changes(*b).len())).then(log(*a).total_cmp(&log(*b))))
        .unwrap_or(best)
}

/// Returns the standard deviation of a trial's objective, pooled over all settings that were tried more than once,
/// or `None` if there are none.
fn noise(o: &Outcome, criteria: &Criteria<'_>, today: &Metrics) -> Option<Deviation> {
    let scores = |trials: Vec<Metrics>| trials.iter().map(|t| criteria.goal.objective(t, today)).collect();
    Deviation::within(o.all_trials().into_iter().map(scores))
}

/// Explains why a setting lost to a simpler one.
fn left_out(o: &Outcome, refined: usize, chosen: usize) -> String {
    let more = difference(&o.others[refined].settings, &o.others[chosen].settings);
    format!("{} is left out: its effect is within the noise of the trials", assignments(&more))
}
