//! The rule file for Prometheus.

use std::fmt::Write as _;

use crate::alert::promql;
use crate::alert::recording::RECORDINGS;
use crate::alert::rule::AlertRule;
use crate::alert::table::GROUPS;
use crate::alert::template;
use crate::alert::threshold::Thresholds;

/// Where the documentation of the rules is.
const RUNBOOK: &str = "docs/alerts.md";

/// The rule file: recording rules, and the alert rules in groups.
pub fn text(thresholds: &Thresholds) -> String {
    let mut text = "# Alert and recording rules for the metrics of `poolwright serve`.\n\
        # Made by `poolwright check`, which can change thresholds. docs/alerts.md explains each alert.\n\
        groups:\n  - name: poolwright-recording\n    rules:\n"
        .to_owned();
    for recording in RECORDINGS {
        let _ = writeln!(text, "      # {}", recording.help);
        let _ = writeln!(text, "      - record: {}", recording.name);
        let _ = writeln!(text, "        expr: {}", outermost(&promql::value(&recording.value)));
    }
    for group in GROUPS {
        let _ = writeln!(text, "  - name: poolwright-{}\n    rules:", group.name);
        for rule in group.rules {
            add(&mut text, rule, thresholds);
        }
    }
    text
}

fn add(text: &mut String, rule: &AlertRule, thresholds: &Thresholds) {
    let _ = writeln!(text, "      - alert: {}", rule.name);
    let _ = writeln!(text, "        expr: |-");
    for line in promql::condition(&rule.condition, thresholds).lines() {
        let _ = writeln!(text, "          {line}");
    }
    if rule.wait > 0 {
        let _ = writeln!(text, "        for: {}", promql::duration(rule.wait));
    }
    let _ = writeln!(text, "        labels:\n          severity: {}", rule.severity.name());
    let _ = writeln!(text, "        annotations:");
    for (name, value) in annotations(rule, &template::to_prometheus(rule.summary, rule.format)) {
        let _ = writeln!(text, "          {name}: {}", quoted(&value));
    }
}

/// The annotations of an alert with this summary.
pub fn annotations(rule: &AlertRule, summary: &str) -> [(&'static str, String); 3] {
    [
        ("summary", summary.to_owned()),
        ("description", format!("{} {}", rule.meaning, rule.action)),
        ("runbook", format!("{RUNBOOK}#{}", rule.name.to_lowercase())),
    ]
}

/// A text as a scalar of YAML: a string of JSON is one.
pub fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string")
}

/// An expression without the parentheses around all of it.
fn outermost(expression: &str) -> &str {
    let Some(inside) = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) else {
        return expression;
    };
    let mut depth = 0_i32;
    let is_closed_early = inside.chars().any(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    });
    if is_closed_early { expression } else { inside }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parentheses_around_everything_are_removed() {
        for (text, expected) in
            [("(a / b)", "a / b"), ("(a) / (b)", "(a) / (b)"), ("a", "a"), ("((a))", "(a)")]
        {
            assert_eq!(outermost(text), expected);
        }
    }
}
