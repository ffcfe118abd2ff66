//! Conditions as data.
//!
//! An [`Expression`] is a set of numbers, each with labels: the present values of a metric, or what is computed from them. A
//! [`Comparison`] keeps those on one side of a limit. The semantics are those of PromQL, so that both evaluations agree.

use std::time::Duration;

use crate::MetricFamily;

use crate::alert::threshold::Threshold;

/// Seconds.
pub type Seconds = u32;
/// A minute in seconds.
pub const MINUTE: Seconds = 60;
/// An hour in seconds.
pub const HOUR: Seconds = 60 * MINUTE;
/// A day in seconds.
pub const DAY: Seconds = 24 * HOUR;

/// Selects series of a metric by a label's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// The label.
    pub label: &'static str,
    /// Whether the value must be one of `values`, or none of them.
    pub is_one_of: bool,
    /// The values.
    pub values: &'static [&'static str],
}

/// The label has one of these values.
pub const fn is(label: &'static str, values: &'static [&'static str]) -> Match {
    Match { label, is_one_of: true, values }
}

/// The label has none of these values.
pub const fn is_not(label: &'static str, values: &'static [&'static str]) -> Match {
    Match { label, is_one_of: false, values }
}

/// Series of one metric.
#[derive(Clone, Copy, Debug)]
pub struct Selector {
    /// The metric.
    pub family: &'static MetricFamily,
    /// The required labels: all of these.
    pub labels: &'static [Match],
}

/// All series of a metric.
pub const fn all(family: &'static MetricFamily) -> Selector {
    Selector { family, labels: &[] }
}

/// The series of a metric with these labels.
pub const fn only(family: &'static MetricFamily, labels: &'static [Match]) -> Selector {
    Selector { family, labels }
}

/// A set of numbers with labels.
#[derive(Clone, Copy, Debug)]
pub enum Expression {
    /// The present values.
    Now(Selector),
    /// The increase of a counter within the last seconds.
    Increase(Selector, Seconds),
    /// The increase of a counter per second, on the average of the last seconds.
    Rate(Selector, Seconds),
    /// The change of a gauge within the last seconds.
    Change(Selector, Seconds),
    /// The predicted value of a gauge after the second number of seconds, extrapolated from the first number of seconds (a line
    /// fitted by least squares).
    Predicted(Selector, Seconds, Seconds),
    /// The values this many seconds ago.
    Earlier(Selector, Seconds),
    /// The time since the time that the metric gives.
    Age(Selector),
    /// A quantile of the observations of a histogram within the last seconds.
    Quantile(f64, Selector, Seconds),
    /// The sum over series that differ only in these labels, which the sum does not have.
    Sum(&'static Expression, &'static [&'static str]),
    /// The values of the left side for which the right side has none with the same labels, as PromQL's `unless`.
    Unless(&'static Expression, &'static Expression),
    /// A sum, as PromQL's `+`. The right side may lack labels of the left side.
    Plus(&'static Expression, &'static Expression),
    /// A quotient, as PromQL's `/`. The right side may lack labels of the left side.
    Quotient(&'static Expression, &'static Expression),
    /// A value divided by the mean of the others that differ only in this label. Values that are not positive do not count.
    ///
    /// It is not compared with the median, because the median of two is half their sum: one of two peers could never exceed
    /// twice the median.
    PeerRatio(&'static Expression, &'static str),
    /// The value of a recording rule.
    Recorded(&'static Recording),
}

/// A recording rule.
#[derive(Debug)]
pub struct Recording {
    /// The name.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// How it is computed.
    pub value: Expression,
}

/// A relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `>`
    Above,
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `==`
    Equal,
}

impl Relation {
    /// The operator of PromQL.
    pub fn operator(self) -> &'static str {
        match self {
            Relation::Above => ">",
            Relation::Below => "<",
            Relation::AtMost => "<=",
            Relation::Equal => "==",
        }
    }

    /// Whether it holds. It does not for a number that is not a number.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Relation::Above => left > right,
            Relation::Below => left < right,
            Relation::AtMost => left <= right,
            Relation::Equal => left == right,
        }
    }
}

/// The limit of a comparison.
#[derive(Clone, Copy, Debug)]
pub enum Limit {
    /// A number that no one would change, such as 0 errors.
    Number(f64),
    /// A number that users may change.
    Threshold(&'static Threshold),
    /// Another value. It may lack labels of the compared value.
    Expression(&'static Expression),
}

/// Keeps the values on one side of a limit.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// The values.
    pub value: Expression,
    /// The side.
    pub relation: Relation,
    /// The limit.
    pub limit: Limit,
}

/// A comparison with a limit.
pub const fn compare(value: Expression, relation: Relation, limit: Limit) -> Comparison {
    Comparison { value, relation, limit }
}

/// The metric is 1: the state is the present one, or the condition holds.
pub const fn holds(selector: Selector) -> Comparison {
    compare(Expression::Now(selector), Relation::Equal, Limit::Number(1.0))
}

/// The value is greater than 0.
pub const fn is_positive(value: Expression) -> Comparison {
    compare(value, Relation::Above, Limit::Number(0.0))
}

/// The value is above a threshold.
pub const fn above(value: Expression, threshold: &'static Threshold) -> Comparison {
    compare(value, Relation::Above, Limit::Threshold(threshold))
}

/// The value is below a threshold.
pub const fn below(value: Expression, threshold: &'static Threshold) -> Comparison {
    compare(value, Relation::Below, Limit::Threshold(threshold))
}

/// A further condition. Its values are compared by the labels that both sides have.
#[derive(Clone, Copy, Debug)]
pub enum RuleGuard {
    /// The rule fires only if such a value exists too.
    And(Comparison),
    /// The rule fires only if no such value exists.
    Unless(Comparison),
}

/// When a rule fires: once for each value that remains.
#[derive(Clone, Copy, Debug)]
pub enum AlertCondition {
    /// A comparison and further conditions.
    When(Comparison, &'static [RuleGuard]),
    /// No such series exists.
    Absent(Selector),
}

impl AlertCondition {
    /// The comparisons: the first one gives the alert its value and its labels.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let (first, guards) = match self {
            AlertCondition::When(first, guards) => (Some(first), *guards),
            AlertCondition::Absent(_) => (None, [].as_slice()),
        };
        let guards = guards.iter().map(|guard| match guard {
            RuleGuard::And(comparison) | RuleGuard::Unless(comparison) => comparison,
        });
        first.into_iter().chain(guards)
    }

    /// Calls `visit` with each value.
    pub fn visit(&self, visit: &mut dyn FnMut(&Expression)) {
        for comparison in self.comparisons() {
            comparison.value.visit(visit);
            if let Limit::Expression(value) = comparison.limit {
                value.visit(visit);
            }
        }
    }

    /// The thresholds of the condition.
    pub fn thresholds(&self) -> Vec<&'static Threshold> {
        let limits = self.comparisons().filter_map(|comparison| match comparison.limit {
            Limit::Threshold(threshold) => Some(threshold),
            Limit::Number(_) | Limit::Expression(_) => None,
        });
        limits.collect()
    }
}

impl Expression {
    /// Calls `visit` with this value and those that it is computed from.
    pub fn visit(&self, visit: &mut dyn FnMut(&Expression)) {
        visit(self);
        match self {
            Expression::Sum(value, _) | Expression::PeerRatio(value, _) => value.visit(visit),
            Expression::Plus(left, right)
            | Expression::Quotient(left, right)
            | Expression::Unless(left, right) => {
                left.visit(visit);
                right.visit(visit);
            }
            Expression::Recorded(recording) => recording.value.visit(visit),
            read => debug_assert!(read.selector().is_some()),
        }
    }

    /// The selector of a value that is read rather than computed, and the time that its history has to cover.
    pub fn selector(&self) -> Option<(&Selector, Duration)> {
        let (selector, seconds) = match self {
            Expression::Now(selector) | Expression::Age(selector) => (selector, 0),
            Expression::Increase(selector, window)
            | Expression::Rate(selector, window)
            | Expression::Change(selector, window)
            | Expression::Predicted(selector, window, _)
            | Expression::Earlier(selector, window)
            | Expression::Quantile(_, selector, window) => (selector, *window),
            Expression::Sum(..)
            | Expression::Unless(..)
            | Expression::Plus(..)
            | Expression::Quotient(..)
            | Expression::PeerRatio(..)
            | Expression::Recorded(_) => return None,
        };
        Some((selector, Duration::from_secs(seconds.into())))
    }

    /// The names of the labels of these values.
    pub fn labels(&self) -> Vec<&'static str> {
        match self {
            Expression::Sum(value, without) => {
                value.labels().into_iter().filter(|label| !without.contains(label)).collect()
            }
            Expression::PeerRatio(value, _)
            | Expression::Unless(value, _)
            | Expression::Plus(value, _)
            | Expression::Quotient(value, _) => value.labels(),
            Expression::Recorded(recording) => recording.value.labels(),
            read => read.selector().map_or(&[][..], |(selector, _)| selector.family.resource.labels).to_vec(),
        }
    }
}
