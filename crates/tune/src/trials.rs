//! The trials of a plan: each replays the whole application, with the settings of one group of roles varied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_replay::{ApplicationSpec, EngineOptions, Replay, Spec, TargetSpec, child};
use rayon::prelude::*;

use crate::Result;
use crate::candidates::{assignments, difference, grid, same, with};
use crate::fit::{self, CALIBRATION_S, Calibration, Fit, LEAST_TRIALS, PAIRS, WARM_SHARE};
use crate::objective::{Metrics, metrics};
use crate::plan;
use crate::race::{Candidate, Limits, Outcome, Race, Runner};
use crate::scatter::Scatter;
use crate::screen::{Forecast, MODEL_S, Screened};
use crate::slice;
use crate::tuner::Tuner;

/// Pairs of the whole plan against today.
const PAIRS_TOGETHER: u32 = 2;
/// A property is changed before the search if the model predicts the objective to fall to this share by it alone.
const HINDRANCE: f64 = 0.95;
/// Below this work rate of today's settings the recording is of another pace (`docs/predictions.md`, "What limits a
/// replay").
const OTHER_PACE: f64 = 0.5;
/// After so long the first trial has said how fast today's settings are, however much of the work is done.
const CALIBRATION_LONGEST_S: f64 = 20.0;
/// The first trial is stopped after this time, or after twice the budget if that is longer.
const CALIBRATION_LIMIT: Duration = Duration::from_secs(300);

impl Tuner<'_> {
    /// A trial of the whole application over the first `seconds` of the recording, whose pass ends after `longest_s` seconds.
    fn spec(&self, settings: BTreeMap<String, Settings>, seconds: f64, longest_s: f64) -> Spec {
        // Without durations the threads are unknown, and so are the times between operations.
        let timed = self.trace.events.iter().any(|e| e.dur_ns > 0);
        Spec {
            trace: self.request.scratch.join("trace.parquet"),
            capture: self.request.scratch.join("capture"),
            target: TargetSpec::Engine(EngineOptions {
                scratch: self.request.scratch.clone(),
                ashift: self.ashift,
                arc_bytes: self.request.arc_bytes,
                dirty_bytes: self.request.dirty_bytes,
                device: self.request.device.clone(),
                txg_timeout_s: 5,
            }),
            settings,
            roles: Vec::new(),
            pace: None,
            application: timed
                .then_some(ApplicationSpec { longest_s: Some(longest_s), ..ApplicationSpec::default() }),
            warm_passes: 0,
            warm_share: WARM_SHARE,
            first_seconds: Some(seconds),
            fill_only: false,
        }
    }

    /// Runs one trial; it is stopped after `limit`.
    fn trial(&mut self, spec: &Spec, limit: Duration) -> Result<Replay> {
        let stop = Arc::clone(&self.request.stop);
        self.trials += 1;
        let result = child::run(&self.request.program, spec, &self.request.scratch, Some(limit), &|| {
            stop.load(Ordering::Relaxed)
        });
        let interrupted = matches!(result, Err(poolwright_replay::Error::Interrupted));
        if let (Err(error), false) = (&result, interrupted) {
            self.failed += 1;
            self.warnings.push(format!("a trial gave no result: {error}"));
        }
        Ok(result?)
    }

    /// Today's settings for all roles, or what was chosen for them before.
    fn settings_so_far(&self) -> BTreeMap<String, Settings> {
        let today = |role: &String| (role.clone(), self.current.settings.clone());
        let mut all: BTreeMap<String, Settings> = self.capture.roles.iter().map(today).collect();
        all.extend(self.chosen.clone());
        all
    }

    /// One short trial of today's settings tells how long trials take, and what the model's predictions are held against.
    pub(crate) fn calibrate(&mut self) -> Result<()> {
        self.say("how long a trial takes");
        let seconds = CALIBRATION_S.min(self.recorded());
        let spec = self.spec(self.settings_so_far(), seconds, CALIBRATION_LONGEST_S);
        let began = Instant::now();
        // How long it should take is not known yet; a trial that takes twice the budget leaves no time for others.
        let replay = self.trial(&spec, CALIBRATION_LIMIT.max(2 * self.request.budget))?;
        let whole = began.elapsed().as_secs_f64();
        self.warnings.extend(replay.work_rate.and_then(too_fast_a_recording));
        let cores = self.surroundings().cores;
        self.calibration =
            Some(Calibration::of(&replay, seconds, whole, self.recorded().min(MODEL_S as f64), cores));
        self.calibrated = Some(metrics(&replay));
        Ok(())
    }

    pub(crate) fn is_enough_for_a_race(&self, budget: Duration) -> bool {
        let least = self.calibration.as_ref().map_or(0.0, |c| c.least_trial_s(self.recorded()));
        budget.as_secs_f64() >= LEAST_TRIALS * least
    }

    /// Races the settings of `roles`, which share a dataset, within `budget`.
    pub(crate) fn race(
        &mut self,
        roles: &[String],
        forecast: &Forecast<'_>,
        screened: &[Screened],
        budget: Duration,
    ) -> Result<Outcome> {
        let name = roles[0].as_str();
        let today = self.current.settings.clone();
        let calibration = self.calibration.expect("trials were calibrated before the first race");
        let recorded = self.recorded();
        let written = |seconds: f64| slice::written(&self.trace, seconds, recorded);
        let fit = fit::fit(&calibration, budget.as_secs_f64(), recorded, &written);
        self.fits.insert(name.to_owned(), fit);
        let mut reference = Runner::new(today.clone());
        // The calibration was a trial of today's settings for all roles.
        if fit.seconds == calibration.seconds && self.chosen.is_empty() {
            reference.trials.extend(self.calibrated.take());
        }
        let refinements = grid(name).refinement_settings();
        let hindrance = without_hindrance(forecast, &today, &refinements)?;
        let criteria = self.request.criteria();
        let others = self.settings_so_far();
        let mut done = 0;
        let mut run = |settings: &Settings| {
            done += 1;
            self.say(format!("{name}: trial {done}: {}", spelled(settings, &today)));
            let mut all = others.clone();
            all.extend(for_all(roles, settings));
            let spec = self.spec(all, fit.seconds, fit.longest_s());
            self.trial(&spec, fit.limit())
        };
        let predict = |settings: &Settings| Ok(forecast.screen(&today, settings)?.objective);
        let limits = Limits { budget, pairs: PAIRS, trial: Duration::from_secs_f64(fit.trial_s) };
        let mut race = Race { run: &mut run, predict: &predict, criteria, limits };
        let mut outcome = race.start(reference)?;
        let mut candidates = candidates(forecast, screened, &today, &today)?;
        if let Some(changed) = hindrance {
            // One trial of the change alone tells how right the model is about it, and so about all combinations with it. If it
            // fails, they would most likely fail too.
            if race.try_first(&mut outcome, &changed.settings)? {
                let began = Instant::now();
                candidates.extend(self::candidates(forecast, screened, &today, &changed.settings)?);
                if !candidates.iter().any(|c| same(&c.settings, &changed.settings)) {
                    candidates.push(changed);
                }
                race.limits.budget = race.limits.budget.saturating_sub(began.elapsed());
            }
        }
        race.race_on(outcome, candidates, &refinements)
    }

    /// Two trials side by side in time; those of odd number in the other order. `None` if one of them gave no result, which
    /// a warning says.
    pub(crate) fn pair(
        &mut self,
        number: u32,
        today: &BTreeMap<String, Settings>,
        new: &BTreeMap<String, Settings>,
        seconds: f64,
    ) -> Result<Option<(Metrics, Metrics)>> {
        let limit = self.fits.values().map(Fit::limit).max().unwrap_or(CALIBRATION_LIMIT);
        let longest_s =
            self.fits.values().map(Fit::longest_s).reduce(f64::max).unwrap_or(CALIBRATION_LONGEST_S);
        let mut one = |settings: &BTreeMap<String, Settings>| -> Result<Option<Metrics>> {
            let spec = self.spec(settings.clone(), seconds, longest_s);
            match self.trial(&spec, limit) {
                Ok(replay) => Ok(Some(metrics(&replay))),
                Err(error) if error.is_interruption() => Err(error),
                Err(_) => Ok(None),
            }
        };
        let (today, new) = if number.is_multiple_of(2) {
            let today = one(today)?;
            (today, one(new)?)
        } else {
            let new = one(new)?;
            (one(today)?, new)
        };
        Ok(today.zip(new))
    }

    /// Everything at once, today's against recommended, in fresh pairs. Where one race changed all that is changed, its
    /// pairs are these.
    pub(crate) fn together(&mut self, roles: &[plan::Role]) -> Result<Vec<(Metrics, Metrics)>> {
        let mut pairs = Vec::new();
        let changed = roles.iter().filter(|r| !r.gain.is_empty()).count();
        if changed == 0 {
            return Ok(pairs);
        }
        if changed == 1 {
            return Ok(std::mem::take(&mut self.last_pairs));
        }
        let side = |new: bool| -> BTreeMap<String, Settings> {
            let of = |r: &plan::Role| if new { with(&r.current, &r.recommended) } else { r.current.clone() };
            roles.iter().map(|r| (r.role.clone(), of(r))).collect()
        };
        let seconds = self.fits.values().map(|f| f.seconds).fold(0.0, f64::max);
        let (today, new) = (side(false), side(true));
        for i in 0..PAIRS_TOGETHER {
            self.say(format!("the whole plan against today: pair {} of {PAIRS_TOGETHER}", i + 1));
            pairs.extend(self.pair(i, &today, &new, seconds)?);
        }
        let (today, new): (Vec<Metrics>, Vec<Metrics>) = pairs.iter().cloned().unzip();
        self.scatter = self.scatter.and(&Scatter::of([today.as_slice(), new.as_slice()].into_iter()));
        Ok(pairs)
    }
}

/// Today's settings without the single properties that stand in the way by the model (`primarycache=none`, say); `None` if none
/// does.
fn without_hindrance(
    forecast: &Forecast<'_>,
    today: &Settings,
    refinements: &[Settings],
) -> Result<Option<Candidate>> {
    let mut least = forecast.screen(today, today)?.objective;
    let mut found = None;
    for refinement in refinements {
        let settings = with(found.as_ref().map_or(today, |c: &Candidate| &c.settings), refinement);
        let changed = forecast.screen(today, &settings)?;
        if changed.objective <= HINDRANCE * least {
            least = changed.objective;
            found = Some(candidate(settings, &changed));
        }
    }
    Ok(found.filter(|c| !same(&c.settings, today)))
}

/// What a race searches: every combination on top of `base`.
fn candidates(
    forecast: &Forecast<'_>,
    screened: &[Screened],
    today: &Settings,
    base: &Settings,
) -> Result<Vec<Candidate>> {
    let one = |s: &Screened| {
        let settings = with(base, &s.settings);
        let screened = if base == today { s.clone() } else { forecast.screen(today, &settings)? };
        Ok(candidate(settings, &screened))
    };
    let mut candidates = screened.par_iter().map(one).collect::<Result<Vec<Candidate>>>()?;
    candidates.retain(|c| !same(&c.settings, today));
    Ok(candidates)
}

fn candidate(settings: Settings, screened: &Screened) -> Candidate {
    Candidate { settings, predicted: screened.objective / screened.penalty, penalty: screened.penalty }
}

/// A warning where the database was recorded so much faster than it can be on the emulated pool that it may work in another
/// way there. `work_rate` is that of today's settings.
fn too_fast_a_recording(work_rate: f64) -> Option<String> {
    (work_rate < OTHER_PACE).then(|| {
        format!(
            "the database was recorded {:.1} times as fast as its trials under today's settings: it may do fewer operations for the \
             same work when it is slower, so changes of the work rate are uncertain. `poolwright confirm` asks the database",
            1.0 / work_rate
        )
    })
}

/// One dataset's settings for each of the roles that share it.
pub(crate) fn for_all(roles: &[String], settings: &Settings) -> BTreeMap<String, Settings> {
    roles.iter().map(|role| (role.clone(), settings.clone())).collect()
}

/// Only what differs from today, as `zfs set` takes it.
fn spelled(settings: &Settings, today: &Settings) -> String {
    let changed = difference(settings, today);
    if changed.is_empty() { "today's".into() } else { assignments(&changed) }
}

#[cfg(test)]
mod tests {
    use super::too_fast_a_recording;

    #[test]
    fn a_recording_of_another_pace_is_named() {
        assert!(too_fast_a_recording(0.7).is_none());
        let said = too_fast_a_recording(0.25).unwrap();
        assert!(said.contains("recorded 4.0 times as fast"), "{said}");
    }
}
