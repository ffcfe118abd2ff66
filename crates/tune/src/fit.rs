//! How much of the recording a trial replays, and how many settings are raced, so that the time allowed is kept.
//!
//! A trial replays the whole application, all files of all roles, at its own speed: a recorded second takes about a second.
//! What is cut is the recorded time, down to [`LEAST_PASS_S`], and then the number of settings. Which of these cuts keep the
//! figures right was measured (`docs/method.md`): fewer regions, one role alone and a smaller ARC do not keep the work rate.

use poolwright_replay::Replay;

use crate::model::Anchor;

/// Share of a trial's work that warms up and is not measured.
pub(crate) const WARM_SHARE: f64 = 0.2;
/// Wall seconds that the shortest slice of a recording takes: it is measured over one transaction group (5 s by the clock),
/// whose writeback is a part of the work.
const LEAST_PASS_S: f64 = 6.25;
/// Wall seconds of the longest slice: more of it narrows the interval less than another trial does.
const MOST_PASS_S: f64 = 20.0;
/// Recorded seconds of the trial that tells how long trials take.
pub(crate) const CALIBRATION_S: f64 = 5.0;
/// Trials that a race should have: a first round, half of it again, refinements, and the confirmation.
const WANTED_TRIALS: f64 = 26.0;
/// Pairs of the confirmation.
pub(crate) const PAIRS: u32 = 5;
const LEAST_PAIRS: u32 = 3;
/// Trials of a race that is worth its time: today's and one other, and a confirmation.
pub(crate) const LEAST_TRIALS: f64 = 2.0 + 2.0 * LEAST_PAIRS as f64;

/// What a race's trials replay, and how many settings it starts with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Recorded seconds from the start.
    pub seconds: f64,
    /// Settings besides today's.
    pub settings: usize,
    /// Settings that screening left.
    pub survivors: usize,
    /// Pairs of the confirmation.
    pub pairs: u32,
    /// Wall seconds that a trial should take.
    pub trial_s: f64,
}

/// What one trial of today's settings showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    /// Wall seconds besides the pass: start, fill, settling.
    pub fixed_s: f64,
    /// Wall seconds of the pass per recorded second.
    pub per_recorded_s: f64,
    /// For the model; `None` if the trial has no work rate.
    pub anchor: Option<Anchor>,
}

impl Calibration {
    /// From a trial of `seconds` recorded seconds that took `whole` wall seconds; the model predicts `recorded_s`.
    pub fn of(replay: &Replay, seconds: f64, whole: f64, recorded_s: f64, cores: f64) -> Calibration {
        let pass = match replay.work_rate {
            Some(_) => replay.seconds,
            None => replay.seconds / (1.0 - WARM_SHARE),
        }
        .min(whole);
        let seconds = seconds.max(0.1);
        let anchor = replay.work_rate.map(|rate| Anchor {
            seconds: 1.0 / rate,
            cpu_seconds: replay.cpu_seconds / seconds,
            cores,
            threads: replay.application.as_ref().map_or(1.0, |a| f64::from(a.foreground_threads.max(1))),
            recorded_s,
        });
        Calibration { fixed_s: (whole - pass).max(0.0), per_recorded_s: pass / seconds, anchor }
    }

    /// Recorded seconds that a pass of so many wall seconds replays.
    fn replayed(&self, pass_s: f64, recorded: f64) -> f64 {
        (pass_s / self.per_recorded_s.max(1e-3)).min(recorded)
    }

    /// Wall seconds of the shortest trial.
    pub fn least_trial_s(&self, recorded: f64) -> f64 {
        self.fixed_s + self.per_recorded_s * self.replayed(LEAST_PASS_S, recorded)
    }
}

/// Fits a race into `budget_s`. `recorded` is the recording's seconds, `survivors` what screening left.
pub(crate) fn fit(c: &Calibration, budget_s: f64, recorded: f64, survivors: usize) -> Fit {
    let pass_s = (budget_s / WANTED_TRIALS - c.fixed_s).clamp(LEAST_PASS_S, MOST_PASS_S);
    let seconds = c.replayed(pass_s, recorded);
    let trial_s = c.fixed_s + c.per_recorded_s * seconds;
    let trials = budget_s / trial_s.max(1e-3);
    let pairs = if trials >= WANTED_TRIALS { PAIRS } else { LEAST_PAIRS };
    // Today's and each setting once, the better half of them again.
    let rest = trials - f64::from(2 * pairs) - 1.0;
    let settings = (rest / 1.5).floor().clamp(2.0, survivors.max(2) as f64) as usize;
    Fit { seconds, settings, survivors, pairs, trial_s }
}

impl Fit {
    /// What the time allowed has cut from the race, in words; `None` where it has cut nothing. `recorded` is the recording's
    /// seconds.
    pub(crate) fn cuts(&self, recorded: f64) -> Option<String> {
        let mut cuts = Vec::new();
        if self.seconds < 0.99 * recorded {
            cuts.push(format!("replayed the first {:.0} s of {recorded:.0}", self.seconds));
        }
        if self.settings < self.survivors {
            cuts.push(format!(
                "tried {} of the {} settings that screening left",
                self.settings, self.survivors
            ));
        }
        if self.pairs < PAIRS {
            cuts.push(format!("confirmed the best one in {} pairs instead of {PAIRS}", self.pairs));
        }
        (!cuts.is_empty()).then(|| format!("to fit the time allowed, the trials {}", cuts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(fixed_s: f64, per_recorded_s: f64) -> Calibration {
        Calibration { fixed_s, per_recorded_s, anchor: None }
    }

    #[test]
    fn only_what_was_cut_is_called_cut() {
        let quick = calibration(0.5, 0.02);
        let all = fit(&quick, 80.0, 15.0, 4);
        assert_eq!(all.cuts(15.0), None, "{all:?}");
        let cut = fit(&calibration(2.0, 1.0), 80.0, 30.0, 10);
        let said = cut.cuts(30.0).unwrap();
        for part in ["the first 6 s of 30", "settings that screening left", "3 pairs instead of 5"] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn slow_trials_lose_time_first_then_rivals() {
        let f = fit(&calibration(1.0, 1.0), 100.0, 30.0, 10);
        assert!(f.seconds == LEAST_PASS_S && f.settings >= 2 && f.settings < 10 && f.pairs == 3, "{f:?}");
        let f = fit(&calibration(1.0, 1.0), 400.0, 30.0, 10);
        assert!(f.seconds > 2.0 * LEAST_PASS_S && f.settings == 10 && f.pairs == 5, "{f:?}");
        // A short recording is replayed whole.
        assert_eq!(fit(&calibration(1.0, 1.0), 100.0, 4.0, 10).seconds, 4.0);
    }

    #[test]
    fn what_is_fitted_stays_inside_the_budget() {
        for per in [0.01, 0.1, 0.3, 1.0] {
            let f = fit(&calibration(0.8, per), 100.0, 60.0, 12);
            let trials = f.settings as f64 * 1.5 + f64::from(2 * f.pairs) + 1.0;
            assert!(trials * f.trial_s <= 110.0 || f.settings == 2, "{per}: {f:?}");
        }
    }
}
