//! Compares the original's statements with the measurements.

use poolwright_base::stats::PairedRatio;
use poolwright_report::Unit;
use schemars::JsonSchema;
use serde::Serialize;

use super::{format, measures};
use crate::campaign::{Case, Claim, Study, Times};
use crate::claim_test::{ClaimVerdict, TestedClaim, test_claim};
use crate::store::Trial;

/// A claim with the original's and the measured figures.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClaimResult {
    /// Name of the claim's study.
    pub study: String,
    /// The statement in our words.
    pub text: String,
    /// The measure that tests the claim.
    pub measure: String,
    /// Unit of the measured figures.
    pub unit: String,
    /// The case that is better according to the original.
    pub better: Case,
    /// The case with which it is compared; empty if `least` is set.
    pub than: Case,
    /// The bound that `better` has to reach, in `unit`. With `times`: the value that it is compared with.
    pub least: Option<f64>,
    /// Whether a lower value is better.
    pub lower: bool,
    /// How many times better it has to be, if the claim states this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<Times>,
    /// The limit within which `better` stays and which `than` exceeds, in `unit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    /// Whether the statement names `than` first.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub than_first: bool,
    /// The relative difference that is too small to matter, if the claim has such a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub equal: Option<f64>,
    /// Where the original makes the statement; empty if it is the campaign's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// The original's figures for `better` and `than`, in `unit`.
    pub original: Option<[f64; 2]>,
    /// Measured medians over all pairs, in `unit`.
    pub ours: Option<[f64; 2]>,
    /// Ratio of `better` to `than`: the median of all pairs; of a claim that repeats undecided trials, the geometric mean of the pairs that
    /// decided it.
    pub ratio: Option<f64>,
    /// The interval of the ratio, 95 % over all analyses of the claim.
    pub ci95: Option<(f64, f64)>,
    /// Number of pairs of trials.
    pub pairs: usize,
    /// The verdict.
    pub verdict: ClaimVerdict,
    /// The claim and its result as one line of text.
    pub line: String,
}

/// Tests every claim of a study.
pub fn results(study: &Study, trials: &[Trial]) -> Vec<ClaimResult> {
    study.claims.iter().map(|claim| result(study, trials, claim)).collect()
}

fn result(study: &Study, trials: &[Trial], claim: &Claim) -> ClaimResult {
    let TestedClaim { verdict, ratio, pairs } = test_claim(study, trials, claim, u32::MAX);
    let unit = format::unit(study, trials, &claim.measure);
    let ours = format::medians(&pairs).map(|(than, better)| [better, than]);
    ClaimResult {
        study: study.name.clone(),
        line: line(claim, verdict, &unit, ours, ratio.as_ref()),
        text: claim.text.clone(),
        measure: claim.measure.clone(),
        unit,
        better: claim.better.clone(),
        than: claim.than.clone(),
        least: claim.least,
        lower: claim.lower,
        times: claim.times,
        limit: claim.limit,
        than_first: claim.than_first,
        equal: claim.decide.and_then(|decide| decide.equal),
        source: claim.source.clone(),
        original: claim.report,
        ours,
        ratio: ratio.as_ref().map(|r| r.ratio),
        ci95: ratio.as_ref().and_then(|r| r.interval),
        pairs: ratio.as_ref().map_or(0, |r| r.pairs),
        verdict,
    }
}

/// Formats the result: `agrees: all imports faster than none – here 812/s (all) against 190/s (none), 4.27x (4.10x
/// to 4.41x); the original 6k/s against 1.4k/s, 4.29x`. The figures follow the order of the statement.
fn line(
    claim: &Claim,
    verdict: ClaimVerdict,
    unit: &str,
    ours: Option<[f64; 2]>,
    ratio: Option<&PairedRatio>,
) -> String {
    let mut line = format!("{}: {}", label(verdict, claim), claim.text);
    let show = |v| measures::format(&claim.measure, unit, v);
    match (ours, claim.least) {
        (Some([better, least]), Some(_)) => {
            line += &format!(" – here {}{} {}", show(better), bound(claim), show(least));
        }
        (Some([better, than]), None) => {
            let (names_better, names_than) = format::apart(&claim.better, &claim.than);
            let better = format!("{} ({names_better})", show(better));
            let than = format!("{} ({names_than})", show(than));
            let [first, second] = ordered(claim.than_first, [better, than]);
            line += &format!(" – here {first} against {second}");
        }
        (None, _) => {}
    }
    if let Some(ratio) = ratio {
        let shown = if claim.than_first { ratio.inverse() } else { ratio.clone() };
        line += &format!(", {}", format::ratio(&shown));
        line += &wanted(claim, unit);
        if verdict == ClaimVerdict::TooFew && ratio.ratio != 1.0 {
            let same = (ratio.ratio < 1.0) == claim.lower;
            line += if same { ", in the same direction" } else { ", in the other direction" };
        }
    }
    if let Some([better, than]) = claim.report {
        line += &format!("; the original {}", original(claim, unit, [better, than]));
    }
    line
}

/// Formats the verdict: `equal within 5 %`.
fn label(verdict: ClaimVerdict, claim: &Claim) -> String {
    match (verdict, claim.decide.and_then(|decide| decide.equal)) {
        (ClaimVerdict::Equal, Some(equal)) => format!("equal within {}", Unit::Fraction.format(equal)),
        _ => verdict.label().to_owned(),
    }
}

/// Returns the pair in the order in which the statement names the cases.
pub fn ordered<T>(than_first: bool, [better, than]: [T; 2]) -> [T; 2] {
    if than_first { [than, better] } else { [better, than] }
}

/// Formats the bounds of the displayed ratio or figures for the statement to be true; empty for a mere direction.
fn wanted(claim: &Claim, unit: &str) -> String {
    if let Some(limit) = claim.limit {
        let (inside, outside) = if claim.lower { ("below", "above") } else { ("above", "below") };
        let (better, than) = format::apart(&claim.better, &claim.than);
        let limit = measures::format(&claim.measure, unit, limit);
        return format!(", wanted {inside} {limit} ({better}) and {outside} it ({than})");
    }
    claim.times.map_or(String::new(), |times| {
        format!(", wanted {}", format::range(times, claim.lower != claim.than_first))
    })
}

/// Formats the relation of the measured figure to the stated one.
fn bound(claim: &Claim) -> &'static str {
    match (claim.times, claim.lower) {
        (Some(_), _) => " against",
        (None, true) => ", wanted at most",
        (None, false) => ", wanted at least",
    }
}

/// Formats the original's figures, in the measure's unit as in the campaign, and their ratio.
fn original(claim: &Claim, unit: &str, figures: [f64; 2]) -> String {
    let show = |v| measures::format(&claim.measure, unit, v);
    if claim.least.is_some() {
        return show(figures[0]);
    }
    let [first, second] = ordered(claim.than_first, figures);
    let ratio = Some(first / second).filter(|r| r.is_finite());
    let ratio = ratio.map_or(String::new(), |r| format!(", {}", Unit::Ratio.format(r)));
    format!("{} against {}{ratio}", show(first), show(second))
}

#[cfg(test)]
mod tests;
