//! The checks of `poolwright check`: rules evaluated once, in the output format of Nagios plugins.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::family::{POOL, POOL_STATE_NOW};
use crate::{Poller, Readings, SourceReadings};
use poolwright_base::quoted;
use poolwright_base::time::unix_seconds;
use schemars::JsonSchema;
use serde::Serialize;

use crate::alert::condition::{AlertCondition, Comparison, Limit};
use crate::alert::evaluation::{Inputs, LabelledValue};
use crate::alert::evaluator::ApiAlert;
use crate::alert::history::History;
use crate::alert::rule::{AlertRule, AlertSeverity, ValueFormat};
use crate::alert::state_file::{self, Restored};
use crate::alert::table;
use crate::alert::threshold::Thresholds;
use crate::{Error, Result};

/// The state that Nagios shows, and its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckState {
    /// No alert.
    Ok = 0,
    /// Warnings only.
    Warning = 1,
    /// A critical alert.
    Critical = 2,
    /// The rules could not be decided.
    Unknown = 3,
}

/// The result of a check: the object of `poolwright check --json`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckResult {
    /// The state.
    pub state: CheckState,
    /// The alerts, critical ones first.
    pub alerts: Vec<ApiAlert>,
    /// Why something could not be decided.
    pub problems: Vec<String>,
    /// Number of rules that were evaluated.
    pub rules: usize,
    /// Number of pools.
    pub pools: usize,
    /// Performance data: figures with their thresholds.
    pub figures: Vec<CheckFigure>,
}

/// A figure for a graph.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckFigure {
    /// The rule and what it was computed for.
    pub name: String,
    /// The value.
    pub value: f64,
    /// The unit of measurement of the plugin guidelines: `%`, `B`, `s` or nothing.
    pub unit: &'static str,
    /// The threshold of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// The urgency of the rule.
    pub severity: AlertSeverity,
}

/// The rules to check.
#[derive(Debug)]
pub struct Check {
    rules: Vec<&'static AlertRule>,
    is_named: bool,
    problems: Vec<String>,
    thresholds: Thresholds,
}

impl Check {
    /// A check of the rules with these names, or of all that can be decided here.
    ///
    /// # Errors
    /// [`Error::NoSuchRule`].
    pub fn new(names: &[String], thresholds: Thresholds) -> Result<Check> {
        let find = |name: &String| {
            let mut rules = table::rules();
            let known = rules.find(|rule| rule.name.eq_ignore_ascii_case(name));
            known.ok_or_else(|| Error::NoSuchRule(name.clone()))
        };
        let named = names.iter().map(find).collect::<Result<Vec<_>>>()?;
        let all = || table::rules().filter(|rule| rule.is_local()).collect();
        let is_named = !named.is_empty();
        let (rules, others): (Vec<_>, Vec<_>) =
            if is_named { named.into_iter().partition(|rule| rule.is_local()) } else { (all(), Vec::new()) };
        let problems = others.iter().map(|rule| format!("{} needs Prometheus", rule.name)).collect();
        Ok(Check { rules, is_named, problems, thresholds })
    }

    /// Reads the sources, each for at most `limit`, and decides the rules. Increases are those since the earlier runs, whose
    /// counters are in `state`.
    ///
    /// # Errors
    /// [`Error::StateFile`]; otherwise as [`Poller::refresh`].
    pub fn run(self, poller: &Poller, limit: Duration, state: &Path) -> Result<CheckResult> {
        let sources = poller.refresh(limit)?;
        let own = crate::poller::source_metrics(&sources);
        let read = sources.iter().filter_map(|source| source.readings.as_deref());
        let all: Vec<&Readings> = read.chain([&own]).collect();
        let now = unix_seconds();
        // The file serves all checks of a user, whatever rules they name.
        let mut history = History::new(table::rules().filter(|rule| rule.is_local()));
        let restored = state_file::restore(&mut history, state, now)?;
        history.observe(now, &all);
        state_file::keep(&history, state)?;
        let mut result =
            self.decide(&Inputs::new(now, now, &all, &history, &self.thresholds), &sources, &all);
        if let Restored::Unusable(why) = restored {
            let file = quoted(&state);
            result.add_problem(format!(
                "replaced the state file {file}, which {why}; increases are counted from now on"
            ));
        }
        Ok(result)
    }

    /// Decides the rules on readings.
    fn decide(&self, inputs: &Inputs<'_>, sources: &[SourceReadings], all: &[&Readings]) -> CheckResult {
        let mut problems = self.problems.clone();
        problems.extend(sources.iter().filter(|source| !source.is_up()).map(no_answer));
        problems.extend(sources.iter().flat_map(partial));
        let pools = number_of_pools(all);
        if pools == 0 {
            problems.push("no pool was found".to_owned());
        }
        let mut alerts = Vec::new();
        let mut figures = Vec::new();
        for rule in &self.rules {
            let firing = inputs.firing(&rule.condition);
            alerts.extend(firing.iter().map(|sample| ApiAlert::new(rule, sample)));
            if rule.is_figure || self.is_named {
                let compared = inputs.compared(&rule.condition);
                figures
                    .extend(compared.iter().map(|sample| CheckFigure::new(rule, sample, &self.thresholds)));
            }
        }
        alerts.sort_by_key(|alert| std::cmp::Reverse(alert.severity));
        let state = match alerts.first().map(|alert| alert.severity) {
            Some(AlertSeverity::Critical) => CheckState::Critical,
            Some(AlertSeverity::Warning) => CheckState::Warning,
            None => CheckState::Ok,
        };
        let rules = self.rules.len();
        let mut result = CheckResult { state, alerts, problems: Vec::new(), rules, pools, figures };
        problems.into_iter().for_each(|problem| result.add_problem(problem));
        result
    }
}

fn no_answer(source: &SourceReadings) -> String {
    of_source(source, source.error.as_deref().unwrap_or("no answer in time"))
}

/// A part that a source could not read, although it read the rest.
fn partial(source: &SourceReadings) -> impl Iterator<Item = String> {
    let problems = source.readings.iter().flat_map(|readings| &readings.problems);
    problems.map(|problem| of_source(source, problem))
}

fn of_source(source: &SourceReadings, cause: &str) -> String {
    let of = if source.name.pool.is_empty() { "" } else { " of pool " };
    format!("source {}{of}{}: {cause}", source.name.source, source.name.pool)
}

fn number_of_pools(all: &[&Readings]) -> usize {
    let resources = all.iter().flat_map(|readings| &readings.resources);
    let pools = resources.filter(|resource| {
        std::ptr::eq(resource.of, &POOL) || std::ptr::eq(resource.of, POOL_STATE_NOW.resource)
    });
    let mut names: Vec<&[Arc<str>]> = pools.map(|pool| &pool.labels[..2]).collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

impl CheckFigure {
    fn new(rule: &AlertRule, sample: &LabelledValue<'_>, thresholds: &Thresholds) -> CheckFigure {
        let labels = sample.labels.iter().filter(|(name, _)| *name != "engine");
        let of: Vec<&str> = labels.map(|(_, value)| *value).collect();
        let limit = match rule.condition {
            AlertCondition::When(Comparison { limit: Limit::Threshold(threshold), .. }, _) => {
                Some(thresholds.value(threshold))
            }
            AlertCondition::When(Comparison { limit: Limit::Number(number), .. }, _) => Some(number),
            AlertCondition::When(..) | AlertCondition::Absent(_) => None,
        };
        let (factor, unit) = match rule.format {
            ValueFormat::Percentage => (100.0, "%"),
            ValueFormat::Bytes => (1.0, "B"),
            ValueFormat::Duration => (1.0, "s"),
            ValueFormat::Number => (1.0, ""),
        };
        CheckFigure {
            name: [&[rule.name], of.as_slice()].concat().join(" "),
            value: sample.value * factor,
            unit,
            threshold: limit.map(|limit| limit * factor),
            severity: rule.severity,
        }
    }

    /// As `'label'=value[unit];[warning];[critical]` of the plugin guidelines. A quote is doubled there, and `=` is not
    /// allowed.
    fn to_perfdata(&self) -> String {
        let name = self.name.replace('\'', "''").replace('=', "_");
        let threshold = self.threshold.map(|threshold| threshold.to_string()).unwrap_or_default();
        let (warning, critical) = match self.severity {
            AlertSeverity::Warning => (threshold.as_str(), ""),
            AlertSeverity::Critical => ("", threshold.as_str()),
        };
        format!("'{name}'={}{};{warning};{critical}", self.value, self.unit)
    }
}

impl CheckResult {
    /// Adds a problem. Without an alert, the state is then unknown.
    fn add_problem(&mut self, problem: String) {
        self.problems.push(problem);
        if self.state == CheckState::Ok {
            self.state = CheckState::Unknown;
        }
    }

    /// The exit code of the plugin guidelines.
    pub fn exit_code(&self) -> u8 {
        self.state as u8
    }

    /// The output of a Nagios plugin: one line with performance data, and one line for each alert.
    pub fn to_nagios(&self) -> String {
        let word = match self.state {
            CheckState::Ok => "OK",
            CheckState::Warning => "WARNING",
            CheckState::Critical => "CRITICAL",
            CheckState::Unknown => "UNKNOWN",
        };
        let pools = if self.pools == 1 { "1 pool".to_owned() } else { format!("{} pools", self.pools) };
        let first = match (self.alerts.as_slice(), self.problems.as_slice()) {
            ([], []) => format!("{} rules hold for {pools}", self.rules),
            ([], [problem, ..]) => problem.clone(),
            ([only], _) => only.summary.clone(),
            ([first, rest @ ..], _) => format!("{}, and {} more", first.summary, rest.len()),
        };
        let mut text = format!("POOLWRIGHT {word}: {}", on_one_line(&first));
        if !self.figures.is_empty() {
            let figures: Vec<String> = self.figures.iter().map(CheckFigure::to_perfdata).collect();
            let _ = write!(text, " | {}", figures.join(" "));
        }
        text.push('\n');
        for alert in &self.alerts {
            let _ =
                writeln!(text, "{} {}: {}", alert.severity.name(), alert.name, on_one_line(&alert.summary));
        }
        for problem in &self.problems {
            let _ = writeln!(text, "unknown: {}", on_one_line(problem));
        }
        text
    }
}

/// A text without line feeds and without `|`, which separates the performance data.
fn on_one_line(text: &str) -> String {
    text.replace('\n', " ").replace('|', "/")
}

/// The output for a check that could not run.
pub fn failed(error: &Error) -> CheckResult {
    CheckResult {
        state: CheckState::Unknown,
        alerts: Vec::new(),
        problems: vec![error.to_string()],
        rules: 0,
        pools: 0,
        figures: Vec::new(),
    }
}

/// The rules with their severities and meanings, for a reader.
pub fn list() -> String {
    let width = table::rules().map(|rule| rule.name.len()).max().unwrap_or_default();
    let lines = table::rules().map(|rule| {
        let note = if rule.is_local() { "" } else { " (needs Prometheus)" };
        format!("{:width$}  {:8}  {}{note}\n", rule.name, rule.severity.name(), rule.meaning)
    });
    lines.collect()
}
