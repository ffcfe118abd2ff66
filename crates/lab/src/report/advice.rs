//! The closing table: recommended settings for each dataset, with reasons.
//!
//! Only cases that cannot lose data are candidates: a dangerous setting is listed with its figure, but never
//! recommended. A setting that is better only within noise is not recommended either.

use std::collections::BTreeMap;

use poolwright_openzfs::property;
use poolwright_stats::Direction;
use schemars::JsonSchema;
use serde::Serialize;

use super::cells;
use super::figure::Figure;
use super::format;
use crate::campaign::{Case, Claim, ParameterPath, Recommend, Study};
use crate::statistics;
use crate::store::Trial;

/// Dangerous values of a dataset's property or a driver's parameter, with the reason.
const UNSAFE: &[(&str, &[&str], &str)] = &[
    ("sync", &["disabled"], "a crash loses writes that were reported to the database as durable"),
    ("checksum", &["off"], "silent corruption is neither seen nor repaired"),
    ("doublewrite", OFF, TORN),
    ("innodb_doublewrite", OFF, TORN),
    ("full_page_writes", OFF, TORN),
    ("fsync", OFF, "a crash loses writes that were reported to the database as durable"),
];
/// `crates/openzfs/tests/torn.rs` demonstrates this.
const TORN: &str =
    "a crash can leave a part of a page on any recordsize: the intent log divides writes over its blocks";
const OFF: &[&str] = &["off", "OFF", "false", "0", "no"];

/// A row of the closing table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// Role of the dataset.
    pub dataset: String,
    /// Name of the study behind the recommendation.
    pub study: String,
    /// The measure that decides.
    pub by: String,
    /// Whether a higher value is better.
    pub higher: bool,
    /// Recommended values; the present ones if no value is better beyond noise.
    pub set: Vec<(String, String)>,
    /// Whether a value is better than the others beyond noise.
    pub verdict: Choice,
    /// Name of the best case in tables.
    pub case: Option<String>,
    /// Figure of the best case.
    pub figure: Option<Figure>,
    /// Other values that were tried, best first.
    pub others: Vec<Other>,
    /// Better but dangerous settings, each with the reason.
    pub dangerous: Vec<String>,
    /// Dangerous settings that were the same in all cases.
    pub conditions: Vec<String>,
    /// The recommendation and its evidence as one line of text.
    pub line: String,
}

/// How certain a recommendation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Better than every other value beyond noise.
    Best,
    /// Better than some values; the others are as good within noise.
    AmongBest,
    /// No value is better than another beyond noise.
    NoDifference,
    /// There are too few trials for intervals; the best median was chosen.
    TooFew,
    /// Nothing was measured.
    NotMeasured,
}

/// Values that are not recommended.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Other {
    /// Property → value.
    pub set: Vec<(String, String)>,
    /// The best case with these values.
    pub case: String,
    /// Median of the case's measure, in the unit of the measure.
    pub median: f64,
    /// Ratio of the best case's measure to this one's, pair by pair.
    pub ratio: Option<f64>,
    /// The 95 % interval of the ratio.
    pub ci95: Option<(f64, f64)>,
    /// Whether the best case is better beyond noise.
    pub worse: bool,
}

/// A candidate case.
struct Candidate {
    case: Case,
    set: Vec<(String, String)>,
    figure: Figure,
}

/// Returns the rows that a study adds to the closing table.
pub fn advice(study: &Study, trials: &[Trial]) -> Vec<Advice> {
    study.recommend.iter().map(|r| advise(study, trials, r)).collect()
}

fn advise(study: &Study, trials: &[Trial], wanted: &Recommend) -> Advice {
    let measured = cells::figures(study, trials, &wanted.by).into_iter();
    let asked =
        |case: &Case| wanted.only.iter().all(|(f, levels)| case.get(f).is_some_and(|l| levels.contains(l)));
    let (mut safe, mut dangerous): (Vec<Candidate>, Vec<Candidate>) = measured
        .filter(|(case, _)| asked(case))
        .map(|(case, figure)| {
            let set = wanted.properties.iter().map(|p| (p.clone(), value(study, &case, &wanted.dataset, p)));
            Candidate { set: set.collect(), case, figure }
        })
        .partition(|c| dangers(study, c, &wanted.dataset).is_empty());
    for list in [&mut safe, &mut dangerous] {
        list.sort_by(|a, b| a.figure.median.total_cmp(&b.figure.median));
        if wanted.higher {
            list.reverse();
        }
    }
    let mut advice = Advice {
        dataset: wanted.dataset.clone(),
        study: study.name.clone(),
        by: wanted.by.clone(),
        higher: wanted.higher,
        set: Vec::new(),
        verdict: Choice::NotMeasured,
        case: None,
        figure: None,
        others: Vec::new(),
        dangerous: Vec::new(),
        conditions: Vec::new(),
        line: String::new(),
    };
    if let Some(best) = safe.first() {
        advice.others = others(study, trials, wanted, best, &safe);
        advice.verdict = verdict(study, trials, wanted, best, &safe, &advice.others);
        advice.set = match advice.verdict {
            Choice::NoDifference => kept(study, wanted, &safe),
            _ => best.set.clone(),
        };
        advice.case = Some(format::case(study, &best.case));
        advice.figure = Some(best.figure.clone());
    }
    // A case that is dangerous for another reason does not count for or against the properties in question.
    let own = |c: &&Candidate| c.set.iter().any(|(p, v)| dangerous_value(&wanted.dataset, p, v).is_some());
    let beats = |c: &&Candidate| safe.first().is_none_or(|best| is_better(wanted, &c.figure, &best.figure));
    advice.dangerous = dangerous
        .iter()
        .filter(own)
        .filter(beats)
        .take(1)
        .map(|c| danger(study, c, &wanted.dataset))
        .collect();
    let fixed = fixed_dangers(study).into_iter().map(|d| format!("measured with {d}"));
    advice.conditions = fixed.collect();
    advice.line = line(&advice);
    advice
}

fn is_better(wanted: &Recommend, a: &Figure, b: &Figure) -> bool {
    if wanted.higher { a.median > b.median } else { a.median < b.median }
}

/// Compares the best case of every other set of values with the best case of all.
fn others(
    study: &Study,
    trials: &[Trial],
    wanted: &Recommend,
    best: &Candidate,
    all: &[Candidate],
) -> Vec<Other> {
    let mut seen = vec![best.set.clone()];
    let mut others = Vec::new();
    for candidate in all {
        if seen.contains(&candidate.set) {
            continue;
        }
        seen.push(candidate.set.clone());
        let ratio = statistics::claim(study, trials, &against(wanted, best, candidate));
        let ahead = if wanted.higher { Direction::Higher } else { Direction::Lower };
        others.push(Other {
            set: candidate.set.clone(),
            case: format::case(study, &candidate.case),
            median: candidate.figure.median,
            worse: ratio.as_ref().is_some_and(|r| r.direction() == ahead),
            ratio: ratio.as_ref().map(|r| r.ratio),
            ci95: ratio.as_ref().and_then(|r| r.interval),
        });
    }
    others
}

/// Describes the two cases as a claim.
fn against(wanted: &Recommend, best: &Candidate, other: &Candidate) -> Claim {
    Claim {
        text: String::new(),
        measure: wanted.by.clone(),
        better: best.case.clone(),
        than: other.case.clone(),
        least: None,
        lower: !wanted.higher,
        times: None,
        limit: None,
        than_first: false,
        report: None,
    }
}

fn verdict(
    study: &Study,
    trials: &[Trial],
    wanted: &Recommend,
    best: &Candidate,
    all: &[Candidate],
    others: &[Other],
) -> Choice {
    let compared = all.iter().filter(|c| c.set != best.set);
    let told = compared
        .filter_map(|c| statistics::claim(study, trials, &against(wanted, best, c)))
        .any(|r| r.direction() != Direction::TooFew);
    let worse = others.iter().filter(|o| o.worse).count();
    match (others.len(), worse) {
        (0, _) => Choice::NoDifference,
        (n, worse) if n == worse => Choice::Best,
        (_, 0) if told => Choice::NoDifference,
        (_, 0) => Choice::TooFew,
        _ => Choice::AmongBest,
    }
}

/// Returns the dataset's values without the study's factors if they were tried, otherwise the best ones.
fn kept(study: &Study, wanted: &Recommend, all: &[Candidate]) -> Vec<(String, String)> {
    let today: Vec<(String, String)> =
        wanted.properties.iter().map(|p| (p.clone(), base(study, &wanted.dataset, p))).collect();
    let same = |(a, b): (&(String, String), &(String, String))| {
        a.0 == b.0 && property::canonical(&a.0, &a.1) == property::canonical(&b.0, &b.1)
    };
    let tried = all.iter().any(|c| c.set.len() == today.len() && c.set.iter().zip(&today).all(same));
    if tried { today } else { all.first().map(|c| c.set.clone()).unwrap_or_default() }
}

/// Returns a dataset's property in a case: set by a level, by the study, or OpenZFS's default.
fn value(study: &Study, case: &Case, role: &str, property: &str) -> String {
    let chosen = settings(study, case).into_iter().rev();
    let set = chosen.filter_map(|(location, value)| match location {
        ParameterPath::Dataset(r, p) if r == role && p == property => Some(value),
        _ => None,
    });
    set.into_iter().next().unwrap_or_else(|| base(study, role, property))
}

fn base(study: &Study, role: &str, name: &str) -> String {
    let set = study.datasets.get(role).and_then(|settings| settings.get(name)).cloned();
    set.unwrap_or_else(|| property::find(name).map_or("default", |p| p.default).to_owned())
}

/// Returns all values that a case's levels set, in the factors' order.
fn settings<'a>(study: &'a Study, case: &Case) -> Vec<(&'a ParameterPath, String)> {
    let levels = study.factors.iter().filter_map(|f| {
        let level = case.get(&f.name)?;
        f.levels.iter().find(|l| l.name == *level)
    });
    levels.flat_map(|l| &l.set).map(|(location, value)| (location, text(value))).collect()
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the dangers of a case: of the values that its levels set, and of those that would be recommended from
/// it.
fn dangers(study: &Study, candidate: &Candidate, role: &str) -> Vec<String> {
    let mut all: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for (location, value) in settings(study, &candidate.case) {
        match location {
            ParameterPath::Dataset(role, name) => all.insert((role, name), value),
            ParameterPath::Workload(name) => all.insert(("", name), value),
            ParameterPath::Pool(_) | ParameterPath::Tunable(_) => None,
        };
    }
    all.extend(candidate.set.iter().map(|(name, value)| ((role, name.as_str()), value.clone())));
    all.iter().filter_map(|((role, name), value)| dangerous_value(role, name, value)).collect()
}

/// Returns the dangers common to all cases of a study, which are no reason to prefer one case.
fn fixed_dangers(study: &Study) -> Vec<String> {
    let properties = study.datasets.iter().flat_map(|(role, settings)| {
        settings.iter().filter_map(move |(name, value)| dangerous_value(role, name, value))
    });
    let parameters =
        study.parameters.iter().filter_map(|(name, value)| dangerous_value("", name, &text(value)));
    properties.chain(parameters).collect()
}

fn dangerous_value(role: &str, name: &str, value: &str) -> Option<String> {
    let (.., why) = UNSAFE.iter().find(|(n, values, _)| *n == name && values.contains(&value))?;
    let of = if role.is_empty() { String::new() } else { format!("{role}.") };
    Some(format!("{of}{name}={value}: {why}"))
}

fn danger(study: &Study, candidate: &Candidate, role: &str) -> String {
    let figure = format::figure(&candidate.figure);
    let why = dangers(study, candidate, role).join("; ");
    format!("{} gave {figure}, but is not recommended – {why}", format::case(study, &candidate.case))
}

/// Formats the evidence: `recordsize=16K: wall_s 12.1 s (11.9 s to 12.4 s); 0.80x (0.78x to 0.83x) of 128K; as good
/// within noise: 32K`.
fn line(advice: &Advice) -> String {
    let Some(figure) = &advice.figure else {
        return match advice.dangerous.first() {
            Some(danger) => format!("no safe setting was measured; {danger}"),
            None => "not measured".to_owned(),
        };
    };
    let mut parts = vec![format!("{} {}", advice.by, format::figure(figure))];
    let worse = advice.others.iter().filter(|o| o.worse).max_by(|a, b| gain(a).total_cmp(&gain(b)));
    let tied: Vec<String> =
        advice.others.iter().filter(|o| !o.worse).take(4).map(|o| format::settings(&o.set)).collect();
    if let Some(Other { set, ratio: Some(ratio), ci95, .. }) = worse {
        let show = |v| poolwright_report::Unit::Ratio.format(v);
        let interval = format::interval(*ci95, show).map_or(String::new(), |i| format!(" ({i})"));
        parts.push(format!("{}{interval} of {}", show(*ratio), format::settings(set)));
    }
    match advice.verdict {
        Choice::AmongBest => parts.push(format!("as good within noise: {}", tied.join(", "))),
        Choice::NoDifference if advice.others.is_empty() => parts.push("no other value was tried".to_owned()),
        Choice::NoDifference => {
            parts.push("no other value differs beyond noise: keep the present one".to_owned());
        }
        Choice::TooFew => {
            parts.push(format!("best median, but too few trials to distinguish it from {}", tied.join(", ")))
        }
        Choice::Best | Choice::NotMeasured => {}
    }
    parts.extend(advice.dangerous.iter().chain(&advice.conditions).cloned());
    parts.join("; ")
}

/// Returns the distance of a ratio from 1, in either direction.
fn gain(other: &Other) -> f64 {
    other.ratio.map_or(0.0, |r| r.ln().abs())
}
