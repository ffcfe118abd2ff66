//! Trials of several settings under one trace, interleaved in rounds so that a slow change of the host affects all settings
//! alike.

use std::path::Path;
use std::time::Duration;

use crate::settings::PerRole;
use crate::spec::add_codec_costs;
use crate::{Error, Replay, Result, Spec, StoppedTrial, child};

/// A setting and the specification of its trials.
#[derive(Clone, Debug)]
pub struct SettingTrials {
    /// The properties as the user gave them.
    pub settings: PerRole,
    /// The specification of each trial.
    pub spec: Spec,
}

/// How trials run.
#[derive(Clone, Copy, Debug)]
pub struct Rounds<'a> {
    /// The program that runs a trial ([`child::run`]).
    pub program: &'a Path,
    /// The directory for the specification of a trial.
    pub work: &'a Path,
    /// The number of trials of each setting.
    pub repeat: u32,
    /// The number of trials that run at the same time, of different settings.
    pub side_by_side: usize,
    /// The time limit of a trial.
    pub limit: Option<Duration>,
    /// The bytes that all trials together may write to their target.
    pub max_bytes: Option<u64>,
}

/// A setting whose trial was stopped. It is not tried again, and the figures of that trial are discarded.
#[derive(Debug)]
pub struct Stopped {
    /// The properties of the setting.
    pub settings: PerRole,
    /// The number of the stopped trial, from 1.
    pub trial: u32,
    /// [`Error::TooLong`] or [`Error::UsedUp`].
    pub why: Error,
}

/// The trials of all settings.
#[derive(Debug, Default)]
pub struct Trials {
    /// The results of each setting, in the order in which they are given.
    pub runs: Vec<Vec<Replay>>,
    /// The settings that were abandoned.
    pub stopped: Vec<Stopped>,
    /// Why the remaining trials were not started.
    pub ended: Option<Error>,
}

impl Rounds<'_> {
    /// Runs the trials. Every second round runs in the opposite order. `begin` receives the number of each setting whose trial
    /// begins, and `end` is called when it has ended or is skipped.
    ///
    /// # Errors
    /// [`Error::Interrupted`], or the error of a trial that fails. A trial that exceeds its time limit or fills its file system is
    /// not an error; its setting is abandoned. [`Trials::ended`] reports whether trials were left out.
    pub fn run(
        &self,
        all: &[SettingTrials],
        interrupted: &(dyn Fn() -> bool + Sync),
        begin: &mut dyn FnMut(usize),
        end: &mut dyn FnMut(),
    ) -> Result<Trials> {
        let mut done = Trials { runs: vec![Vec::new(); all.len()], ..Trials::default() };
        let (mut written, mut largest) = (0u64, 0);
        let mut codec_costs = Vec::new();
        for round in 0..self.repeat {
            for batch in order(all.len(), round).chunks(self.side_by_side) {
                let is_stopped = |number: &usize| {
                    done.stopped.iter().any(|stopped| stopped.settings == all[*number].settings)
                };
                let (stopped, batch): (Vec<usize>, Vec<usize>) =
                    batch.iter().partition(|number| is_stopped(number));
                stopped.iter().for_each(|_| end());
                let next = largest * batch.len() as u64;
                if let Some(limit) = self.max_bytes.filter(|limit| written + next > *limit) {
                    done.ended = Some(Error::WroteEnough { next: largest, limit });
                    return Ok(done);
                }
                batch.iter().for_each(|number| begin(*number));
                let spec = |number: &usize| all[*number].spec.of_trial(u64::from(round), &codec_costs);
                let specs: Vec<Spec> = batch.iter().map(spec).collect();
                let ended = child::run_side_by_side(self.program, &specs, self.work, self.limit, interrupted);
                for (number, result) in batch.into_iter().zip(ended) {
                    match result {
                        Ok(replay) => {
                            add_codec_costs(&mut codec_costs, &replay.codec_costs);
                            largest = largest.max(replay.bytes_to_target());
                            written += replay.bytes_to_target();
                            done.runs[number].push(replay);
                        }
                        Err(why @ (Error::TooLong(_) | Error::UsedUp { .. })) => {
                            let settings = all[number].settings.clone();
                            done.stopped.push(Stopped { settings, trial: round + 1, why });
                        }
                        Err(error) => return Err(error),
                    }
                    end();
                }
            }
        }
        Ok(done)
    }
}

fn order(settings: usize, round: u32) -> Vec<usize> {
    let forward = 0..settings;
    if round % 2 == 1 { forward.rev().collect() } else { forward.collect() }
}

impl Trials {
    /// Whether no trial was completed.
    pub fn is_empty(&self) -> bool {
        self.runs.iter().all(Vec::is_empty)
    }

    /// The error of a trial that filled its file system, if there is one.
    pub fn into_used_up(self) -> Option<Error> {
        self.stopped.into_iter().map(|stopped| stopped.why).find(|why| matches!(why, Error::UsedUp { .. }))
    }
}

impl Stopped {
    /// Returns the entry of `replay --json`.
    pub fn to_entry(&self) -> StoppedTrial {
        let (settings, trial) = (self.settings.clone(), self.trial);
        let (limit_s, free_bytes) = match &self.why {
            Error::TooLong(limit) => (Some(limit.as_secs_f64()), None),
            Error::UsedUp { free, .. } => (None, Some(*free)),
            _ => (None, None),
        };
        StoppedTrial { settings, trial, limit_s, free_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_round_is_reversed() {
        assert_eq!([0, 1, 2].map(|round| order(3, round)), [vec![0, 1, 2], vec![2, 1, 0], vec![0, 1, 2]]);
    }

    #[test]
    fn a_stopped_setting_is_reported_with_its_limit() {
        let why = Error::TooLong(Duration::from_secs(8));
        let stopped = Stopped { settings: PerRole::new(), trial: 1, why };
        let expected = serde_json::json!({"settings": {}, "trial": 1, "limit_s": 8.0});
        assert_eq!(serde_json::to_value(stopped.to_entry()).unwrap(), expected);
    }
}
