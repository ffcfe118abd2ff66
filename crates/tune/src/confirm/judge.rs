//! The verdict: what the database measured, against today's settings and against the prediction.

use std::collections::BTreeMap;

use super::OBJECTIVE;
use super::contenders::Chosen;
use crate::evidence::{gains, measured};
use crate::objective::{Metrics, weighted};
use crate::plan::{
    ConfirmationVerdict, ConfirmedSetting, Contender, Gain, GainVerdict, Gains, Plan, PredictedChange,
};
use crate::requirement::{Fulfilment, Requirement};
use crate::statistics::Scatter;

/// How far the work rate's change may be from the predicted one and still count as predicted, in percentage points; or
/// within the predicted interval, if that is wider.
const POINTS: f64 = 10.0;

/// The trials of one block: what each setting measured, those that failed left out.
pub type Block = BTreeMap<Contender, Metrics>;

/// The outcome of a confirmation.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// In the order of the contenders; without datasets, which the caller knows.
    pub settings: Vec<ConfirmedSetting>,
    /// Whether the plan holds.
    pub verdict: ConfirmationVerdict,
    /// Measured minus predicted change of the work rate, in percentage points.
    pub error_points: Option<f64>,
    /// Requirements of the plan that the recommended settings miss.
    pub missed: Vec<String>,
    /// In words.
    pub why: String,
}

/// Judges the blocks.
pub fn judge(plan: &Plan, contenders: &[Chosen], blocks: &[Block]) -> Judgement {
    let settings: Vec<ConfirmedSetting> = contenders.iter().map(|c| setting(plan, c, blocks)).collect();
    let of = |name| settings.iter().find(|s| s.name == name);
    let (subject, keep) = match (of(Contender::Recommended), of(Contender::RunnerUp)) {
        (Some(recommended), _) => (Some(recommended), false),
        (None, other) => (other, true),
    };
    let Some(subject) = subject else {
        let why = "Nothing was run besides today's settings.".to_owned();
        let verdict = ConfirmationVerdict::NotConfirmed;
        return Judgement { settings, verdict, error_points: None, missed: Vec::new(), why };
    };
    let rate = subject.changes.get("work_rate");
    let error_points =
        rate.zip(subject.predicted.get("work_rate")).map(|(m, p)| 100.0 * (m.change - p.change));
    let verdict = verdict(subject, keep);
    let mut why = why(subject, keep, error_points);
    // A plan that keeps today's settings meets its requirements; the runner-up's matter where it would be the better choice.
    for r in required(plan, &subject.changes).iter().filter(|r| !keep || r.missed) {
        why += &r.sentence;
    }
    let missed = if keep { Vec::new() } else { subject.missed.clone() };
    if !keep && !subject.is_better() && subject.changes.contains_key(OBJECTIVE) {
        why += match of(Contender::RunnerUp).filter(|other| other.is_acceptable()) {
            Some(_) => " The runner-up is better than today's.",
            None => " Keep today's settings.",
        };
    }
    Judgement { settings, verdict, error_points, missed, why }
}

fn verdict(subject: &ConfirmedSetting, keep: bool) -> ConfirmationVerdict {
    match (subject.is_acceptable(), keep) {
        (false, false) | (true, true) => ConfirmationVerdict::NotConfirmed,
        (false, true) if subject.changes.contains_key(OBJECTIVE) => ConfirmationVerdict::Confirmed,
        (false, true) => ConfirmationVerdict::NotConfirmed,
        (true, false) => {
            let predicted = subject.predicted.get("work_rate");
            let hit =
                subject.changes.get("work_rate").zip(predicted).is_some_and(|(m, p)| is_as_predicted(m, p));
            if hit { ConfirmationVerdict::Confirmed } else { ConfirmationVerdict::BetterThanToday }
        }
    }
}

/// A requirement of the plan, held against what the database measured.
struct Required {
    requirement: String,
    missed: bool,
    /// Begins with a space.
    sentence: String,
}

fn required(plan: &Plan, changes: &Gains) -> Vec<Required> {
    let texts = plan.request.iter().flat_map(|request| &request.requirements);
    texts.map(|text| against(text, changes)).collect()
}

fn against(text: &str, changes: &Gains) -> Required {
    let outcome = |missed, sentence| Required { requirement: text.to_owned(), missed, sentence };
    let Ok(requirement) = Requirement::parse(text) else {
        // Another release's, or the plan was edited.
        return outcome(
            false,
            format!(" {text} was not checked: this release does not know that requirement."),
        );
    };
    let measured = changes.get(requirement.metric()).map(interval).unwrap_or_default();
    match requirement.fulfilment(changes) {
        Some(Fulfilment::Met) => outcome(false, format!(" {requirement} is met: {measured}.")),
        Some(Fulfilment::Missed) => outcome(true, format!(" {requirement} is NOT met: {measured}.")),
        Some(Fulfilment::Unclear) => {
            let more = "more blocks may tell";
            outcome(false, format!(" Whether {requirement} is met is unclear: {measured}; {more}."))
        }
        None => outcome(false, format!(" {requirement} was not measured.")),
    }
}

fn is_as_predicted(measured: &Gain, predicted: &PredictedChange) -> bool {
    let within = predicted.ci95.is_some_and(|(low, high)| low <= measured.change && measured.change <= high);
    within || 100.0 * (measured.change - predicted.change).abs() <= POINTS
}

fn setting(plan: &Plan, chosen: &Chosen, blocks: &[Block]) -> ConfirmedSetting {
    let trials: Vec<Metrics> = blocks.iter().filter_map(|b| b.get(&chosen.name).cloned()).collect();
    let changes = match chosen.name {
        Contender::Today => Gains::new(),
        name => changes(plan, name, blocks),
    };
    // Today's settings have no changes: nothing is held against them.
    let missed = required(plan, &changes).into_iter().filter(|r| r.missed).map(|r| r.requirement).collect();
    ConfirmedSetting {
        name: chosen.name,
        datasets: Vec::new(),
        blocks: trials.len() as u32,
        metrics: measured(&trials),
        changes,
        predicted: chosen.predicted.clone(),
        missed,
    }
}

/// Paired by block, the objective included.
fn changes(plan: &Plan, name: Contender, blocks: &[Block]) -> Gains {
    let pair = |block: &Block| {
        let (mut today, mut other) = (block.get(&Contender::Today)?.clone(), block.get(&name)?.clone());
        let objective = weighted(&plan.goal.weights, &with_wear(&other), &with_wear(&today));
        today.insert(OBJECTIVE.to_owned(), 1.0);
        other.insert(OBJECTIVE.to_owned(), objective);
        Some((today, other))
    };
    let pairs: Vec<(Metrics, Metrics)> = blocks.iter().filter_map(pair).collect();
    gains(&pairs, &Scatter::default())
}

/// The database writes as much per unit of work under every setting, so the ratio of two write amplifications is that of
/// the bytes that reach the devices.
fn with_wear(metrics: &Metrics) -> Metrics {
    let mut all = metrics.clone();
    if let Some(bytes) = metrics.get("vdev_write_bytes") {
        all.insert("write_amplification".into(), *bytes);
    }
    all
}

fn why(subject: &ConfirmedSetting, keep: bool, error_points: Option<f64>) -> String {
    let Some(objective) = subject.changes.get(OBJECTIVE) else {
        return "Too few blocks gave a result with both settings: two are needed for an interval.".to_owned();
    };
    let whom = if keep { "the runner-up" } else { "the recommended settings" };
    let measured = match objective.verdict {
        GainVerdict::Better => format!("{whom} are better than today's"),
        GainVerdict::Worse => format!("{whom} are worse than today's"),
        GainVerdict::Noise => format!("{whom} are no better than today's beyond noise"),
    };
    let measured = if keep { measured.replace(" are ", " is ") } else { measured };
    let mut text = format!("With the database itself {measured}: objective {}", interval(objective));
    if let Some(rate) = subject.changes.get("work_rate") {
        text += &format!(", work rate {}", interval(rate));
    }
    if let (Some(points), Some(predicted)) = (error_points, subject.predicted.get("work_rate")) {
        text += &format!("; predicted {}, an error of {} points", percent(predicted.change), signed(points));
    }
    text + "."
}

/// `−12.3 % (−15.0 to −9.5 %)`.
fn interval(gain: &Gain) -> String {
    let (low, high) = (percent(gain.ci95.0), percent(gain.ci95.1));
    format!("{} ({} to {high})", percent(gain.change), low.trim_end_matches(" %"))
}

fn percent(change: f64) -> String {
    format!("{} %", signed(100.0 * change))
}

/// One decimal, with the sign of a minus.
fn signed(value: f64) -> String {
    format!("{value:+.1}").replace('-', "−")
}
