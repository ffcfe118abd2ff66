//! Recommendations: what the original's author would choose today, by a goal over the measured figures.
//!
//! Only cases that cannot lose data are candidates: a dangerous setting is listed with its figures, but never
//! recommended. Settings whose intervals do not separate them are listed.

mod candidate;
mod safety;
mod sentence;

use std::cmp::Ordering;

use poolwright_base::stats::{Direction, PairedRatio};
use poolwright_openzfs::property;
use poolwright_plan::MetricName;
use schemars::JsonSchema;
use serde::Serialize;

use super::figure::Figure;
use super::format;
use crate::campaign::{MeasureInfo, Recommend, Study, base_value};
use crate::store::Trial;
use candidate::{Candidate, Contest};

pub use sentence::goal;

/// An interval that reaches further from its median than this fraction is too wide to support a choice between settings. That
/// is about the 95 % interval of the median of three trials at the standard deviation of 10 % above which a cell counts as
/// varying: 4.30 (Student's t, 2 degrees of freedom) × 1.25 (of a median) × 0.1 / √3 = 0.31.
const WIDE: f64 = 0.3;

/// The answer to a question of the campaign: the values to choose, and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// The question in a few words.
    pub question: String,
    /// Role of the dataset whose properties are chosen; `null` if levels of factors are.
    pub dataset: Option<String>,
    /// Name of the study behind the recommendation.
    pub study: String,
    /// The goal that decides, as for `tune`.
    pub goal: String,
    /// The measures that count, in the order of the tuner's metrics.
    pub criteria: Vec<Weighed>,
    /// Recommended values; the present ones if no value is better beyond noise.
    pub set: Vec<(String, String)>,
    /// Whether the values are better than the others beyond noise.
    pub verdict: Choice,
    /// Name of the case with the best objective in tables.
    pub case: Option<String>,
    /// Everything that was tried: first the Pareto front, and within it and after it the best objective first.
    pub settings: Vec<Alternative>,
    /// The original's choice, if it made one and it was measured.
    pub original: Option<String>,
    /// Figures whose interval reaches further than 30 % of their median, of the settings that the intervals do not separate.
    pub imprecise: Vec<Imprecise>,
    /// Better but dangerous settings, each with the reason.
    pub dangerous: Vec<String>,
    /// Dangerous settings that were the same in all cases.
    pub conditions: Vec<String>,
    /// The recommendation and its evidence as text.
    pub line: String,
}

/// A measure with its weight in the goal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Weighed {
    /// The metric of `tune` for which it stands.
    pub metric: MetricName,
    /// The measure.
    #[serde(flatten)]
    pub info: MeasureInfo,
    /// Its weight; the weights add up to 1. 0 if the goal does not weigh it.
    pub weight: f64,
}

/// How certain a recommendation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Better than every other value beyond noise.
    Best,
    /// Better than some values, and not separated from the others.
    AmongBest,
    /// No value is better than another beyond noise.
    NoDifference,
    /// There are too few trials for intervals; the best median was chosen.
    TooFew,
    /// Nothing was measured.
    NotMeasured,
}

/// Values that were tried.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alternative {
    /// Property or factor → value.
    pub set: Vec<(String, String)>,
    /// The best case with these values.
    pub case: String,
    /// A figure for each criterion; `null` if it was not measured.
    pub figures: Vec<Option<Figure>>,
    /// Whether no other setting is better in one criterion and worse in none, beyond noise.
    pub front: bool,
    /// Ratio of its objective to that of the best case, pair by pair; above 1, it is worse.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub ci95: Option<(f64, f64)>,
    /// Whether it is worse than the best case beyond noise.
    pub worse: bool,
}

/// A figure whose interval is too wide to support a choice.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Imprecise {
    /// The case in tables.
    pub case: String,
    /// The measure.
    pub measure: String,
    /// Half the width of the 95 % interval over the median, a fraction.
    pub half_width: f64,
}

impl Advice {
    /// Formats values without those that were the same everywhere, and without the name of a single property:
    /// `zstd-3`, `recordsize=16K compression=lz4`.
    pub fn values(&self, set: &[(String, String)]) -> String {
        match (self.varied(set).as_slice(), set) {
            ([(_, value)], _) | ([], [(_, value)]) => value.clone(),
            ([], all) => format::settings(all),
            (several, _) => format::settings(several),
        }
    }

    /// Returns the values that were not the same everywhere.
    fn varied(&self, set: &[(String, String)]) -> Vec<(String, String)> {
        let varies = |(name, value): &&(String, String)| {
            let other = |s: &Alternative| s.set.iter().any(|(n, v)| n == name && v != value);
            self.settings.iter().any(other)
        };
        set.iter().filter(varies).cloned().collect()
    }

    /// Names the settings that another one beats, with their properties: better in one criterion beyond noise, and worse in
    /// none.
    pub fn beaten(&self) -> Vec<String> {
        let beaten = self.settings.iter().filter(|setting| !setting.front);
        beaten.map(|setting| format::settings(&self.varied(&setting.set))).collect()
    }
}

/// Answers the questions of a study.
pub fn advice(study: &Study, trials: &[Trial]) -> Vec<Advice> {
    study.recommend.iter().map(|wanted| advise(study, trials, wanted)).collect()
}

fn advise(study: &Study, trials: &[Trial], wanted: &Recommend) -> Advice {
    let contest = Contest::new(wanted);
    let role = wanted.dataset.as_deref();
    let all = contest.candidates(study, trials);
    let original = contest.original(&all).map(|c| format::case(study, &c.case));
    let (safe, dangerous): (Vec<Candidate>, Vec<Candidate>) =
        all.into_iter().partition(|c| dangers(study, c, role).is_empty());
    let kept = kept(study, wanted, &safe);
    let safe = one_of_each(ordered(&contest, safe));
    let weighed = wanted.criteria.iter().zip(contest.weights()).map(|(criterion, weight)| Weighed {
        metric: criterion.metric.clone(),
        info: study.info(&criterion.measure),
        weight,
    });
    let mut advice = Advice {
        question: wanted.question.clone(),
        dataset: wanted.dataset.clone(),
        study: study.name.clone(),
        goal: wanted.goal.clone(),
        criteria: weighed.collect(),
        set: Vec::new(),
        verdict: Choice::NotMeasured,
        case: None,
        settings: alternatives(&contest, study, &safe),
        original,
        imprecise: Vec::new(),
        dangerous: better_but_dangerous(&contest, study, &safe, &dangerous),
        conditions: safety::fixed_dangers(study).iter().map(|d| format!("measured with {d}")).collect(),
        line: String::new(),
    };
    if let Some(best) = safe.first() {
        advice.verdict = verdict(&advice.settings);
        advice.case = Some(format::case(study, &best.case));
        advice.set = match advice.verdict {
            Choice::NoDifference => kept,
            _ => best.set.clone(),
        };
        advice.imprecise = imprecise(&advice);
    }
    advice.settings.sort_by_key(|setting| !setting.front);
    advice.line = sentence::conclusion(&advice);
    advice
}

/// Sorts candidates by their objective relative to the first one, the best first.
fn ordered(contest: &Contest<'_>, all: Vec<Candidate>) -> Vec<Candidate> {
    let Some(reference) = all.first() else { return all };
    let objective = |c: &Candidate| contest.objective(reference, c).map_or(f64::INFINITY, |r| r.ratio);
    let mut ranked: Vec<(f64, usize)> = all.iter().map(objective).zip(0..).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut all: Vec<Option<Candidate>> = all.into_iter().map(Some).collect();
    ranked.into_iter().filter_map(|(_, i)| all[i].take()).collect()
}

/// Keeps the best candidate of each set of values.
fn one_of_each(ordered: Vec<Candidate>) -> Vec<Candidate> {
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in ordered {
        if !kept.iter().any(|k| k.set == candidate.set) {
            kept.push(candidate);
        }
    }
    kept
}

/// Compares every candidate with the best one, which is the first.
fn alternatives(contest: &Contest<'_>, study: &Study, ordered: &[Candidate]) -> Vec<Alternative> {
    let front = contest.front(ordered);
    let alternative = |(i, (candidate, front)): (usize, (&Candidate, bool))| {
        let ratio = contest.objective(&ordered[0], candidate).filter(|_| i > 0);
        Alternative {
            set: candidate.set.clone(),
            case: format::case(study, &candidate.case),
            figures: candidate.figures.clone(),
            front,
            worse: ratio.as_ref().is_some_and(|r| r.direction() == Direction::Higher),
            ratio: ratio.as_ref().map(|r| r.ratio),
            ci95: ratio.and_then(|r| r.interval),
        }
    };
    ordered.iter().zip(front).enumerate().map(alternative).collect()
}

fn verdict(settings: &[Alternative]) -> Choice {
    let others = settings.get(1..).unwrap_or_default();
    let worse = others.iter().filter(|other| other.worse).count();
    let told = others.iter().any(|other| other.ci95.is_some());
    match (others.len(), worse) {
        (0, _) => Choice::NoDifference,
        (n, worse) if n == worse => Choice::Best,
        (_, 0) if told => Choice::NoDifference,
        (_, 0) => Choice::TooFew,
        _ => Choice::AmongBest,
    }
}

/// Returns the values without the study's factors if they were tried, otherwise those of the first case: what is
/// in use if no other value is better.
fn kept(study: &Study, wanted: &Recommend, all: &[Candidate]) -> Vec<(String, String)> {
    let first = || all.first().map(|c| c.set.clone()).unwrap_or_default();
    let Some(role) = &wanted.dataset else { return first() };
    let today: Vec<(String, String)> =
        wanted.choices.iter().map(|p| (p.clone(), base_value(study, role, p))).collect();
    let same = |(a, b): (&(String, String), &(String, String))| {
        a.0 == b.0 && property::canonical(&a.0, &a.1) == property::canonical(&b.0, &b.1)
    };
    let tried = all.iter().any(|c| c.set.len() == today.len() && c.set.iter().zip(&today).all(same));
    if tried { today } else { first() }
}

/// Describes the best dangerous candidate if its objective is better than that of every safe one. A case that is dangerous for
/// another reason does not count for or against the values in question.
fn better_but_dangerous(
    contest: &Contest<'_>,
    study: &Study,
    safe: &[Candidate],
    dangerous: &[Candidate],
) -> Vec<String> {
    let role = contest.wanted.dataset.as_deref();
    let own = |c: &&Candidate| {
        let of = role.unwrap_or_default();
        role.is_none() || c.set.iter().any(|(p, v)| safety::dangerous_value(of, p, v).is_some())
    };
    let against = |c: &Candidate| match safe.first() {
        Some(best) => contest.objective(best, c).map(|r: PairedRatio| r.ratio),
        None => Some(0.0),
    };
    let better = dangerous.iter().filter(own).filter_map(|c| Some((against(c)?, c)));
    let best = better.min_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal));
    best.filter(|(ratio, _)| *ratio < 1.0).map(|(_, c)| danger(study, c, role)).into_iter().collect()
}

fn dangers(study: &Study, candidate: &Candidate, role: Option<&str>) -> Vec<String> {
    safety::dangers(study, &candidate.case, &candidate.set, role)
}

/// Describes a better but dangerous candidate with its figures and the danger.
fn danger(study: &Study, candidate: &Candidate, role: Option<&str>) -> String {
    let figures: Vec<String> = candidate.figures.iter().flatten().map(format::figure).collect();
    let why = dangers(study, candidate, role).join("; ");
    format!(
        "{} gave {}, but is not recommended – {why}",
        format::case(study, &candidate.case),
        figures.join(", ")
    )
}

/// Returns the figures with too wide intervals among the settings that the intervals do not separate, the widest first.
fn imprecise(advice: &Advice) -> Vec<Imprecise> {
    let mut all = Vec::new();
    for setting in advice.settings.iter().filter(|setting| !setting.worse) {
        for figure in setting.figures.iter().flatten() {
            let Some(half_width) = format::half_width(figure).filter(|half| *half > WIDE) else { continue };
            all.push(Imprecise { case: setting.case.clone(), measure: figure.measure.clone(), half_width });
        }
    }
    all.sort_by(|a, b| b.half_width.total_cmp(&a.half_width));
    all
}
