//! Chooses how much of the recording a trial replays, so that the time budget is kept.
//!
//! A trial replays the whole application, all files of all roles, at its recorded speed on the virtual clock, where replaying a recorded
//! second costs the CPU time of the storage's work. To save time, the tuner first shortens the replayed part of the recording, down to
//! [`MIN_PASS_S`], and then ends the search early: replaying fewer regions, a single role, or with a smaller ARC would distort the work
//! rate.

use std::time::Duration;

use poolwright_estimate::{first_pass_s, nominal_speed};
use poolwright_openzfs::property::parse_size;
use poolwright_replay::Replay;

use crate::candidates::Candidates;
use crate::race::{BASES, Ended, Outcome, PAIRS};
use crate::slice::ComparedSlice;

/// Share of a trial's work that warms up the caches and is not measured.
pub(crate) const WARM_SHARE: f64 = 0.2;
/// Seconds, on the trials' clock, of the shortest slice of a recording: the measured part then covers one transaction group (5 s),
/// whose writeback is part of the work.
const MIN_PASS_S: f64 = 6.25;
/// A slice is not representative if its bytes written per second differ from the whole recording's by more than
/// this share. The first 6 s of the steady databases of `docs/predictions.md` differ by at most 0.04, those of
/// RocksDB with updates by 0.37.
const BURSTY: f64 = 0.2;
/// An unrepresentative slice is made longer by up to this share of its length, in steps, until its bytes written
/// per second are nearest to the whole recording's.
const LONGER: f64 = 0.5;
const LONGER_STEPS: u32 = 20;
/// Recorded seconds of the calibration trial: slightly less than the shortest slice at recorded speed, because most
/// replays are slower than the recording.
pub(crate) const CALIBRATION_S: f64 = 5.5;
/// Lengths, as factors of the wanted one, at which the calibration trial counts as the first trial. If it were more
/// than a tenth longer, all trials together would lose more time than that one takes.
const ALIKE: std::ops::RangeInclusive<f64> = 0.85..=1.1;
/// The number of batches of trials that a race usually has, for the slice before the first trial.
const USUAL_BATCHES: f64 = 17.0;
/// The smallest number of trials that makes a race worthwhile: today's settings, two others, and a confirmation.
const MIN_TRIALS: usize = 3 + 2 * PAIRS as usize;
/// Seconds that a trial takes on a processor of the machine of `docs/derivations.md` ("What work costs") while the others are busy: its
/// start, each byte with which it fills its pool, and each operation that it replays. Means of eight recordings of six databases, whose
/// trials take 0.6 to
/// 1.4 times as long. They are constants, because a search that followed the speed of the machine would try other settings whenever
/// it is busy.
const START_S: f64 = 1.0;
const FILL_S: f64 = 3e-9;
const OPERATION_S: f64 = 45e-6;
/// The slowest codec of those recordings.
const USUAL_CODEC: &str = "zstd-3";
/// A codec is tried only if it takes at most this share of the budget to fill one trial's pool, and to begin the estimate of space.
const CODEC_SHARE: f64 = 0.05;
/// All codecs that are slower than the usual ones take at most this share of a race's budget.
const SLOW_CODECS_SHARE: f64 = 1.0 / 3.0;
/// A trial that takes this many times as long as expected is stopped: its start, filling or flushing hangs, because its pass ends
/// earlier ([`SLOW`]).
const SLOWEST: f64 = 20.0;
/// Seconds that a trial may take in addition: bytes that it moves are not expected, and a busy machine delays its start.
const GRACE_S: f64 = 300.0;
/// A trial's pass ends when it has taken this many times as long as a whole trial of today's settings.
const SLOW: f64 = 1.6;

/// The part of the recording that the trials of a race replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Recorded seconds from the begin of the trials.
    pub seconds: f64,
    /// Seconds that a trial is expected to take.
    pub trial_s: f64,
    /// Seconds, on the trials' clock, that a pass should take.
    pub pass_s: f64,
}

/// How long trials take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calibration {
    /// Recorded seconds of the calibration trial.
    pub seconds: f64,
    /// Expected seconds outside the pass: start and fill.
    pub fixed_s: f64,
    /// Expected seconds of the pass per recorded second.
    pub per_recorded_s: f64,
    /// Seconds of the pass, on the trial's clock, per recorded second.
    pub clock_per_recorded_s: f64,
}

impl Calibration {
    /// Computes the calibration from a trial of today's settings that replays `seconds` recorded seconds with `operations` operations.
    pub fn of(replay: &Replay, seconds: f64, operations: usize) -> Calibration {
        // Without a work rate, the first part of the work was a pass of its own.
        let warm = if replay.work_rate.is_some() { 1.0 } else { 1.0 - WARM_SHARE };
        let done = (seconds * replay.work_share.unwrap_or(1.0)).max(0.1);
        Calibration {
            seconds,
            fixed_s: fixed_s(replay.filled_bytes),
            per_recorded_s: operations as f64 * OPERATION_S / seconds,
            clock_per_recorded_s: replay.seconds / warm / done,
        }
    }

    /// Returns the recorded seconds that a pass of `pass_s` seconds of the trials' clock replays.
    fn replayed(&self, pass_s: f64, recorded: f64) -> f64 {
        (pass_s / self.clock_per_recorded_s.max(1e-3)).min(recorded)
    }

    /// Returns the expected seconds of a trial of `seconds` recorded seconds.
    pub fn trial_s(&self, seconds: f64) -> f64 {
        self.fixed_s + self.per_recorded_s * seconds
    }

    /// Returns the expected seconds of the shortest trial.
    pub fn least_trial_s(&self, recorded: f64) -> f64 {
        self.trial_s(self.replayed(MIN_PASS_S, recorded))
    }
}

/// Returns the recorded seconds that a trial will probably replay, before any trial shows how long they take.
pub(crate) fn expected_slice_s(budget_s: f64) -> f64 {
    at_best_calibrated(CALIBRATION_S, (budget_s / USUAL_BATCHES).max(MIN_PASS_S))
}

/// Returns `calibrated_s`, the length of the calibration trial, if `seconds` is about the same: the calibration then
/// counts as a trial of today's settings.
fn at_best_calibrated(calibrated_s: f64, seconds: f64) -> f64 {
    if ALIKE.contains(&(calibrated_s / seconds)) { calibrated_s } else { seconds }
}

/// Returns the time after which a trial is stopped that is expected to take `trial_s` seconds.
fn longest(trial_s: f64) -> Duration {
    Duration::from_secs_f64(SLOWEST * trial_s + GRACE_S)
}

/// Returns the time after which a trial is stopped that replays `operations` operations in a pool with `filled` bytes.
pub(crate) fn limit(operations: usize, filled: u64) -> Duration {
    longest(fixed_s(filled) + operations as f64 * OPERATION_S)
}

/// Returns the seconds that a trial takes longer than others because `codec` compresses the `filled` bytes of its pool, by the codec's
/// nominal speed.
pub(crate) fn compress_s(codec: &str, filled: u64) -> f64 {
    let of_byte = |codec| 1.0 / (nominal_speed(codec) * f64::from(1 << 20));
    filled as f64 * (of_byte(codec) - of_byte(USUAL_CODEC)).max(0.0)
}

/// Omits codecs that would take too much of the budget of the whole run, if a trial's pool has at most `captured` bytes of these files, which have
/// `bytes` bytes.
pub(crate) fn omit_slow(candidates: &mut Candidates, captured: u64, bytes: u64, budget_s: f64) {
    let block_sizes: Vec<u64> = candidates.block_sizes.iter().filter_map(|r| parse_size(r).ok()).collect();
    let all_bytes = bytes as f64 * block_sizes.len() as f64 / f64::from(1 << 20);
    let longest_s = CODEC_SHARE * budget_s;
    candidates.omit_slow(|codec| {
        let estimate_s = first_pass_s(&block_sizes, codec).min(all_bytes / nominal_speed(codec));
        let is_slow = nominal_speed(codec) < nominal_speed(USUAL_CODEC);
        is_slow && compress_s(codec, captured).max(estimate_s) > longest_s
    });
}

/// Omits the slowest codecs as long as all slow ones take too much of a race's budget. Returns the seconds that the others take.
pub(crate) fn omit_slowest(
    candidates: &mut Candidates,
    captured: u64,
    side_by_side: usize,
    budget_s: f64,
) -> f64 {
    loop {
        let slow_s = slow_codecs_s(candidates, captured, side_by_side);
        let speed = |codec: &&String| nominal_speed(codec);
        let slowest = candidates.compressions.iter().min_by(|a, b| speed(a).total_cmp(&speed(b))).cloned();
        match slowest.filter(|_| slow_s > SLOW_CODECS_SHARE * budget_s) {
            Some(slowest) => candidates.omit_slow(|codec| codec == slowest),
            None => return slow_s,
        }
    }
}

/// Returns the seconds that the slow codecs among the candidates take in a race at least: with each base, and in the confirmation of the slowest one.
fn slow_codecs_s(candidates: &Candidates, captured: u64, side_by_side: usize) -> f64 {
    let seconds = candidates.compressions.iter().map(|codec| compress_s(codec, captured));
    let slowest = seconds.clone().fold(0.0, f64::max);
    BASES as f64 * seconds.sum::<f64>() + (2 * PAIRS as usize).div_ceil(side_by_side) as f64 * slowest
}

fn fixed_s(filled: u64) -> f64 {
    START_S + filled as f64 * FILL_S
}

/// Returns the smallest number of batches that makes a race worthwhile.
pub(crate) fn least_batches(side_by_side: usize) -> usize {
    MIN_TRIALS.div_ceil(side_by_side)
}

/// Fits a race of `batches` batches of trials, but at least `least_batches`, into `budget_s` expected seconds. `recorded` is the length of
/// the recording from the begin of the trials, in seconds; `written` returns the ratio of [`crate::slice::Profile::written`] for a slice of
/// the given seconds.
pub(crate) fn fit(
    c: &Calibration,
    batches: usize,
    least_batches: usize,
    budget_s: f64,
    recorded: f64,
    written: &dyn Fn(f64) -> f64,
) -> Fit {
    let affordable_s = (budget_s / batches as f64 - c.fixed_s) / c.per_recorded_s.max(1e-3);
    let pass_s = (affordable_s * c.clock_per_recorded_s).max(MIN_PASS_S);
    let seconds = at_best_calibrated(c.seconds, c.replayed(pass_s, recorded));
    let of =
        |seconds: f64| Fit { seconds, trial_s: c.trial_s(seconds), pass_s: c.clock_per_recorded_s * seconds };
    let off = |seconds: f64| (written(seconds) - 1.0).abs();
    if off(seconds) <= BURSTY {
        return of(seconds);
    }
    let longer =
        (1..=LONGER_STEPS).map(|n| seconds * (1.0 + LONGER * f64::from(n) / f64::from(LONGER_STEPS)));
    let affordable = |s: &f64| *s <= recorded && least_batches as f64 * of(*s).trial_s <= budget_s;
    let near = longer.filter(affordable).map(|s| (off(s), s)).min_by(|a, b| a.0.total_cmp(&b.0));
    of(near.filter(|(there, _)| *there < off(seconds)).map_or(seconds, |(_, s)| s))
}

impl Fit {
    /// Returns the seconds, on the trials' clock, after which a pass ends, however much of the work is done: a setting that
    /// slow cannot win.
    pub fn longest_s(&self) -> f64 {
        SLOW * self.trial_s.max(self.pass_s)
    }

    /// Returns the time after which a trial is stopped.
    pub fn limit(&self) -> Duration {
        longest(self.trial_s)
    }

    /// Describes how the time budget shortened the race, which replayed `part`, or returns `None` if it did not.
    pub(crate) fn cuts(&self, part: &ComparedSlice, outcome: &Outcome) -> Option<String> {
        let mut cuts = Vec::new();
        let begin_s = part.slice.begin_s;
        if self.seconds < 0.99 * (part.recorded_s - begin_s) {
            let replayed = if begin_s > 0.0 {
                format!("{begin_s:.0} s to {:.0} s", part.slice.end_s())
            } else {
                format!("the first {:.0} s", self.seconds)
            };
            cuts.push(format!(
                "the trials replayed {replayed} of {:.0} s; {:.0} % of these operations would have to differ to match the mixture of \
                 the whole recording",
                part.recorded_s,
                part.distance * 100.0
            ));
            if (part.written - 1.0).abs() > BURSTY {
                let less = if part.written < 1.0 { "fewer" } else { "more" };
                cuts.push(format!(
                    "these seconds have {:.0} % {less} bytes written per busy second than the whole recording, so changes of the \
                     bytes written are uncertain; a larger budget allows longer trials",
                    100.0 * (part.written - 1.0).abs()
                ));
            }
        }
        if !outcome.too_slow.is_empty() {
            let codecs = outcome.too_slow.join(", ");
            cuts.push(format!("these codecs were not tried, because they take too long: {codecs}"));
        }
        if outcome.ended == Ended::OutOfTrials {
            cuts.push(format!(
                "the search ended after {}; others may be better",
                poolwright_base::units::counted(outcome.others.len() as u64, "setting")
            ));
        }
        (!cuts.is_empty()).then(|| format!("to keep to the time budget: {}", cuts.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use poolwright_trace::layout::Role;

    use super::*;
    use crate::candidates::grid;
    use crate::race::Runner;
    use crate::slice::Slice;

    const BATCHES: usize = 26;

    fn calibration(fixed_s: f64, per_recorded_s: f64) -> Calibration {
        Calibration { seconds: CALIBRATION_S, fixed_s, per_recorded_s, clock_per_recorded_s: per_recorded_s }
    }

    #[test]
    fn only_what_was_cut_is_called_cut() {
        let mut outcome = Outcome::new(Runner::new(Default::default()));
        let all = fit(&calibration(0.5, 0.02), BATCHES, MIN_TRIALS, 80.0, 15.0, &|_| 1.0);
        let part = |fit: &Fit, begin_s, recorded_s, distance, written| {
            let slice = Slice { begin_s, seconds: fit.seconds };
            ComparedSlice { slice, recorded_s, distance, written }
        };
        assert_eq!(all.cuts(&part(&all, 0.0, 15.0, 0.0, 1.0), &outcome), None, "{all:?}");
        assert_eq!(all.cuts(&part(&all, 30.0, 45.0, 0.0, 1.0), &outcome), None, "{all:?}");
        let cut = fit(&calibration(2.0, 1.0), BATCHES, MIN_TRIALS, 80.0, 30.0, &|_| 1.0);
        outcome.ended = Ended::OutOfTrials;
        let message = cut.cuts(&part(&cut, 0.0, 30.0, 0.03, 0.67), &outcome).unwrap();
        for part in [
            "the first 6 s of 30 s",
            " 3 % of these operations would",
            "33 % fewer bytes written",
            "ended after 0 settings",
        ] {
            assert!(message.contains(part), "{message}");
        }
        let steady = cut.cuts(&part(&cut, 12.0, 30.0, 0.03, 1.1), &outcome).unwrap();
        assert!(steady.contains("12 s to 18 s of 30 s") && !steady.contains("bytes written"), "{steady}");
    }

    #[test]
    fn a_codec_that_takes_too_much_of_the_budget_is_omitted_and_named() {
        let after = |role, captured, budget_s| {
            let mut candidates = grid(role).candidates(u64::MAX, 0);
            omit_slow(&mut candidates, captured, captured, budget_s);
            candidates
        };
        // 64M take 32 s with zstd-19, 3.8 s with gzip-9, and 1.7 s with zstd-9 and gzip-6.
        assert_eq!(after(Role::Archive, 64 << 20, 60.0).too_slow, ["zstd-19", "gzip-9"]);
        // The estimate of records up to 16M begins with 32 s of zstd-19, and takes 3.5 s for all bytes of 1M.
        assert_eq!(after(Role::Archive, 20 << 20, 300.0).too_slow, ["zstd-19"]);
        assert!(after(Role::Archive, 1 << 20, 300.0).too_slow.is_empty());
        assert!(after(Role::Archive, 64 << 20, 3600.0).too_slow.is_empty());
        let usual = after(Role::Data, 64 << 30, 1.0);
        assert_eq!((usual.too_slow.len(), slow_codecs_s(&usual, 64 << 30, 2)), (0, 0.0));
        // Two codecs of 1.7 s, with two bases each, and two batches of the confirmation.
        let mut slow = after(Role::Archive, 64 << 20, 60.0);
        let seconds = omit_slowest(&mut slow, 64 << 20, 2, 60.0);
        assert!((10.0..10.5).contains(&seconds) && slow.too_slow.len() == 2, "{seconds} {slow:?}");
        assert_eq!(omit_slowest(&mut slow, 64 << 20, 2, 8.0), 0.0);
        assert_eq!(
            (slow.too_slow.len(), &slow.compressions[..]),
            (4, &["off", "lz4", "zstd-3"].map(String::from)[..])
        );

        let mut outcome = Outcome::new(Runner::new(Default::default()));
        outcome.too_slow = vec!["zstd-19".into(), "gzip-9".into()];
        let all = fit(&calibration(0.5, 0.02), BATCHES, MIN_TRIALS, 80.0, 15.0, &|_| 1.0);
        let slice = Slice { begin_s: 0.0, seconds: all.seconds };
        let part = ComparedSlice { slice, recorded_s: 15.0, distance: 0.0, written: 1.0 };
        assert_eq!(
            all.cuts(&part, &outcome).unwrap(),
            "to keep to the time budget: these codecs were not tried, because they take too long: zstd-19, gzip-9"
        );
    }

    #[test]
    fn a_slice_before_a_burst_is_made_longer() {
        // Half of the bytes of 15 s are written in the seventh second.
        let written = |s: f64| {
            let burst = 14.0 * (s - 6.0).clamp(0.0, 1.0);
            15.0 / 28.0 * (s + burst - (s - 6.0).clamp(0.0, 1.0)) / s
        };
        let f = fit(&calibration(1.5, 1.0), BATCHES, MIN_TRIALS, 120.0, 15.0, &written);
        assert!((6.0..7.0).contains(&f.seconds) && (written(f.seconds) - 1.0).abs() < 0.1, "{f:?}");
        assert!((f.trial_s - 1.5 - f.seconds).abs() < 1e-9, "{f:?}");
        // The slice is not extended if too few trials would remain, nor by more than half.
        assert_eq!(
            fit(&calibration(1.5, 1.0), BATCHES, MIN_TRIALS, 50.0, 15.0, &written).seconds,
            CALIBRATION_S
        );
        let late = |s: f64| if s < 9.0 { 0.5 } else { 1.0 };
        assert_eq!(
            fit(&calibration(1.5, 1.0), BATCHES, MIN_TRIALS, 120.0, 15.0, &late).seconds,
            CALIBRATION_S
        );
    }

    #[test]
    fn slow_trials_lose_time() {
        let f = fit(&calibration(1.0, 1.0), BATCHES, MIN_TRIALS, 100.0, 30.0, &|_| 1.0);
        assert_eq!(f.seconds, CALIBRATION_S, "{f:?}");
        let f = fit(&calibration(1.0, 1.0), BATCHES, MIN_TRIALS, 400.0, 30.0, &|_| 1.0);
        assert!(f.seconds > 2.0 * MIN_PASS_S, "{f:?}");
        // A short recording is replayed whole.
        assert_eq!(fit(&calibration(1.0, 1.0), BATCHES, MIN_TRIALS, 100.0, 4.0, &|_| 1.0).seconds, 4.0);
        // If the replay is faster or slower than the recording, the slice changes accordingly.
        let f = fit(&calibration(1.0, 0.5), BATCHES, MIN_TRIALS, 100.0, 30.0, &|_| 1.0);
        assert_eq!((f.seconds, f.trial_s), (2.0 * MIN_PASS_S, 1.0 + MIN_PASS_S));
    }

    /// A pass on the virtual clock takes less time of this machine.
    #[test]
    fn a_pass_is_as_long_as_needed_on_the_trials_clock() {
        let of = |per_recorded_s, budget_s| {
            let c = Calibration { per_recorded_s, clock_per_recorded_s: 1.0, ..calibration(1.0, 1.0) };
            fit(&c, BATCHES, MIN_TRIALS, budget_s, 60.0, &|_| 1.0)
        };
        let quick = of(0.25, 100.0);
        assert!((quick.seconds - (100.0 / BATCHES as f64 - 1.0) / 0.25).abs() < 1e-9, "{quick:?}");
        assert!(
            (quick.trial_s - 100.0 / BATCHES as f64).abs() < 1e-9 && quick.pass_s > 2.0 * quick.trial_s,
            "{quick:?}"
        );
        assert_eq!(of(0.01, 400.0).seconds, 60.0, "the whole recording");
        assert_eq!(of(2.0, 100.0).seconds, CALIBRATION_S);
    }

    #[test]
    fn what_is_fitted_stays_inside_the_budget() {
        for per in [0.01, 0.1, 0.3, 1.0] {
            let f = fit(&calibration(0.8, per), BATCHES, MIN_TRIALS, 100.0, 60.0, &|_| 1.0);
            assert!(MIN_TRIALS as f64 * f.trial_s <= 100.0, "{per}: {f:?}");
        }
    }
}
