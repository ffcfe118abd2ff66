//! How much of the recording a role's trials replay, and how many settings are raced, so that the time allowed is kept.

use poolwright_replay::{Replay, capture};

/// A quarter of the recorded time fills the caches after the files were written; then it is measured.
pub(crate) const WARM_SHARE: f64 = 0.25;
/// The least ARC that the engine takes, in bytes.
const LEAST_ARC: f64 = 67_108_864.0;
/// Files that are overwritten are measured over two transaction groups at least, so that overwrites meet in one as they
/// do in life; logs are not overwritten, and a few thousand synced writes say all.
const LEAST_SECONDS_DATA: f64 = 2.0 * 5.0 / (1.0 - WARM_SHARE);
const LEAST_SECONDS_LOG: f64 = 2.0;
/// Trials that a race should have: a first round, some of it again, refinements, and the confirmation.
const WANTED_TRIALS: f64 = 22.0;
/// Pairs of the confirmation.
pub(crate) const PAIRS: u32 = 5;
const LEAST_PAIRS: u32 = 3;

/// What a role's trials replay, and how many settings the race starts with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Share of the captured regions.
    pub thin: f64,
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

/// What one short trial of today's settings showed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    /// Wall seconds besides the pass: start, fill, settling.
    pub fixed_s: f64,
    /// Wall seconds of the pass per recorded second.
    pub per_recorded_s: f64,
}

/// Whether the roles are logs only, whose operations are never sampled.
fn are_logs(roles: &[String]) -> bool {
    roles.iter().all(|role| capture::is_whole(role))
}

/// The recorded seconds that the calibrating trial replays.
pub(crate) fn calibration_seconds(roles: &[String]) -> f64 {
    if are_logs(roles) { LEAST_SECONDS_LOG } else { LEAST_SECONDS_DATA / 2.0 }
}

impl Calibration {
    /// From a trial of `seconds` recorded seconds that took `whole` wall seconds.
    pub fn of(replay: &Replay, seconds: f64, whole: f64) -> Calibration {
        let pass = (replay.seconds / (1.0 - WARM_SHARE)).min(whole);
        Calibration { fixed_s: (whole - pass).max(0.0), per_recorded_s: pass / seconds.max(0.1) }
    }
}

/// Fits a race into `budget_s`. `arc` is the ARC of the whole capture in bytes, `recorded` the recording's seconds,
/// `survivors` what screening left.
pub(crate) fn fit(
    c: Calibration,
    roles: &[String],
    budget_s: f64,
    arc: f64,
    recorded: f64,
    survivors: usize,
) -> Fit {
    let log = are_logs(roles);
    let least = if log { LEAST_SECONDS_LOG } else { LEAST_SECONDS_DATA }.min(recorded);
    let wanted = budget_s / WANTED_TRIALS;
    // Fewer regions first: that leaves each region's rates and times as they are. The cache shrinks along, down to the
    // engine's least.
    let at_least = c.fixed_s + c.per_recorded_s * least;
    let thin = if log { 1.0 } else { (wanted / at_least).max(LEAST_ARC / arc).clamp(0.1, 1.0) };
    let seconds =
        ((wanted / thin - c.fixed_s) / c.per_recorded_s.max(1e-3)).clamp(least, recorded.max(least));
    let trial_s = (c.fixed_s + c.per_recorded_s * seconds) * thin;
    let trials = budget_s / trial_s.max(1e-3);
    let pairs = if trials >= WANTED_TRIALS { PAIRS } else { LEAST_PAIRS };
    // Today's and each setting once, half of them twice; four refinements' trials on the way.
    let rest = trials - f64::from(2 * pairs) - 2.0;
    let settings = (rest / 1.75 - 1.0).floor().clamp(2.0, survivors.max(2) as f64) as usize;
    Fit { thin, seconds, settings, survivors, pairs, trial_s }
}

impl Fit {
    /// What the time allowed has cut from the race of `roles`, in words; `None` where it has cut nothing. `recorded` is the
    /// recording's seconds.
    pub(crate) fn cuts(&self, roles: &[String], recorded: f64) -> Option<String> {
        let mut cuts = Vec::new();
        if self.seconds < 0.99 * recorded {
            cuts.push(format!("replayed the first {:.0} s of {recorded:.0}", self.seconds));
        }
        if self.thin < 0.995 && !are_logs(roles) {
            let mut cut = format!("used {:.0} % of the captured regions", self.thin * 100.0);
            if roles.iter().any(|role| capture::is_whole(role)) {
                cut += " and all operations of the logs, which weigh more by that";
            }
            cuts.push(cut);
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

    fn roles(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn only_what_was_cut_is_called_cut() {
        let quick = Calibration { fixed_s: 0.5, per_recorded_s: 0.02 };
        let all = fit(quick, &roles(&["data"]), 80.0, 1e9, 30.0, 10);
        assert_eq!(all.cuts(&roles(&["data"]), 30.0), None, "{all:?}");
        // A short recording is replayed whole, however little time a trial needs.
        let short = fit(quick, &roles(&["wal"]), 80.0, 1e9, 5.0, 4);
        assert_eq!(short.cuts(&roles(&["wal"]), 5.0), None, "{short:?}");
        let slow = Calibration { fixed_s: 1.0, per_recorded_s: 0.4 };
        let cut = fit(slow, &roles(&["data", "wal"]), 80.0, 1e9, 30.0, 10);
        let said = cut.cuts(&roles(&["data", "wal"]), 30.0).unwrap();
        for part in ["of the captured regions", "all operations of the logs", "the first", "s of 30"] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(said.contains("settings that screening left"), cut.settings < 10, "{said}");
        assert_eq!(said.contains("3 pairs instead of 5"), cut.pairs == 3, "{said}");
    }

    #[test]
    fn quick_trials_replay_all_and_race_all() {
        let f =
            fit(Calibration { fixed_s: 0.5, per_recorded_s: 0.02 }, &roles(&["data"]), 80.0, 1e9, 30.0, 10);
        assert_eq!((f.thin, f.seconds, f.settings, f.pairs), (1.0, 30.0, 10, 5));
    }

    #[test]
    fn slow_trials_lose_regions_first_then_time_then_rivals() {
        let f =
            fit(Calibration { fixed_s: 1.0, per_recorded_s: 0.4 }, &roles(&["data"]), 80.0, 1e9, 30.0, 10);
        assert!(f.thin < 1.0 && f.seconds >= 13.0, "{f:?}");
        // A small ARC cannot be made smaller: then there are fewer rivals.
        let g =
            fit(Calibration { fixed_s: 1.0, per_recorded_s: 0.4 }, &roles(&["data"]), 80.0, 67e6, 30.0, 10);
        assert!(g.thin > 0.99 && g.settings < f.settings && g.pairs == 3, "{g:?}");
        // Logs keep every byte and lose time.
        let w = fit(Calibration { fixed_s: 0.3, per_recorded_s: 1.0 }, &roles(&["wal"]), 25.0, 1e9, 30.0, 10);
        assert!(w.thin == 1.0 && w.seconds == 2.0 && w.settings >= 2, "{w:?}");
    }

    #[test]
    fn what_is_fitted_stays_inside_the_budget() {
        for per in [0.01, 0.1, 0.3, 1.0] {
            for role in ["data", "wal"] {
                let f = fit(
                    Calibration { fixed_s: 0.8, per_recorded_s: per },
                    &roles(&[role]),
                    60.0,
                    1e9,
                    60.0,
                    12,
                );
                let trials = f.settings as f64 * 1.75 + f64::from(2 * f.pairs);
                assert!(trials * f.trial_s <= 66.0 || f.settings == 2, "{role} {per}: {f:?}");
            }
        }
    }
}
