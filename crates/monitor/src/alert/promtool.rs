//! Unit tests for `promtool test rules`, made from the example data of the rules.
//!
//! The expected alerts, with their labels and texts, come from this crate's own evaluation: promtool checks that Prometheus agrees.

use std::fmt::Write as _;

use crate::alert::evaluator::{ApiAlert, Evaluator};
use crate::alert::example::{ExampleSeries, SeriesShape, decision_time, readings_at};
use crate::alert::rule::AlertRule;
use crate::alert::rule_file::{annotations, quoted};
use crate::alert::table;
use crate::alert::threshold::Thresholds;

/// The alerts of one rule with example data, at the time of the decision.
pub fn decided(rule: &'static AlertRule, series: &[ExampleSeries]) -> Vec<ApiAlert> {
    let evaluator = Evaluator::of(vec![rule], Thresholds::default());
    for minute in 0..=decision_time(&rule.condition, rule.wait) / 60 {
        evaluator.evaluate(f64::from(minute * 60), &[&readings_at(minute, series)]);
    }
    evaluator.alerts().alerts
}

/// The file of tests for a rule file with this path.
pub fn text(rule_file: &str) -> String {
    let mut text = format!("rule_files: [{}]\nevaluation_interval: 1m\ntests:\n", quoted(rule_file));
    for rule in table::rules() {
        test(&mut text, rule, "fires", &rule.example.fires());
        test(&mut text, rule, "quiet", &rule.example.quiet());
    }
    text
}

fn test(text: &mut String, rule: &'static AlertRule, name: &str, series: &[ExampleSeries]) {
    let time = decision_time(&rule.condition, rule.wait) / 60;
    let _ = writeln!(text, "  - name: {} {name}", rule.name);
    let _ = writeln!(text, "    interval: 1m");
    let _ = writeln!(text, "    input_series:");
    for one in series {
        input(text, one, time);
    }
    let _ = writeln!(text, "    alert_rule_test:");
    let _ = writeln!(text, "      - alertname: {}", rule.name);
    let _ = writeln!(text, "        eval_time: {time}m");
    let alerts = decided(rule, series);
    let _ = writeln!(text, "        exp_alerts:{}", if alerts.is_empty() { " []" } else { "" });
    for alert in alerts {
        let _ = writeln!(text, "          - exp_labels:\n              severity: {}", rule.severity.name());
        for (label, value) in &alert.labels {
            let _ = writeln!(text, "              {label}: {}", quoted(value));
        }
        let _ = writeln!(text, "            exp_annotations:");
        for (name, value) in annotations(rule, &alert.summary) {
            let _ = writeln!(text, "              {name}: {}", quoted(&value));
        }
    }
}

fn input(text: &mut String, series: &ExampleSeries, time: u32) {
    let name = series.family.name;
    match series.shape {
        SeriesShape::Constant(value) => line(text, name, series, None, &format!("{value}x{time}")),
        SeriesShape::Ramp(first, step) => {
            let sign = if step < 0.0 { '-' } else { '+' };
            line(text, name, series, None, &format!("{first}{sign}{}x{time}", step.abs()));
        }
        SeriesShape::Buckets(bounds, steps) => {
            let mut sum = 0.0;
            for (at, step) in steps.iter().enumerate() {
                sum += step;
                let bound = bounds.get(at).map_or("+Inf".to_owned(), f64::to_string);
                line(text, &format!("{name}_bucket"), series, Some(&bound), &format!("0+{sum}x{time}"));
            }
        }
    }
}

fn line(text: &mut String, name: &str, series: &ExampleSeries, bound: Option<&str>, values: &str) {
    let of = series.family.resource.labels.iter().copied().zip(series.labels.iter().copied());
    let all = of.chain(bound.map(|bound| ("le", bound))).filter(|(_, value)| !value.is_empty());
    let labels: Vec<String> = all.map(|(label, value)| format!("{label}={}", quoted(value))).collect();
    let selector = quoted(&format!("{name}{{{}}}", labels.join(",")));
    let _ = writeln!(text, "      - series: {selector}\n        values: {}", quoted(values));
}
