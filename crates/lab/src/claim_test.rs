//! Decides claims: whether the measurements agree with the original's statements.
//!
//! A claim without a rule is tested once, with all trials of the study. A claim with a rule ([`Decide`](crate::campaign::Decide)) is tested
//! after every block, from the second one on, until it is decided; the first decision stays. The intervals of these analyses are
//! repeated confidence intervals (C. Jennison, B. W. Turnbull, *Journal of the Royal Statistical Society B* 51, 1989): the analyses share the 5 %
//! ([`interim_levels`]), so all intervals of a claim together miss the true ratio in at most 5 % of the runs (in simulated ones: 3 to 4.5 %). Each
//! is made from the claim's own figures ([`PairedRatio::of_means_at`]): variances pooled over a study's cases gave false verdicts in 6 to 10 % of
//! simulated runs whose cases vary differently.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use poolwright_base::stats::{Direction, PairedRatio, interim_levels};
use schemars::JsonSchema;
use serde::Serialize;

use crate::campaign::{Claim, Study};
use crate::statistics::claim_pairs;
use crate::store::Trial;

/// The probability with which an interval misses the true ratio.
const ALPHA: f64 = 0.05;
/// The number of blocks after which a claim with a rule is tested first: two pairs have an interval.
pub(crate) const FIRST_TEST: u32 = 2;

/// The result of testing a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// The interval of the ratio lies entirely on the side that the original states.
    Agrees,
    /// The interval lies entirely on the other side.
    DoesNotAgree,
    /// The original states a direction, and the interval lies within the difference that is too small to matter.
    Equal,
    /// The interval contains 1, and the original states only a direction.
    NoDifference,
    /// The interval contains the bound of the original's statement.
    Unclear,
    /// There is no interval, because there are too few pairs of trials.
    TooFew,
    /// One of the two cases has no value.
    NotMeasured,
}

impl ClaimVerdict {
    /// All verdicts, in the order of display.
    pub const ALL: [ClaimVerdict; 7] = [
        ClaimVerdict::Agrees,
        ClaimVerdict::DoesNotAgree,
        ClaimVerdict::Equal,
        ClaimVerdict::NoDifference,
        ClaimVerdict::Unclear,
        ClaimVerdict::TooFew,
        ClaimVerdict::NotMeasured,
    ];

    /// Returns the verdict as reports print it.
    pub fn label(self) -> &'static str {
        match self {
            ClaimVerdict::Agrees => "agrees",
            ClaimVerdict::DoesNotAgree => "does not agree",
            ClaimVerdict::Equal => "equal",
            ClaimVerdict::NoDifference => "no difference beyond noise",
            ClaimVerdict::Unclear => "too close to tell",
            ClaimVerdict::TooFew => "too few trials to tell",
            ClaimVerdict::NotMeasured => "not measured",
        }
    }

    /// Whether the measurements answer the question.
    pub fn is_decided(self) -> bool {
        matches!(self, ClaimVerdict::Agrees | ClaimVerdict::DoesNotAgree | ClaimVerdict::Equal)
    }
}

/// A claim's verdict and the figures behind it.
#[derive(Clone, Debug)]
pub(crate) struct TestedClaim {
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// `better` over `than` or over `least`.
    pub ratio: Option<PairedRatio>,
    /// The pairs (`than` or `least`, `better`) that it was made from.
    pub pairs: Vec<(f64, f64)>,
}

/// Decides a claim with the trials of the first `blocks` blocks; `u32::MAX`: of all.
pub(crate) fn test_claim(study: &Study, trials: &[Trial], claim: &Claim, blocks: u32) -> TestedClaim {
    let all = claim_pairs(study, trials, claim);
    let of_blocks = |blocks: u32| {
        let pairs = all.iter().filter(|(block, _)| *block < blocks);
        pairs.map(|(_, pair)| *pair).collect::<Vec<_>>()
    };
    let measured = all.iter().map(|(block, _)| block + 1).max().unwrap_or(0).min(blocks);
    let Some(decide) = claim.decide.filter(|_| measured > 0) else {
        return of_pairs(claim, of_blocks(measured), None);
    };
    let mut tests = interim_analyses(first_test(study), decide.most, measured)
        .map(|at| of_pairs(claim, of_blocks(at.blocks), Some(at.alpha)))
        .peekable();
    loop {
        let test = tests.next().expect("a measured block has an analysis");
        if test.verdict.is_decided() || tests.peek().is_none() {
            return test;
        }
    }
}

fn first_test(study: &Study) -> u32 {
    study.repeats.min(FIRST_TEST)
}

/// Returns the number of further blocks after which an undecided claim is decided if their figures repeat those of the first `blocks` blocks, or
/// `None` if that is more than its rule allows.
pub(crate) fn blocks_to_decision(study: &Study, trials: &[Trial], claim: &Claim, blocks: u32) -> Option<u32> {
    let most = claim.decide?.most;
    let all = claim_pairs(study, trials, claim).into_iter().filter(|(block, _)| *block < blocks);
    let (numbers, pairs): (BTreeSet<u32>, Vec<(f64, f64)>) = all.unzip();
    let measured = numbers.len();
    let is_decided = |later: &InterimAnalysis| {
        let more = (later.blocks - blocks) as usize;
        let number = pairs.len() * (measured + more) / measured.max(1);
        let expected = pairs.iter().copied().cycle().take(number).collect();
        of_pairs(claim, expected, Some(later.alpha)).verdict.is_decided()
    };
    let mut later = interim_analyses(first_test(study), most, u32::MAX).filter(|at| at.blocks > blocks);
    later.find(is_decided).map(|at| at.blocks - blocks)
}

/// A test of a claim after a block.
#[derive(Clone, Copy, Debug, PartialEq)]
struct InterimAnalysis {
    /// The number of blocks whose trials it uses.
    blocks: u32,
    /// The probability with which its interval alone misses the true ratio.
    alpha: f64,
}

/// The analyses of a claim: after `first` to `most` blocks, as far as there are that many. If there are fewer than `first`, the only one has the
/// level of the first one.
fn interim_analyses(first: u32, most: u32, blocks: u32) -> impl Iterator<Item = InterimAnalysis> {
    let all = levels(first, most);
    let few = (0 < blocks && blocks < first).then(|| InterimAnalysis { blocks, alpha: all[0] });
    let until = most.min(blocks);
    few.into_iter()
        .chain((first..=until).map(move |n| InterimAnalysis { blocks: n, alpha: all[(n - first) as usize] }))
}

/// [`interim_levels`], computed once: claims are tested after every trial.
fn levels(first: u32, most: u32) -> Arc<[f64]> {
    type ByFirstAndMost = BTreeMap<(u32, u32), Arc<[f64]>>;
    static KNOWN: Mutex<ByFirstAndMost> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("no thread panics with the lock");
    Arc::clone(known.entry((first, most)).or_insert_with(|| interim_levels(ALPHA, first, most).into()))
}

/// Tests a claim on pairs. `alpha`: of an interim analysis; `None`: of a claim that is tested once, on the median.
pub(crate) fn of_pairs(claim: &Claim, pairs: Vec<(f64, f64)>, alpha: Option<f64>) -> TestedClaim {
    let ratio = ratio(&pairs, alpha);
    TestedClaim { verdict: verdict(claim, ratio.as_ref(), &pairs, alpha), ratio, pairs }
}

fn ratio(pairs: &[(f64, f64)], alpha: Option<f64>) -> Option<PairedRatio> {
    match alpha {
        None => PairedRatio::of_medians(pairs),
        Some(alpha) => PairedRatio::of_means_at(pairs, alpha),
    }
}

fn verdict(
    claim: &Claim,
    ratio: Option<&PairedRatio>,
    pairs: &[(f64, f64)],
    alpha: Option<f64>,
) -> ClaimVerdict {
    let Some(ratio) = ratio else { return ClaimVerdict::NotMeasured };
    let Some((low, high)) = ratio.interval else { return ClaimVerdict::TooFew };
    if let Some(limit) = claim.limit {
        return on_both_sides(pairs, limit, claim.lower, alpha);
    }
    // Convert to "how many times better".
    let (low, high) = if claim.lower { (1.0 / high, 1.0 / low) } else { (low, high) };
    if let Some(times) = claim.times {
        let most = times.most.unwrap_or(f64::INFINITY);
        return match (low >= times.least && high <= most, high < times.least || low > most) {
            (true, _) => ClaimVerdict::Agrees,
            (_, true) => ClaimVerdict::DoesNotAgree,
            _ => ClaimVerdict::Unclear,
        };
    }
    let is_within = |equal: f64| low >= 1.0 / (1.0 + equal) && high <= 1.0 + equal;
    match claim.decide.and_then(|decide| decide.equal) {
        _ if low > 1.0 => ClaimVerdict::Agrees,
        _ if high < 1.0 => ClaimVerdict::DoesNotAgree,
        _ if claim.least.is_some() => ClaimVerdict::Unclear,
        Some(equal) if is_within(equal) => ClaimVerdict::Equal,
        _ => ClaimVerdict::NoDifference,
    }
}

/// Whether `better` stays within the limit and `than` exceeds it, each beyond noise.
fn on_both_sides(pairs: &[(f64, f64)], limit: f64, lower: bool, alpha: Option<f64>) -> ClaimVerdict {
    let side = |pick: fn(&(f64, f64)) -> f64| {
        let figures: Vec<(f64, f64)> = pairs.iter().map(|pair| (limit, pick(pair))).collect();
        ratio(&figures, alpha).map_or(Direction::TooFew, |r| r.direction())
    };
    let (than, better) = (side(|p| p.0), side(|p| p.1));
    let (inside, outside) =
        if lower { (Direction::Lower, Direction::Higher) } else { (Direction::Higher, Direction::Lower) };
    match (better, than) {
        (Direction::TooFew, _) | (_, Direction::TooFew) => ClaimVerdict::TooFew,
        (better, than) if better == inside && than == outside => ClaimVerdict::Agrees,
        (better, than) if better == outside || than == inside => ClaimVerdict::DoesNotAgree,
        _ => ClaimVerdict::Unclear,
    }
}

#[cfg(test)]
mod tests;
