//! The verdict: compares the measured figures with those of today's settings and with the prediction.

use std::collections::BTreeMap;

use poolwright_plan::{
    Confirmation, ConfirmationVerdict, ConfirmedSetting, Contender, Gain, GainVerdict, Gains, MetricName,
    Plan, PredictedChange,
};
use poolwright_report::text::{capitalised, signed};
use poolwright_tune::evidence::{gains, measured};
use poolwright_tune::objective::{Metrics, weighted};
use poolwright_tune::requirement::{Fulfilment, Requirement};
use poolwright_tune::scatter::Scatter;

use crate::Chosen;

/// The largest difference between the measured and the predicted change of the work rate that counts as predicted, in
/// percentage points. A change within the predicted interval counts as predicted in any case.
const POINTS: f64 = 10.0;

/// The width of the measured interval of the work rate above which `confirm` suggests more blocks, as a fraction.
const MAX_WIDTH: f64 = 0.4;

/// The metrics of the trials of one block, without failed trials.
pub type Block = BTreeMap<Contender, Metrics>;

/// The outcome of a confirmation.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The results of the settings, in the order of the contenders, without their datasets.
    pub settings: Vec<ConfirmedSetting>,
    /// Whether the database confirms the plan.
    pub verdict: ConfirmationVerdict,
    /// Measured minus predicted change of the work rate, in percentage points.
    pub error_points: Option<f64>,
    /// Requirements of the plan that the recommended settings miss.
    pub missed: Vec<String>,
    /// The reasons, as sentences.
    pub why: String,
}

/// Judges the plan by the trials of all blocks.
pub fn judge(plan: &Plan, contenders: &[Chosen], blocks: &[Block]) -> Judgement {
    let settings: Vec<ConfirmedSetting> = contenders.iter().map(|c| setting(plan, c, blocks)).collect();
    let of = |name| settings.iter().find(|s| s.name == name);
    let (subject, keep) = match (of(Contender::Recommended), of(Contender::RunnerUp)) {
        (Some(recommended), _) => (Some(recommended), false),
        (None, other) => (other, true),
    };
    let Some(subject) = subject else {
        let why = "Only today's settings were run.".to_owned();
        let verdict = ConfirmationVerdict::NotConfirmed;
        return Judgement { settings, verdict, error_points: None, missed: Vec::new(), why };
    };
    let rate = subject.changes.get(&MetricName::WorkRate);
    let error_points =
        rate.zip(subject.predicted.get(&MetricName::WorkRate)).map(|(m, p)| 100.0 * (m.change - p.change));
    let verdict = verdict(subject, keep);
    let mut why = why(subject, keep, error_points);
    // Today's settings meet the requirements of a plan that keeps them. Those of the runner-up matter only if it misses one.
    for r in required(plan, &subject.changes).iter().filter(|r| !keep || r.missed) {
        why += &r.sentence;
    }
    let missed = if keep { Vec::new() } else { subject.missed.clone() };
    if !keep && !subject.is_better() && subject.changes.contains_key(&MetricName::Objective) {
        why += match of(Contender::RunnerUp).filter(|other| other.is_acceptable()) {
            Some(_) => " The runner-up is better than today's.",
            None => " Keep today's settings.",
        };
    }
    Judgement { settings, verdict, error_points, missed, why }
}

/// Whether a setting that meets the requirements is better than today's beyond noise, and the recommended settings miss no
/// requirement.
pub fn is_improvement(confirmation: &Confirmation) -> bool {
    confirmation.missed.is_empty() && confirmation.settings.iter().any(ConfirmedSetting::is_acceptable)
}

fn verdict(subject: &ConfirmedSetting, keep: bool) -> ConfirmationVerdict {
    match (subject.is_acceptable(), keep) {
        (false, false) | (true, true) => ConfirmationVerdict::NotConfirmed,
        (false, true) if subject.changes.contains_key(&MetricName::Objective) => {
            ConfirmationVerdict::Confirmed
        }
        (false, true) => ConfirmationVerdict::NotConfirmed,
        (true, false) => {
            let predicted = subject.predicted.get(&MetricName::WorkRate);
            let hit = subject
                .changes
                .get(&MetricName::WorkRate)
                .zip(predicted)
                .is_some_and(|(m, p)| is_as_predicted(m, p));
            if hit { ConfirmationVerdict::Confirmed } else { ConfirmationVerdict::BetterThanToday }
        }
    }
}

/// A requirement of the plan, compared with the measured changes.
struct Required {
    requirement: String,
    missed: bool,
    /// The result as a sentence, which begins with a space.
    sentence: String,
}

fn required(plan: &Plan, changes: &Gains) -> Vec<Required> {
    let of_user = plan.request.iter().flat_map(|request| &request.requirements);
    // A confirmation does not measure each metric that a goal limits.
    let is_measured =
        |limit: &&String| Requirement::parse(limit).is_ok_and(|l| l.fulfilment(changes).is_some());
    of_user.chain(plan.goal.limits.iter().filter(is_measured)).map(|text| check(text, changes)).collect()
}

fn check(text: &str, changes: &Gains) -> Required {
    let outcome = |missed, sentence| Required { requirement: text.to_owned(), missed, sentence };
    let Ok(requirement) = Requirement::parse(text) else {
        // Another release wrote the plan, or a user edited it.
        return outcome(
            false,
            format!(" {text} was not checked: this release does not know that requirement."),
        );
    };
    let measured =
        requirement.metric().and_then(|metric| changes.get(metric)).map(interval).unwrap_or_default();
    match requirement.fulfilment(changes) {
        Some(Fulfilment::Met) => outcome(false, format!(" {requirement} is met: {measured}.")),
        Some(Fulfilment::Missed) => outcome(true, format!(" {requirement} is NOT met: {measured}.")),
        Some(Fulfilment::Unclear) => {
            let more = "more blocks may decide it";
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
    // Today's settings have no changes, so no requirement is checked.
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

/// The changes from today's settings, paired by block, including that of the objective.
fn changes(plan: &Plan, name: Contender, blocks: &[Block]) -> Gains {
    let pair = |block: &Block| {
        let (mut today, mut other) = (block.get(&Contender::Today)?.clone(), block.get(&name)?.clone());
        let objective = weighted(
            &plan.goal.weights,
            &with_write_amplification(&other),
            &with_write_amplification(&today),
        );
        today.insert(MetricName::Objective, 1.0);
        other.insert(MetricName::Objective, objective);
        Some((today, other))
    };
    let pairs: Vec<(Metrics, Metrics)> = blocks.iter().filter_map(pair).collect();
    gains(&pairs, &Scatter::default())
}

/// Adds the bytes written to the devices as write amplification: the database writes the same number of bytes per unit of work
/// under every setting, so the ratio of two write amplifications equals the ratio of these bytes.
fn with_write_amplification(metrics: &Metrics) -> Metrics {
    let mut all = metrics.clone();
    if let Some(bytes) = metrics.get(&MetricName::VdevWriteBytes) {
        all.insert(MetricName::WriteAmplification, *bytes);
    }
    all
}

fn why(subject: &ConfirmedSetting, keep: bool, error_points: Option<f64>) -> String {
    let Some(objective) = subject.changes.get(&MetricName::Objective) else {
        return "Too few blocks have a result of both settings: an interval needs two.".to_owned();
    };
    let whom = if keep { "the runner-up" } else { "the recommended settings" };
    let measured = match objective.verdict {
        GainVerdict::Better => format!("{whom} are better than today's"),
        GainVerdict::Worse => format!("{whom} are worse than today's"),
        GainVerdict::Noise => format!("{whom} are no better than today's beyond noise"),
    };
    let measured = if keep { measured.replace(" are ", " is ") } else { measured };
    let mut text = format!("{} in this test: objective {}", capitalised(&measured), interval(objective));
    if let Some(rate) = subject.changes.get(&MetricName::WorkRate) {
        text += &format!(", work rate {}", interval(rate));
    }
    if let (Some(points), Some(predicted)) = (error_points, subject.predicted.get(&MetricName::WorkRate)) {
        text += &format!(
            "; predicted {}, an error of {} points",
            with_interval(predicted.change, predicted.ci95),
            signed(points, 1)
        );
    }
    text += ".";
    if subject.changes.get(&MetricName::WorkRate).is_some_and(|rate| rate.ci95.1 - rate.ci95.0 > MAX_WIDTH) {
        text += " The interval of the work rate is wide; more blocks make it narrower.";
    }
    text
}

/// `−12.3 % (−15.0 to −9.5 %)`.
fn interval(gain: &Gain) -> String {
    with_interval(gain.change, Some(gain.ci95))
}

fn with_interval(change: f64, ci95: Option<(f64, f64)>) -> String {
    let Some((low, high)) = ci95 else { return percent(change) };
    format!("{} ({} to {})", percent(change), percent(low).trim_end_matches(" %"), percent(high))
}

fn percent(change: f64) -> String {
    format!("{} %", signed(100.0 * change, 1))
}
