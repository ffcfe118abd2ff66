//! Chooses the setting to try next: the one with the lowest objective that the model, corrected by the trials so
//! far, considers possible (a lower confidence bound: Srinivas et al., "Gaussian Process Optimization in the Bandit
//! Setting", ICML 2010).

use std::time::Instant;

use super::{Candidate, Ended, Outcome, REPEATS, Race, Runner, noise};
use crate::Result;
use crate::candidates::same;
use crate::surrogate::{Observation, Surrogate};

/// Standard deviations below the estimate at which settings are compared.
const OPTIMISM: f64 = 1.0;
/// A setting is not tried if its bound at this many standard deviations is not better than the best.
const UNLIKELY: f64 = 2.0;
/// A smaller gain, as a logarithm, is not worth a trial.
const NEGLIGIBLE: f64 = 0.01;
/// Largest number of trials of one setting in the search.
const MOST_REPEATS: usize = 4;
/// The standard deviation of a trial's logarithm that is assumed until a setting has been repeated.
const USUAL_NOISE: f64 = 0.02;

/// The estimate of a candidate's objective.
struct Standing {
    /// Index of the candidate.
    index: usize,
    /// Estimated `ln(objective)`, including the penalty for missed requirements.
    mean: f64,
    deviation: f64,
    trials: usize,
}

/// Runs trials until the best setting is found or the time is used up. Returns its index in `o.others`.
pub(super) fn search(
    race: &mut Race<'_>,
    o: &mut Outcome,
    candidates: Vec<Candidate>,
    began: Instant,
) -> Result<Option<usize>> {
    let known = |c: &Candidate| o.others.iter().position(|runner| same(&runner.settings, &c.settings));
    let runners = candidates.iter().map(known).collect();
    let mut search = Search { candidates, runners };
    loop {
        let mut next = search.next(race, o);
        let is_first = search.runners.iter().all(Option::is_none);
        while !next.is_empty() && !is_first && !race.has_time_for(o, next.len(), began) {
            o.ended = Ended::OutOfTime;
            next.pop();
        }
        if next.is_empty() {
            break;
        }
        search.try_all(race, o, &next)?;
    }
    if o.today.trials.len() < REPEATS && race.has_time_for(o, 1, began) {
        race.trial(o, None)?;
    }
    Ok(search.best(race, o))
}

struct Search {
    candidates: Vec<Candidate>,
    /// For each candidate that was tried, its index in the outcome's runners.
    runners: Vec<Option<usize>>,
}

impl Search {
    fn try_all(&mut self, race: &mut Race<'_>, o: &mut Outcome, candidates: &[usize]) -> Result<()> {
        let runner = |index: &usize| {
            Some(*self.runners[*index].get_or_insert_with(|| {
                o.others.push(Runner::new(self.candidates[*index].settings.clone()));
                o.others.len() - 1
            }))
        };
        let runners: Vec<Option<usize>> = candidates.iter().map(runner).collect();
        race.trials(o, &runners)
    }

    fn trials(&self, o: &Outcome, index: usize) -> usize {
        self.runners[index].map_or(0, |runner| o.others[runner].trials.len())
    }

    fn has_failed(&self, o: &Outcome, index: usize) -> bool {
        self.runners[index].is_some_and(|runner| !o.others[runner].failures.is_empty())
    }

    /// Estimates the objective of all candidates that did not fail, from the model and the trials.
    fn standings(&self, race: &Race<'_>, o: &Outcome) -> Vec<Standing> {
        let today = o.today.median();
        let deviation = noise(o, &race.criteria, &today).map_or(USUAL_NOISE, |d| d.deviation);
        let mut observations = vec![Observation { settings: &o.today.settings, error: 0.0 }];
        for (candidate, runner) in self.candidates.iter().zip(&self.runners) {
            let Some(runner) = runner else { continue };
            observations.extend(o.others[*runner].trials.iter().map(|trial| Observation {
                settings: &candidate.settings,
                // Only the goal is compared: the penalty for a missed requirement does not measure
                // the model's error.
                error: race.criteria.goal.objective(trial, &today).ln() - candidate.predicted.ln(),
            }));
        }
        let surrogate = Surrogate::new(&o.today.settings, &observations, deviation);
        let standing = |(index, candidate): (usize, &Candidate)| {
            let error = surrogate.at(&candidate.settings);
            let tried = self.runners[index].map(|runner| &o.others[runner]).filter(|r| !r.trials.is_empty());
            let penalty = tried.map_or(candidate.penalty, |r| race.criteria.penalty(&r.median(), &today));
            Standing {
                index,
                mean: candidate.predicted.ln() + error.mean + penalty.ln(),
                deviation: error.deviation,
                trials: self.trials(o, index),
            }
        };
        let all = self.candidates.iter().enumerate().filter(|(i, _)| !self.has_failed(o, *i));
        all.map(standing).collect()
    }

    /// Returns the candidates to try next, or none if the best has been found.
    fn next(&self, race: &Race<'_>, o: &Outcome) -> Vec<usize> {
        let all = self.standings(race, o);
        let best = best_of(&all);
        let is_hopeful = |s: &&Standing| {
            best.is_none_or(|best| {
                let bound = s.mean - UNLIKELY * s.deviation;
                s.trials < MOST_REPEATS && s.index != best.index && bound < best.mean - NEGLIGIBLE
            })
        };
        let unsure = best.filter(|best| best.trials < REPEATS);
        let mut next: Vec<&Standing> = all.iter().filter(is_hopeful).chain(unsure).collect();
        next.sort_by(|a, b| a.bound().total_cmp(&b.bound()));
        next.iter().take(race.limits.side_by_side).map(|s| s.index).collect()
    }

    /// Returns the best setting that was tried, as an index into `o.others`.
    fn best(&self, race: &Race<'_>, o: &Outcome) -> Option<usize> {
        best_of(&self.standings(race, o)).and_then(|best| self.runners[best.index])
    }
}

impl Standing {
    fn bound(&self) -> f64 {
        self.mean - OPTIMISM * self.deviation
    }
}

fn best_of(all: &[Standing]) -> Option<&Standing> {
    all.iter().filter(|s| s.trials > 0).min_by(|a, b| a.mean.total_cmp(&b.mean))
}
