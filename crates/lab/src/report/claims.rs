//! What the original says, held against what was measured here.

use serde::Serialize;

use super::{measures, words};
use crate::campaign::{Case, Claim, Study};
use crate::statistics::{self, Ratio, Verdict as Direction};
use crate::store::Trial;

/// How a claim fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval of the ratio lies wholly on the side that the original says.
    Agrees,
    /// It lies wholly on the other side.
    DoesNotAgree,
    /// It holds 1.
    NoDifference,
    /// There is no interval: a single pair of trials.
    TooFew,
    /// One of the two cases has no figure.
    NotMeasured,
}

impl Verdict {
    /// All of them, in the order they are counted in.
    pub const ALL: [Verdict; 5] = [
        Verdict::Agrees,
        Verdict::DoesNotAgree,
        Verdict::NoDifference,
        Verdict::TooFew,
        Verdict::NotMeasured,
    ];

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Agrees => "agrees",
            Verdict::DoesNotAgree => "does not agree",
            Verdict::NoDifference => "no difference beyond noise",
            Verdict::TooFew => "too few trials to tell",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A claim with both sides' figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClaimResult {
    /// The study it is of.
    pub study: String,
    /// In our words.
    pub text: String,
    /// What shows it.
    pub measure: String,
    /// Of our figures.
    pub unit: String,
    /// The case that is said to be better.
    pub better: Case,
    /// The case it is compared with; empty where it is `least`.
    pub than: Case,
    /// What `better` has to reach.
    pub least: Option<f64>,
    /// Better is less.
    pub lower: bool,
    /// The original's figures for `better` and `than`.
    pub original: Option<[f64; 2]>,
    /// Ours: medians over all pairs.
    pub ours: Option<[f64; 2]>,
    /// Median of `better` over `than`, pair by pair, with its 95 % interval.
    pub ratio: Option<f64>,
    /// Of the ratio.
    pub ci95: Option<(f64, f64)>,
    /// Pairs of trials.
    pub pairs: usize,
    /// What comes out.
    pub verdict: Verdict,
    /// All of it in a line.
    pub line: String,
}

/// Every claim of a study.
pub fn results(study: &Study, trials: &[Trial]) -> Vec<ClaimResult> {
    study.claims.iter().map(|claim| result(study, trials, claim)).collect()
}

fn result(study: &Study, trials: &[Trial], claim: &Claim) -> ClaimResult {
    let ratio = statistics::claim(study, trials, claim);
    let pairs = statistics::claim_pairs(study, trials, claim);
    let unit = words::unit(study, trials, &claim.measure);
    let ours = words::medians(&pairs).map(|(than, better)| [better, than]);
    let verdict = verdict(ratio.as_ref(), claim.lower);
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
        original: claim.report,
        ours,
        ratio: ratio.as_ref().map(|r| r.ratio),
        ci95: ratio.as_ref().and_then(|r| r.interval),
        pairs: ratio.as_ref().map_or(0, |r| r.pairs),
        verdict,
    }
}

fn verdict(ratio: Option<&Ratio>, lower: bool) -> Verdict {
    match ratio.map(Ratio::verdict) {
        None => Verdict::NotMeasured,
        Some(Direction::TooFew) => Verdict::TooFew,
        Some(Direction::NoDifference) => Verdict::NoDifference,
        Some(Direction::Lower) if lower => Verdict::Agrees,
        Some(Direction::Higher) if !lower => Verdict::Agrees,
        Some(Direction::Lower | Direction::Higher) => Verdict::DoesNotAgree,
    }
}

/// `agrees: all imports faster than none – here 812/s against 190/s, 4.27x (4.10x to 4.41x); the original 6k/s against
/// 1.4k/s, 4.29x`.
fn line(
    claim: &Claim,
    verdict: Verdict,
    unit: &str,
    ours: Option<[f64; 2]>,
    ratio: Option<&Ratio>,
) -> String {
    let mut line = format!("{}: {}", verdict.words(), claim.text);
    if let Some([better, than]) = ours {
        let show = |v| measures::format(&claim.measure, unit, v);
        line += &format!(" – here {}{}{}", show(better), bound(claim.least, claim.lower), show(than));
    }
    if let Some(ratio) = ratio {
        line += &format!(", {}", words::ratio(ratio));
        if verdict == Verdict::TooFew && ratio.ratio != 1.0 {
            let same = (ratio.ratio < 1.0) == claim.lower;
            line += if same { ", in the same direction" } else { ", in the other direction" };
        }
    }
    if let Some([better, than]) = claim.report {
        line += &format!("; the original {}", original(claim, unit, [better, than]));
    }
    line
}

/// What stands between the two figures.
fn bound(least: Option<f64>, lower: bool) -> &'static str {
    match (least, lower) {
        (None, _) => " against ",
        (Some(_), false) => ", wanted at least ",
        (Some(_), true) => ", wanted at most ",
    }
}

/// The original's figures, in the measure's unit as a campaign gives them, and their ratio.
fn original(claim: &Claim, unit: &str, [better, than]: [f64; 2]) -> String {
    let show = |v| measures::format(&claim.measure, unit, v);
    if claim.least.is_some() {
        return show(better);
    }
    let ratio = Some(better / than).filter(|r| r.is_finite());
    let ratio = ratio.map_or(String::new(), |r| format!(", {}", poolwright_report::Unit::Ratio.format(r)));
    format!("{} against {}{ratio}", show(better), show(than))
}
