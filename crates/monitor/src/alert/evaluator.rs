//! The evaluator of `poolwright serve`: it evaluates the rules at each refresh of the sources, and remembers since when each alert has been
//! active.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Readings;
use crate::server::AlertSource;
use poolwright_base::time::{steady_seconds, unix_seconds};
use schemars::JsonSchema;
use serde::Serialize;

use crate::alert::evaluation::{Inputs, LabelledValue};
use crate::alert::history::History;
use crate::alert::rule::{AlertRule, AlertSeverity};
use crate::alert::table;
use crate::alert::template;
use crate::alert::threshold::Thresholds;

/// The highest number of alerts, waiting ones included, that one rule has at a time. It bounds the memory on a host with very many datasets.
const ALERTS_PER_RULE: usize = 500;

/// The answer of `/api/v1/alerts`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ApiAlerts {
    /// The alerts that fire, critical ones first.
    pub alerts: Vec<ApiAlert>,
    /// Number of further values for which the conditions of rules hold. At most 500 of each rule are followed.
    pub left_out: usize,
    /// Number of rules that are evaluated.
    pub rules: usize,
    /// Names of the rules that only Prometheus can evaluate.
    pub unavailable: Vec<&'static str>,
}

/// An alert that fires.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ApiAlert {
    /// Name of the rule.
    pub name: &'static str,
    /// How urgent it is.
    pub severity: AlertSeverity,
    /// One line for a reader.
    pub summary: String,
    /// The labels of the pool, vdev, dataset, …
    pub labels: BTreeMap<&'static str, String>,
    /// The value that was compared, in the unit of its metric.
    pub value: f64,
    /// How long the condition has held, in seconds.
    pub since_seconds: f64,
}

/// Identifies an alert: the rule and the labels.
type Key = (&'static str, BTreeMap<&'static str, String>);

/// Evaluates rules on successive readings.
#[derive(Debug)]
pub struct Evaluator {
    rules: Vec<&'static AlertRule>,
    thresholds: Thresholds,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    /// When the condition of each alert began to hold.
    since: BTreeMap<Key, f64>,
    answer: ApiAlerts,
}

impl Evaluator {
    /// An evaluator of all rules that do not need Prometheus.
    pub fn new(thresholds: Thresholds) -> Evaluator {
        let (local, others): (Vec<_>, Vec<_>) = table::rules().partition(|rule| rule.is_local());
        let evaluator = Evaluator::of(local, thresholds);
        evaluator.lock().answer.unavailable = others.iter().map(|rule| rule.name).collect();
        evaluator
    }

    /// An evaluator of these rules.
    pub fn of(rules: Vec<&'static AlertRule>, thresholds: Thresholds) -> Evaluator {
        let history = History::new(rules.iter().copied());
        let answer = ApiAlerts { rules: rules.len(), ..ApiAlerts::default() };
        let state = Mutex::new(State { history, answer, ..State::default() });
        Evaluator { rules, thresholds, state }
    }

    /// The state is consistent after every statement, so a panic of another thread does not invalidate it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides the rules on readings at a time in seconds since 1970, by a clock that nothing changes.
    pub fn evaluate(&self, now: f64, all: &[&Readings]) {
        self.evaluate_at(now, now, all);
    }

    /// Decides the rules on readings. `time` is that of the host's clock, with which ages are computed; `now` that of a clock that nothing
    /// changes, for what happens between two readings.
    pub fn evaluate_at(&self, time: f64, now: f64, all: &[&Readings]) {
        let mut state = self.lock();
        let State { history, since, answer: ApiAlerts { alerts, left_out, .. } } = &mut *state;
        history.observe(now, all);
        let inputs = Inputs::new(time, now, all, history, &self.thresholds);
        let mut still = BTreeMap::new();
        alerts.clear();
        *left_out = 0;
        for rule in &self.rules {
            let mut holding = inputs.firing(&rule.condition);
            if holding.len() > ALERTS_PER_RULE {
                *left_out += holding.len() - ALERTS_PER_RULE;
                // Those that are followed already stay, so that no alert ends because of another one.
                holding.sort_by_cached_key(|sample| !since.contains_key(&key(rule, sample)));
                holding.truncate(ALERTS_PER_RULE);
            }
            for sample in holding {
                let mut alert = ApiAlert::new(rule, &sample);
                let key = key(rule, &sample);
                let began = since.get(&key).copied().unwrap_or(now);
                still.insert(key, began);
                alert.since_seconds = now - began;
                if alert.since_seconds >= f64::from(rule.wait) {
                    alerts.push(alert);
                }
            }
        }
        alerts.sort_by(|a, b| b.severity.cmp(&a.severity).then_with(|| a.name.cmp(b.name)));
        *since = still;
    }

    /// The alerts that fire since the last evaluation.
    pub fn alerts(&self) -> ApiAlerts {
        self.lock().answer.clone()
    }
}

impl AlertSource for Evaluator {
    fn observe(&self, all: &[&Readings]) {
        self.evaluate_at(unix_seconds(), steady_seconds(), all);
    }

    fn to_json(&self) -> String {
        serde_json::to_string(&self.lock().answer).expect("maps with text keys, and numbers")
    }
}

fn key(rule: &AlertRule, sample: &LabelledValue<'_>) -> Key {
    (rule.name, labels(sample))
}

fn labels(sample: &LabelledValue<'_>) -> BTreeMap<&'static str, String> {
    sample.labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()
}

impl ApiAlert {
    /// The alert of a rule for one value.
    pub fn new(rule: &AlertRule, sample: &LabelledValue<'_>) -> ApiAlert {
        let label =
            |name: &str| sample.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| *value);
        ApiAlert {
            name: rule.name,
            severity: rule.severity,
            summary: template::render(rule.summary, rule.format, sample.value, label),
            labels: labels(sample),
            value: sample.value,
            since_seconds: 0.0,
        }
    }
}
