//! The trials of a plan: each one replays the whole application, with the settings of one group of roles varied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use poolwright_openzfs::clock::VirtualClock;
use poolwright_openzfs::property::Settings;
use poolwright_replay::settings::RoleSettings;
use poolwright_replay::spec::add_codec_costs;
use poolwright_replay::{ApplicationSpec, EngineOptions, Replay, Spec, TargetSpec, child};
use poolwright_trace::layout::Role;

use crate::Result;
use crate::candidates::{Candidates, assignments, block_size_and_compression, difference};
use crate::criteria::Criteria;
use crate::current::Current;
use crate::direct::DirectIo;
use crate::fit::{self, CALIBRATION_S, Calibration, Fit, WARM_SHARE};
use crate::objective::{Metrics, metrics};
use crate::race::{self, Limits, Outcome, PAIRS, Race, Runner};
use crate::roles::dataset_location;
use crate::scatter::Scatter;
use crate::space::{DatabaseSpace, EstimatedSpace, find};
use crate::tuner::{Tuner, for_all, settings_of};
use poolwright_plan as plan;

/// Below this work rate of today's settings, the recording was much faster than the trials (`docs/predictions.md`,
/// "What limits a replay").
const SLOW_WORK_RATE: f64 = 0.5;
/// Seconds after which the pass of the calibration trial ends, however much of the work is done.
const CALIBRATION_LONGEST_S: f64 = 20.0;

/// The first release in which the dbuf cache keeps a record that is read from its beginning until its end has been read, whatever `primarycache` is
/// (openzfs/zfs#14243).
const KEEPS_RECORDS: (u32, u32) = (2, 2);

/// The parameters with which the engine behaves as the database's OpenZFS. `release`: that of its kernel; `None`: the engine's.
fn tunables(direct: DirectIo, release: Option<(u32, u32)>, settings: &RoleSettings) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    if direct == DirectIo::Cached {
        all.insert("zfs_dio_enabled".to_owned(), 0);
    }
    // Without the dbuf cache, each read of a part of a record reads all of it, unless the ARC has it.
    let is_uncached = |one: &Settings| one.get("primarycache").is_some_and(|value| value != "all");
    if release.is_some_and(|release| release < KEEPS_RECORDS) && settings.values().any(is_uncached) {
        all.insert("dbuf_cache_max_bytes".to_owned(), 0);
    }
    all
}

impl Tuner<'_> {
    /// Returns the specification of a trial of the whole application over `seconds` of the recording, whose pass ends
    /// after `longest_s` seconds.
    fn spec(&self, settings: RoleSettings, seconds: f64, longest_s: f64) -> Spec {
        // Without durations, neither threads nor think times can be reconstructed.
        let timed = self.trace.events.iter().any(|e| e.dur_ns > 0);
        Spec {
            trace: self.request.scratch.join("trace.parquet"),
            capture: self.request.scratch.join("capture"),
            target: self.target(&settings),
            settings,
            roles: Vec::new(),
            pace: None,
            application: timed
                .then_some(ApplicationSpec { longest_s: Some(longest_s), ..ApplicationSpec::default() }),
            warm_passes: 0,
            warm_share: WARM_SHARE,
            from_seconds: (self.begin_s > 0.0).then_some(self.begin_s),
            first_seconds: Some(seconds),
            fill_only: false,
        }
    }

    /// The engine on the virtual clock, with as many processors as the recorded machine has.
    fn target(&self, settings: &RoleSettings) -> TargetSpec {
        TargetSpec::Engine(EngineOptions {
            scratch: self.request.scratch.clone(),
            ashift: self.ashift,
            arc_bytes: self.request.arc_bytes,
            dirty_bytes: self.request.dirty_bytes,
            device: self.request.device.clone(),
            txg_timeout_s: 5,
            tunables: tunables(self.direct_io(), self.release(), settings),
            clock: Some(VirtualClock::of(self.trace.meta.cores, self.request.seed, self.costs.clone())),
        })
    }

    /// Runs trials at the same time, and stops each one after `limit`. A failure adds a warning.
    fn trials(&mut self, specs: &[Spec], limit: Duration) -> Vec<poolwright_replay::Result<Replay>> {
        let stop = Arc::clone(&self.request.stop);
        let known = &self.costs.codecs;
        let numbered: Vec<Spec> =
            (self.trials + 1..).zip(specs).map(|(number, spec)| spec.of_trial(number, known)).collect();
        self.trials += specs.len() as u64;
        let (program, scratch) = (&self.request.program, &self.request.scratch);
        let interrupted = || stop.load(Ordering::Relaxed);
        let mut all = child::run_side_by_side(program, &numbered, scratch, Some(limit), &interrupted);
        for (spec, result) in specs.iter().zip(&mut all) {
            match result {
                Ok(replay) => {
                    add_codec_costs(&mut self.costs.codecs, &replay.codec_costs);
                    self.database_space(&spec.settings).iter().for_each(|space| space.replace_in(replay));
                }
                Err(error) if error.ends_the_run() => {}
                Err(error) => {
                    self.failed += 1;
                    self.warnings.push(format!("a trial failed: {error}"));
                }
            }
        }
        all
    }

    /// Today's state of the place of a role.
    pub(crate) fn current_of(&self, role: Role) -> &Current {
        self.linked.get(&role).unwrap_or(&self.current)
    }

    /// Today's settings of all roles.
    pub(crate) fn settings_today(&self) -> RoleSettings {
        let today = |role: &Role| (*role, self.current_of(*role).settings.clone());
        self.capture.roles.iter().map(today).collect()
    }

    /// Returns the space of all files if their roles have these settings. A role that is not named has those of a role on its dataset, or
    /// today's. Returns `None` if the space of one of the roles is not known.
    pub(crate) fn database_space(&self, settings: &RoleSettings) -> Option<DatabaseSpace> {
        let mountpoint = |role: Role| dataset_location(&self.inventory, &self.request.dir, role).mountpoint;
        let on_its_dataset = |role: Role| {
            let place = mountpoint(role);
            settings.iter().find(|(other, _)| mountpoint(**other) == place).map(|(_, settings)| settings)
        };
        let roles = self.inventory.roles.iter().filter(|(_, files)| !files.paths.is_empty());
        let estimates: Option<Vec<&EstimatedSpace>> = roles
            .map(|(role, _)| {
                let its = settings
                    .get(role)
                    .or_else(|| on_its_dataset(*role))
                    .unwrap_or(&self.current_of(*role).settings);
                find(self.space.get(role)?, its)
            })
            .collect();
        estimates.filter(|all| !all.is_empty()).map(|all| DatabaseSpace::of(&all))
    }

    /// Returns the settings of all roles: today's, or those chosen by earlier races.
    fn settings_so_far(&self) -> RoleSettings {
        let mut all = self.settings_today();
        all.extend(self.chosen.clone());
        all
    }

    /// Runs short trials of today's settings, as many at the same time as later ones. They show how long the work takes on the trials' clock.
    pub(crate) fn calibrate(&mut self) -> Result<()> {
        self.report_progress("the first trials of today's settings");
        let seconds = CALIBRATION_S.min(self.replayable());
        let spec = self.spec(self.settings_so_far(), seconds, CALIBRATION_LONGEST_S);
        let operations = self.operations(seconds);
        let limit = fit::limit(operations, self.capture.image_bytes());
        let ended = self.trials(&vec![spec; self.request.side_by_side], limit);
        let replays: Vec<Replay> = ended.into_iter().collect::<poolwright_replay::Result<_>>()?;
        let slowest = replays.iter().max_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("a trial ends");
        self.warnings.extend(slowest.work_rate.and_then(fast_recording_warning));
        let calibration = Calibration::of(slowest, seconds, operations);
        self.spend(calibration.trial_s(seconds));
        self.calibration = Some(calibration);
        self.calibrated = replays.iter().map(metrics).collect();
        Ok(())
    }

    /// Returns the number of operations that a trial of `seconds` recorded seconds replays.
    fn operations(&self, seconds: f64) -> usize {
        self.profile.events(&self.slice(seconds)).iter().filter(|event| self.capture.keeps(event)).count()
    }

    /// Adds the expected time of a batch of trials to the part of the budget that is used.
    fn spend(&mut self, batch_s: f64) {
        self.spent += Duration::from_secs_f64(batch_s);
    }

    pub(crate) fn is_enough_for_a_race(&self, budget: Duration) -> bool {
        let least = self.calibration.as_ref().map_or(0.0, |c| c.least_trial_s(self.replayable()));
        budget.as_secs_f64() >= fit::least_batches(self.request.side_by_side) as f64 * least
    }

    /// Races the settings of `roles`, which share a dataset, within `budget`.
    pub(crate) fn race(
        &mut self,
        roles: &[Role],
        candidates: &Candidates,
        budget: Duration,
    ) -> Result<Outcome> {
        let name = roles[0];
        let today = self.current_of(name).settings.clone();
        let calibration = self.calibration.expect("calibrate() runs before the first race");
        let written = |seconds: f64| self.profile.written(&self.slice(seconds));
        let captured = self.captured_bytes(roles);
        let mut candidates = candidates.clone();
        let slow_s =
            fit::omit_slowest(&mut candidates, captured, self.request.side_by_side, budget.as_secs_f64());
        let budget_s = budget.as_secs_f64() - slow_s;
        let fit = fit::fit(
            &calibration,
            race::batches(&candidates, self.request.side_by_side),
            fit::least_batches(self.request.side_by_side),
            budget_s,
            self.replayable(),
            &written,
        );
        self.fits.insert(name.to_owned(), fit);
        let mut reference = Runner::new(today.clone());
        // The calibration is a trial of today's settings for all roles.
        if fit.seconds == calibration.seconds && self.chosen.is_empty() {
            reference.trials.append(&mut self.calibrated);
        }
        let others = self.settings_so_far();
        let side_by_side = self.request.side_by_side;
        let requirements = self.request.bounds();
        let criteria = Criteria { goal: self.request.goal, requirements: &requirements };
        let limits = Limits { batches: (budget_s / fit.trial_s) as usize, side_by_side };
        let mut done = 0;
        let mut run = |settings: &[Settings]| {
            let first = done + 1;
            done += settings.len();
            let changes: Vec<String> = settings.iter().map(|s| changes_from_today(s, &today)).collect();
            let trials = if settings.len() > 1 {
                format!("trials {first} to {done}")
            } else {
                format!("trial {done}")
            };
            self.report_progress(format!("{name}: {trials}: {}", changes.join("; ")));
            let spec = |settings: &Settings| {
                let mut all = others.clone();
                all.extend(for_all(roles, settings));
                self.spec(all, fit.seconds, fit.longest_s())
            };
            let specs: Vec<Spec> = settings.iter().map(spec).collect();
            let ended = self.trials(&specs, fit.limit());
            let compress_s =
                settings.iter().map(|s| fit::compress_s(block_size_and_compression(s).1, captured));
            self.spend(fit.trial_s + compress_s.fold(0.0, f64::max));
            ended
        };
        let mut race = Race { run: &mut run, criteria, limits };
        race.race(reference, &candidates)
    }

    /// Runs a trial of each of two settings. Returns `None` if one of them gave no result, which adds a warning.
    pub(crate) fn pair(
        &mut self,
        today: &RoleSettings,
        new: &RoleSettings,
        seconds: f64,
    ) -> Result<Option<(Metrics, Metrics)>> {
        let limit = self.fits.values().map(Fit::limit).max().unwrap_or_else(|| fit::limit(0, 0));
        let longest_s =
            self.fits.values().map(Fit::longest_s).reduce(f64::max).unwrap_or(CALIBRATION_LONGEST_S);
        let specs = [today, new].map(|settings| self.spec(settings.clone(), seconds, longest_s));
        let mut ended = Vec::new();
        for batch in specs.chunks(self.request.side_by_side) {
            for result in self.trials(batch, limit) {
                match result {
                    Ok(replay) => ended.push(metrics(&replay)),
                    Err(error) if error.ends_the_run() => return Err(error.into()),
                    Err(_) => {}
                }
            }
        }
        Ok(<[Metrics; 2]>::try_from(ended).ok().map(|[today, new]| (today, new)))
    }

    /// Compares the whole plan with today's settings in fresh pairs. If only one race changed anything, its
    /// confirmation pairs are used.
    pub(crate) fn compare_whole_plan(&mut self, roles: &[plan::RolePlan]) -> Result<Vec<(Metrics, Metrics)>> {
        let mut pairs = Vec::new();
        let changed = roles.iter().filter(|r| !r.gain.is_empty()).count();
        if changed == 0 {
            return Ok(pairs);
        }
        if changed == 1 {
            return Ok(std::mem::take(&mut self.last_pairs));
        }
        let seconds = self.fits.values().map(|f| f.seconds).fold(0.0, f64::max);
        let (today, new) = (settings_of(roles, false), settings_of(roles, true));
        for i in 1..=PAIRS {
            self.report_progress(format!("the whole plan against today's settings: pair {i} of {PAIRS}"));
            pairs.extend(self.pair(&today, &new, seconds)?);
        }
        let (today, new): (Vec<Metrics>, Vec<Metrics>) = pairs.iter().cloned().unzip();
        self.scatter = self.scatter.and(&Scatter::of([today.as_slice(), new.as_slice()].into_iter()));
        Ok(pairs)
    }
}

/// Returns a warning if the database was recorded so much faster than the emulated pool allows that it may behave
/// differently there. `work_rate` is that of today's settings.
fn fast_recording_warning(work_rate: f64) -> Option<String> {
    (work_rate < SLOW_WORK_RATE).then(|| {
        format!(
            "the database was recorded {:.1} times as fast as its trials under today's settings: when it is slower, it may do \
             fewer operations for the same work, so changes of the work rate are uncertain; a confirmation with the database measures them",
            1.0 / work_rate
        )
    })
}

/// Formats the differences from today's settings as arguments of `zfs set`.
fn changes_from_today(settings: &Settings, today: &Settings) -> String {
    let changed = difference(settings, today);
    if changed.is_empty() { "today's".into() } else { assignments(&changed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_of_another_pace_is_named() {
        assert!(fast_recording_warning(0.7).is_none());
        let message = fast_recording_warning(0.25).unwrap();
        assert!(message.contains("recorded 4.0 times as fast"), "{message}");
    }

    #[test]
    fn the_engine_has_no_dbuf_cache_for_what_an_older_release_does_not_keep() {
        let settings = |primarycache: &str| -> RoleSettings {
            let one = |value: &str| Settings::from([("primarycache".to_owned(), value.to_owned())]);
            [(Role::Data, one("all")), (Role::Import, one(primarycache))].into()
        };
        let of = |release, primarycache| tunables(DirectIo::Bypass, release, &settings(primarycache));
        let none = BTreeMap::from([("dbuf_cache_max_bytes".to_owned(), 0)]);
        assert_eq!(of(Some((2, 1)), "metadata"), none);
        assert_eq!(of(Some((2, 1)), "none"), none);
        for (release, primarycache) in [(Some((2, 1)), "all"), (Some((2, 2)), "none"), (None, "none")] {
            assert_eq!(of(release, primarycache), BTreeMap::new(), "{release:?} {primarycache}");
        }
    }
}
