//! Searches the settings of the roles that share a dataset, by trials alone: every record size with today's codec, every codec with the
//! best record sizes, the neighbours of the best setting, then single properties on top of it. A confirmation in fresh trials ends the
//! search. docs/derivations.md ("The search") describes the method and its constants.

use poolwright_base::stats::{Deviation, PairedRatio, RelativeChange};
use poolwright_openzfs::property::Settings;
use poolwright_replay::Replay;

use crate::candidates::{Candidates, assignments, block_size_and_compression, difference, same, with};
use crate::criteria::Criteria;
use crate::objective::{Metrics, medians, metrics};
use crate::scatter::Scatter;
use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// Number of fresh trials of today's settings and of the best in the confirmation. On the virtual clock, trials of one setting
/// differ by less than 1 %, so more of them hardly narrow the interval.
pub(crate) const PAIRS: u32 = 2;
/// Record sizes with which every codec is tried.
pub(crate) const BASES: usize = 2;
/// Record sizes beyond two in a row whose objective is worse than the best by this factor are not tried.
const MUCH_WORSE: f64 = 1.2;
/// A record size or codec replaces another one if it multiplies the objective by at most this factor.
const BETTER: f64 = 0.995;
/// A further property is recommended if it multiplies the objective by at most this factor.
const AHEAD: f64 = 0.97;
/// A change is left out of the recommendation if the objective without it is worse by at most this factor.
const NEEDED: f64 = 1.01;
/// Largest number of rounds of neighbours and single properties.
const ROUNDS: usize = 3;

/// A setting and the results of its trials.
#[derive(Clone, Debug)]
pub struct Runner {
    /// The setting that was tried.
    pub settings: Settings,
    /// The metrics of each trial that gave a result, in order.
    pub trials: Vec<Metrics>,
    /// The error of each trial that gave no result.
    pub failures: Vec<String>,
}

impl Runner {
    /// Creates a runner without trials.
    pub fn new(settings: Settings) -> Runner {
        Runner { settings, trials: Vec::new(), failures: Vec::new() }
    }

    /// Returns the median of each metric over the trials.
    pub fn median(&self) -> Metrics {
        medians(&self.trials)
    }
}

/// The limits of a race.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of batches of trials that run at the same time, including those of the confirmation.
    pub batches: usize,
    /// Number of trials that run at the same time.
    pub side_by_side: usize,
}

/// Why a race stopped trying settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ended {
    /// All settings that the method asks for were tried.
    #[default]
    Found,
    /// The trials of the budget were used up.
    OutOfTrials,
}

/// The result of a race.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Today's settings, with the trials of the search.
    pub today: Runner,
    /// All other settings, with the trials of the search.
    pub others: Vec<Runner>,
    /// Index into `others` of the setting that was confirmed; `None` if none is better than today's.
    pub best: Option<usize>,
    /// Why a setting with a better objective was not confirmed.
    pub left_out: Option<String>,
    /// The confirmation: today's metrics and those of the best setting.
    pub pairs: Vec<(Metrics, Metrics)>,
    /// The objective's change in the confirmation; below 0 is better than today.
    pub change: Option<RelativeChange>,
    /// Codecs that were not tried, because they would have taken too much of the time budget.
    pub too_slow: Vec<String>,
    /// Why the search ended.
    pub ended: Ended,
    /// Number of batches run.
    pub batches: usize,
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
            too_slow: Vec::new(),
            ended: Ended::default(),
            batches: 0,
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

    fn find(&self, settings: &Settings) -> Option<usize> {
        self.others.iter().position(|runner| same(&runner.settings, settings))
    }
}

/// A race in progress: the function that runs trials, the criteria and the limits.
pub struct Race<'a> {
    /// Runs one trial of each of these settings, at most [`Limits::side_by_side`], at the same time.
    pub run: &'a mut dyn FnMut(&[Settings]) -> Vec<poolwright_replay::Result<Replay>>,
    /// The goal and the requirements.
    pub criteria: Criteria<'a>,
    /// The limits of the race.
    pub limits: Limits,
}

impl Race<'_> {
    /// Searches `candidates` for the best setting, and confirms it against today's in fresh trials. `today` may already have trials.
    ///
    /// # Errors
    ///
    /// Fails if the user interrupts the race, or if no trial of today's settings succeeds.
    pub fn race(&mut self, today: Runner, candidates: &Candidates) -> Result<Outcome> {
        let mut o = Outcome::new(today);
        o.too_slow.clone_from(&candidates.too_slow);
        if o.today.trials.is_empty() {
            self.run_all(&mut o, &[None])?;
        }
        if o.today.trials.is_empty() {
            let why = o.today.failures.last().cloned().unwrap_or_default();
            return Err(Error::Nothing(format!("cannot measure today's settings: {why}")));
        }
        let mut search = Search { race: self, o: &mut o, candidates };
        let best = search.run()?;
        o.best = best;
        if let Some(best) = best {
            self.confirm(&mut o, best)?;
        }
        Ok(o)
    }

    /// Whether one more batch is left before the confirmation.
    fn has_batch_left(&self, o: &Outcome) -> bool {
        o.batches + 1 + (2 * PAIRS as usize).div_ceil(self.limits.side_by_side) <= self.limits.batches
    }

    /// The objective of a setting, or of today's (`None`), which is 1; infinite if its trial gave no result.
    fn score(&self, o: &Outcome, of: Option<usize>) -> f64 {
        score(&self.criteria, o, of)
    }

    /// Runs one trial of each of these settings: today's (`None`) or others.
    fn run_all(&mut self, o: &mut Outcome, of: &[Option<usize>]) -> Result<()> {
        let settings = |of: &Option<usize>| of.map_or(&o.today, |i| &o.others[i]).settings.clone();
        let settings: Vec<Settings> = of.iter().map(settings).collect();
        for (of, result) in of.iter().zip(self.in_batches(o, &settings)?) {
            let runner = of.map_or(&mut o.today, |i| &mut o.others[i]);
            match result {
                Ok(metrics) => runner.trials.push(metrics),
                Err(why) => runner.failures.push(why),
            }
        }
        Ok(())
    }

    /// Runs one trial of each of these settings. Returns the metrics of each, or why there are none.
    fn in_batches(
        &mut self,
        o: &mut Outcome,
        settings: &[Settings],
    ) -> Result<Vec<std::result::Result<Metrics, String>>> {
        let mut all = Vec::new();
        for batch in settings.chunks(self.limits.side_by_side) {
            o.batches += 1;
            for result in (self.run)(batch) {
                all.push(match result {
                    Ok(replay) => Ok(metrics(&replay)),
                    Err(error) if error.ends_the_run() => return Err(error.into()),
                    Err(error) => Err(error.to_string()),
                });
            }
        }
        Ok(all)
    }

    /// Runs fresh trials of today's settings and of the best, so that the trials that chose the best do not judge it. The interval uses the
    /// scatter of all trials of the race: these four alone would make it too wide.
    fn confirm(&mut self, o: &mut Outcome, best: usize) -> Result<()> {
        let pair = [o.today.settings.clone(), o.others[best].settings.clone()];
        let all: Vec<Settings> = pair.iter().cycle().take(2 * PAIRS as usize).cloned().collect();
        // The function that runs the trials has added a warning for each failure.
        let fresh: Vec<Option<Metrics>> =
            self.in_batches(o, &all)?.into_iter().map(std::result::Result::ok).collect();
        let complete = |pair: &[Option<Metrics>]| Some((pair.first()?.clone()?, pair.get(1)?.clone()?));
        o.pairs = fresh.chunks(2).filter_map(complete).collect();
        let scores: Vec<(f64, f64)> =
            o.pairs.iter().map(|(a, b)| (1.0, self.criteria.goal.objective(b, a))).collect();
        let noise = noise(o, &self.criteria, &o.today.median());
        o.change = PairedRatio::of_means(&scores, noise).and_then(|ratio| ratio.change());
        Ok(())
    }
}

/// The search of a race. A setting is an index into the outcome's other settings, or `None` for today's.
struct Search<'s, 'r> {
    race: &'s mut Race<'r>,
    o: &'s mut Outcome,
    candidates: &'s Candidates,
}

impl Search<'_, '_> {
    /// Returns the best setting, or `None` for today's.
    fn run(&mut self) -> Result<Option<usize>> {
        self.try_record_sizes()?;
        let bases = self.best_record_sizes();
        let mut best = None;
        for base in bases {
            // The codecs with a record size, beside the properties of the best setting so far.
            let base = with_property(self.settings(best), self.candidates.block_property, &base);
            self.try_all(&self.with_codecs(&base))?;
            let found = self.best_of(best);
            best = self.refine(found)?;
        }
        for _ in 0..ROUNDS {
            let climbed = self.climb(best)?;
            let before = std::mem::replace(&mut best, self.refine(climbed)?);
            if best == before || self.o.ended == Ended::OutOfTrials {
                break;
            }
        }
        self.simplify(best)
    }

    /// Tries the record sizes with today's other settings, from the size of the requests on, in each direction until two in a row are
    /// much worse than the best.
    fn try_record_sizes(&mut self) -> Result<()> {
        let today = self.o.today.settings.clone();
        let mut left = self.candidates.nearest_first();
        left.retain(|size| !same(&with_property(&today, self.candidates.block_property, size), &today));
        while !left.is_empty() && self.o.ended != Ended::OutOfTrials {
            left.retain(|size| !self.is_beyond_bad_ones(size, &today));
            let batch: Vec<String> = left.drain(..left.len().min(self.race.limits.side_by_side)).collect();
            let all: Vec<Settings> = batch
                .iter()
                .map(|size| with_property(&today, self.candidates.block_property, size))
                .collect();
            self.try_all(&all)?;
        }
        Ok(())
    }

    /// Whether the two record sizes between this one and that of the requests are much worse than the best setting, or were left out.
    fn is_beyond_bad_ones(&self, size: &str, today: &Settings) -> bool {
        let Some(before) = self.candidates.before(size) else { return false };
        // A setting that misses a requirement need not be worse than the next one.
        let criteria = Criteria { requirements: &[], ..self.race.criteria };
        let score = |of: Option<usize>| score(&criteria, self.o, of);
        let best = (0..self.o.others.len()).map(|i| score(Some(i))).fold(1.0, f64::min);
        let is_bad = |size: &String| {
            let settings = with_property(today, self.candidates.block_property, size);
            let known = if same(&settings, today) { Some(None) } else { self.o.find(&settings).map(Some) };
            known.map_or_else(|| self.is_beyond_bad_ones(size, today), |of| score(of) > MUCH_WORSE * best)
        };
        before.iter().all(is_bad)
    }

    fn settings(&self, of: Option<usize>) -> &Settings {
        of.map_or(&self.o.today.settings, |i| &self.o.others[i].settings)
    }

    fn score(&self, of: Option<usize>) -> f64 {
        self.race.score(self.o, of)
    }

    /// Returns the setting with the lowest objective among those that differ from `than` in record size and codec only, or `than` if
    /// none is clearly better.
    fn best_of(&self, than: Option<usize>) -> Option<usize> {
        let block = self.candidates.block_property;
        let others = |settings: &Settings| {
            let is_other = |property: &str| property != block && property != "compression";
            settings.clone().into_iter().filter(|(property, _)| is_other(property)).collect::<Settings>()
        };
        let alike = others(self.settings(than));
        let all =
            (0..self.o.others.len()).filter(|i| same(&others(&self.o.others[*i].settings), &alike)).map(Some);
        let best = all.min_by(|a, b| self.score(*a).total_cmp(&self.score(*b))).flatten();
        best.filter(|best| self.score(Some(*best)) <= BETTER * self.score(than)).map_or(than, Some)
    }

    /// Runs a trial of each of these settings that has not been tried, as far as batches are left.
    fn try_all(&mut self, settings: &[Settings]) -> Result<()> {
        let mut new: Vec<&Settings> = Vec::new();
        for one in settings {
            let is_known = same(one, &self.o.today.settings) || self.o.find(one).is_some();
            if !is_known && !new.iter().any(|other| same(other, one)) {
                new.push(one);
            }
        }
        for batch in new.chunks(self.race.limits.side_by_side) {
            // The first trials run in any case: without one, nothing can be recommended.
            if !self.o.others.is_empty() && !self.race.has_batch_left(self.o) {
                self.o.ended = Ended::OutOfTrials;
                return Ok(());
            }
            let first = self.o.others.len();
            self.o.others.extend(batch.iter().map(|settings| Runner::new((*settings).clone())));
            let all: Vec<Option<usize>> = (first..self.o.others.len()).map(Some).collect();
            self.race.run_all(self.o, &all)?;
        }
        Ok(())
    }

    /// Returns the best record sizes, the best first; today's can be among them.
    fn best_record_sizes(&self) -> Vec<String> {
        let mut all: Vec<Option<usize>> =
            std::iter::once(None).chain((0..self.o.others.len()).map(Some)).collect();
        all.sort_by(|a, b| self.score(*a).total_cmp(&self.score(*b)));
        let spelled = |of: &Option<usize>| {
            self.settings(*of).get(self.candidates.block_property).cloned().unwrap_or_else(|| "128K".into())
        };
        all.iter().take(BASES).map(spelled).collect()
    }

    fn with_codecs(&self, base: &Settings) -> Vec<Settings> {
        self.candidates.compressions.iter().map(|codec| with_property(base, "compression", codec)).collect()
    }

    /// Tries all codecs with the record size of the best setting, and the next smaller and larger record sizes with its codec, until
    /// none of them is better.
    fn climb(&mut self, mut best: Option<usize>) -> Result<Option<usize>> {
        loop {
            let at = self.settings(best).clone();
            let mut near = self.with_codecs(&at);
            let sizes = self.candidates.neighbours(block_size_and_compression(&at).0);
            near.extend(sizes.iter().map(|size| with_property(&at, self.candidates.block_property, size)));
            self.try_all(&near)?;
            let next = self.best_of(best);
            if next == best || self.o.ended == Ended::OutOfTrials {
                return Ok(next);
            }
            best = next;
        }
    }

    /// Tries each single property on top of the best setting, and then the good ones together.
    fn refine(&mut self, mut best: Option<usize>) -> Result<Option<usize>> {
        let mut left: Vec<Settings> = self.candidates.refinements.clone();
        while !left.is_empty() {
            let base = self.settings(best).clone();
            let all: Vec<Settings> = left.iter().map(|refinement| with(&base, refinement)).collect();
            self.try_all(&all)?;
            let limit = AHEAD * self.score(best);
            let ahead = |settings: &Settings| self.o.find(settings).filter(|i| self.score(Some(*i)) <= limit);
            let mut good: Vec<(usize, Settings)> = all
                .iter()
                .zip(left)
                .filter_map(|(settings, refinement)| Some((ahead(settings)?, refinement)))
                .collect();
            good.sort_by(|a, b| self.score(Some(a.0)).total_cmp(&self.score(Some(b.0))));
            if let Some((first, _)) = good.first() {
                best = Some(*first);
            }
            // The others are tried again on top of it.
            left = good.into_iter().skip(1).map(|(_, refinement)| refinement).collect();
        }
        Ok(best)
    }

    /// Leaves out each change of the best setting without which the objective is about the same.
    fn simplify(&mut self, best: Option<usize>) -> Result<Option<usize>> {
        let (mut simplest, today) = (best, self.o.today.settings.clone());
        loop {
            let changes = difference(self.settings(simplest), &today);
            if changes.len() < 2 {
                break;
            }
            let without = |property: &String| {
                let mut part = changes.clone();
                part.remove(property);
                with(&today, &part)
            };
            let parts: Vec<Settings> = changes.keys().map(without).collect();
            self.try_all(&parts)?;
            let found = parts.iter().filter_map(|part| self.o.find(part)).map(Some);
            let part = found.min_by(|a, b| self.score(*a).total_cmp(&self.score(*b))).flatten();
            match part.filter(|part| self.score(Some(*part)) <= NEEDED * self.score(best)) {
                Some(part) => simplest = Some(part),
                None => break,
            }
        }
        if simplest != best {
            let more = difference(self.settings(best), self.settings(simplest));
            self.o.left_out = Some(format!(
                "{} is left out: it improves the objective by less than 1 %",
                assignments(&more)
            ));
        }
        Ok(simplest)
    }
}

/// Returns the number of batches of trials that a search of these candidates takes, confirmation included: it tries the codecs with two
/// record sizes, and the neighbours of the best setting.
pub(crate) fn batches(candidates: &Candidates, side_by_side: usize) -> usize {
    let codecs = BASES * candidates.compressions.len().div_ceil(side_by_side);
    let steps = [candidates.block_sizes.len(), candidates.refinements.len(), 2 * PAIRS as usize];
    codecs + steps.map(|trials| trials.div_ceil(side_by_side)).iter().sum::<usize>()
}

/// See [`Race::score`].
fn score(criteria: &Criteria<'_>, o: &Outcome, of: Option<usize>) -> f64 {
    let Some(runner) = of.map(|i| &o.others[i]) else { return 1.0 };
    if runner.trials.is_empty() {
        return f64::INFINITY;
    }
    criteria.objective(&runner.median(), &o.today.median())
}

fn with_property(base: &Settings, property: &str, value: &str) -> Settings {
    with(base, &Settings::from([(property.to_owned(), value.to_owned())]))
}

/// Returns the standard deviation of a trial's objective, pooled over all settings that were tried more than once,
/// or `None` if there are none.
fn noise(o: &Outcome, criteria: &Criteria<'_>, today: &Metrics) -> Option<Deviation> {
    let scores = |trials: Vec<Metrics>| trials.iter().map(|t| criteria.goal.objective(t, today)).collect();
    Deviation::within(o.all_trials().into_iter().map(scores))
}
