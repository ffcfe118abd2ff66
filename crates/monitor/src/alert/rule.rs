//! The parts of a rule.

use schemars::JsonSchema;
use serde::Serialize;

use crate::alert::condition::{AlertCondition, Expression, Seconds};
use crate::alert::example::Example;

/// How urgent an alert is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlertSeverity {
    /// Look at it within days.
    Warning,
    /// Data or service is lost, or will be soon.
    Critical,
}

impl AlertSeverity {
    /// The value of the label `severity`.
    pub fn name(self) -> &'static str {
        match self {
            AlertSeverity::Warning => "warning",
            AlertSeverity::Critical => "critical",
        }
    }
}

/// How to write the value of an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueFormat {
    /// A count or a rate: `1.5k`.
    Number,
    /// Bytes: `1.5Ki`.
    Bytes,
    /// A duration: `1d 2h 3m 4s`.
    Duration,
    /// Parts of 1 as a percentage: `50%`.
    Percentage,
}

/// Whether conditions of a rule can be decided without Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// By `poolwright check` and `poolwright serve`.
    Anywhere,
    /// Only by Prometheus, for this reason.
    Prometheus(&'static str),
}

/// An alert rule.
#[derive(Debug)]
pub struct AlertRule {
    /// The name in CamelCase.
    pub name: &'static str,
    /// How urgent it is.
    pub severity: AlertSeverity,
    /// How long the condition has to hold.
    pub wait: Seconds,
    /// When it fires.
    pub condition: AlertCondition,
    /// How to write the value.
    pub format: ValueFormat,
    /// One line with `{label}` and `{value}`.
    pub summary: &'static str,
    /// Its meaning.
    pub meaning: &'static str,
    /// The recommended action.
    pub action: &'static str,
    /// Whether it needs Prometheus.
    pub decision: Decision,
    /// Whether `poolwright check` prints the value as performance data, even if the rule is not named.
    pub is_figure: bool,
    /// Data with which it fires, and data with which it does not.
    pub example: Example,
}

impl AlertRule {
    /// Whether this program can decide it.
    pub fn is_local(&self) -> bool {
        self.decision == Decision::Anywhere
    }

    /// Whether the condition compares with earlier readings.
    pub fn needs_history(&self) -> bool {
        let mut needs = false;
        self.condition.visit(&mut |value: &Expression| {
            needs |= value.selector().is_some_and(|(_, window)| !window.is_zero());
        });
        needs
    }
}
