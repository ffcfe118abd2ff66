//! Conditions in PromQL.
//!
//! Sides are matched with `ignoring(…)` of the labels that only one side has, and sums are `without(…)`, so that labels that
//! Prometheus adds (`instance`, labels of a fleet) keep hosts separate.

use std::fmt::Write as _;

use crate::FamilyType;

use crate::alert::condition::{
    AlertCondition, Comparison, DAY, Expression, HOUR, Limit, MINUTE, RuleGuard, Seconds, Selector,
};
use crate::alert::threshold::Thresholds;

/// The condition of a rule.
pub fn condition(condition: &AlertCondition, thresholds: &Thresholds) -> String {
    let (first, guards) = match condition {
        AlertCondition::Absent(selected) => return format!("absent({})", selector(selected, "")),
        AlertCondition::When(first, guards) => (first, guards),
    };
    let mut text = comparison(first, thresholds);
    for guard in *guards {
        let (operator, other) = match guard {
            RuleGuard::And(other) => ("and", other),
            RuleGuard::Unless(other) => ("unless", other),
        };
        let matching = unshared(&first.value, &other.value);
        let _ = write!(text, "\n{operator}{matching}\n{}", comparison(other, thresholds));
    }
    text
}

/// A comparison.
fn comparison(of: &Comparison, thresholds: &Thresholds) -> String {
    let operator = of.relation.operator();
    let left = value(&of.value);
    match of.limit {
        Limit::Number(number) => format!("{left} {operator} {number}"),
        Limit::Threshold(threshold) => format!("{left} {operator} {}", thresholds.value(threshold)),
        Limit::Expression(right) => {
            let matching = many_to_one(&of.value, right);
            format!("{left} {operator}{matching} {}", value(right))
        }
    }
}

/// A value. It is an operand: in parentheses if it needs them.
pub fn value(of: &Expression) -> String {
    match of {
        Expression::Now(selected) => selector(selected, ""),
        Expression::Increase(selected, window) => format!("increase({})", range(selected, "", *window)),
        Expression::Rate(selected, window) => format!("rate({})", range(selected, "", *window)),
        Expression::Change(selected, window) => format!("delta({})", range(selected, "", *window)),
        Expression::Predicted(selected, window, ahead) => {
            format!("predict_linear({}, {ahead})", range(selected, "", *window))
        }
        Expression::Earlier(selected, ago) => format!("{} offset {}", selector(selected, ""), duration(*ago)),
        Expression::Age(selected) => format!("(time() - {})", selector(selected, "")),
        Expression::Quantile(part, selected, window) => {
            format!("histogram_quantile({part}, rate({}))", range(selected, "_bucket", *window))
        }
        Expression::Sum(of, without) => format!("sum without({}) ({})", without.join(", "), value(of)),
        Expression::Unless(left, right) => {
            format!("({} unless{} {})", value(left), unshared(left, right), value(right))
        }
        Expression::Plus(left, right) => binary(left, "+", right),
        Expression::Quotient(left, right) => binary(left, "/", right),
        Expression::PeerRatio(of, label) => {
            let each = format!("({} > 0)", value(of));
            let count = format!("count without({label}) ({each})");
            let sum = format!("sum without({label}) ({each})");
            let others = format!("({sum} - ignoring({label}) group_right() {each})");
            format!("({each} * ignoring({label}) group_left() ({count} - 1) / {others})")
        }
        Expression::Recorded(recording) => recording.name.to_owned(),
    }
}

fn binary(left: &Expression, operator: &str, right: &Expression) -> String {
    format!("({} {operator}{} {})", value(left), many_to_one(left, right), value(right))
}

/// How the sides of an operator are matched if the right one lacks labels.
fn many_to_one(left: &Expression, right: &Expression) -> String {
    let ignored = only_in(&left.labels(), &right.labels());
    match ignored.is_empty() {
        true => String::new(),
        false => format!("{} group_left()", ignoring(&ignored)),
    }
}

/// How the sides of `and` or `unless` are matched if each may lack labels of the other.
fn unshared(left: &Expression, right: &Expression) -> String {
    let (left, right) = (left.labels(), right.labels());
    let ignored: Vec<&str> = only_in(&left, &right).into_iter().chain(only_in(&right, &left)).collect();
    ignoring(&ignored)
}

fn only_in(labels: &[&'static str], others: &[&'static str]) -> Vec<&'static str> {
    labels.iter().copied().filter(|label| !others.contains(label)).collect()
}

fn ignoring(labels: &[&str]) -> String {
    match labels {
        [] => String::new(),
        _ => format!(" ignoring({})", labels.join(", ")),
    }
}

fn range(selected: &Selector, suffix: &str, window: Seconds) -> String {
    format!("{}[{}]", selector(selected, suffix), duration(window))
}

fn selector(selected: &Selector, suffix: &str) -> String {
    debug_assert_eq!(suffix == "_bucket", selected.family.kind == FamilyType::Histogram);
    let matchers = selected.labels.iter().map(|wanted| {
        let operator = match (wanted.is_one_of, wanted.values.len()) {
            (true, 1) => "=",
            (false, 1) => "!=",
            (true, _) => "=~",
            (false, _) => "!~",
        };
        format!("{}{operator}\"{}\"", wanted.label, wanted.values.join("|"))
    });
    let matchers: Vec<String> = matchers.collect();
    match matchers.is_empty() {
        true => format!("{}{suffix}", selected.family.name),
        false => format!("{}{suffix}{{{}}}", selected.family.name, matchers.join(", ")),
    }
}

/// A duration as Prometheus writes it.
pub fn duration(seconds: Seconds) -> String {
    match seconds {
        0 => "0s".to_owned(),
        _ if seconds.is_multiple_of(DAY) => format!("{}d", seconds / DAY),
        _ if seconds.is_multiple_of(HOUR) => format!("{}h", seconds / HOUR),
        _ if seconds.is_multiple_of(MINUTE) => format!("{}m", seconds / MINUTE),
        _ => format!("{seconds}s"),
    }
}
