//! The table of rules, and the files that are made from it. `REWRITE=1` writes the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use poolwright_monitor::Readings;
use poolwright_monitor::alert::condition::{HOUR, Limit};
use poolwright_monitor::alert::example::ExampleSeries;
use poolwright_monitor::alert::rule::Decision;
use poolwright_monitor::alert::threshold::THRESHOLDS;
use poolwright_monitor::alert::{
    AlertRule, ApiAlerts, Evaluator, Expression, Thresholds, documentation, promtool, rule_file, table,
    template,
};
use poolwright_monitor::family::{BACKUPS, BACKUPS_LATEST, POOL_STATE_NOW};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Compares a file with the expected text, or writes it.
fn check(path: &str, expected: &str) {
    let path = root(path);
    if std::env::var_os("REWRITE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, expected).unwrap();
    }
    let actual = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(actual == expected, "{} is out of date; run this test with REWRITE=1", path.display());
}

#[test]
fn the_rule_file_is_the_generated_one() {
    check("packaging/prometheus/poolwright.rules.yml", &rule_file::text(&Thresholds::default()));
}

#[test]
fn the_page_is_the_generated_one() {
    check("docs/alerts.md", &documentation::text());
}

#[test]
fn the_tests_of_promtool_are_the_generated_ones() {
    check("packaging/prometheus/poolwright.test.yml", &promtool::text("poolwright.rules.yml"));
}

#[test]
fn changed_thresholds_are_in_the_rule_file() {
    let changed = Thresholds::changed(&["capacity-warning=0.5".to_owned()]).unwrap();
    let text = rule_file::text(&changed);
    assert!(text.contains("pool:poolwright_capacity:ratio > 0.5\n"), "{text}");
}

/// What the evaluator of this crate says; promtool checks the same examples.
#[test]
fn each_rule_fires_with_one_example_and_stays_quiet_with_another() {
    for rule in table::rules() {
        let decided = |series: &[ExampleSeries]| promtool::decided(rule, series);
        assert_eq!(decided(&rule.example.fires()).len(), 1, "{}", rule.name);
        assert!(!rule.example.quiet().is_empty(), "{}", rule.name);
        assert!(
            decided(&rule.example.quiet()).is_empty(),
            "{}: {:?}",
            rule.name,
            decided(&rule.example.quiet())
        );
    }
}

fn evaluator(names: &[&str]) -> Evaluator {
    Evaluator::of(table::rules().filter(|rule| names.contains(&rule.name)).collect(), Thresholds::default())
}

#[test]
fn an_alert_fires_after_its_delay() {
    let evaluator = evaluator(&["PoolDegraded"]);
    let state = |state| {
        let mut readings = Readings::default();
        readings.add_states(&POOL_STATE_NOW, &["kernel", "tank"], &["ONLINE", "DEGRADED"], state);
        readings
    };
    let firing = |now: f64, readings: &Readings| {
        evaluator.evaluate(now, &[readings]);
        evaluator.alerts().alerts.iter().map(|alert| alert.since_seconds).collect::<Vec<_>>()
    };
    assert_eq!(firing(1000.0, &state("DEGRADED")), [0.0; 0]);
    assert_eq!(firing(1059.0, &state("DEGRADED")), [0.0; 0]);
    assert_eq!(firing(1060.0, &state("DEGRADED")), [60.0]);
    assert_eq!(firing(1070.0, &state("ONLINE")), [0.0; 0]);
    assert_eq!(firing(1080.0, &state("DEGRADED")), [0.0; 0], "the delay begins again");
}

#[test]
fn the_clock_of_the_host_delays_no_alert() {
    let evaluator = evaluator(&["PoolDegraded", "BackupInFuture"]);
    let firing = |time: f64, now: f64| {
        let mut readings = Readings::default();
        readings.add_states(&POOL_STATE_NOW, &["kernel", "tank"], &["ONLINE", "DEGRADED"], "DEGRADED");
        readings.add(&BACKUPS, ["tank/b", "backup", "none"]).set(&BACKUPS_LATEST, 100_000.0);
        evaluator.evaluate_at(time, now, &[&readings]);
        evaluator.alerts().alerts.iter().map(|alert| (alert.name, alert.since_seconds)).collect::<Vec<_>>()
    };
    assert_eq!(firing(100_000.0, 1000.0), []);
    // The clock is set back by a day, and the time of the backup lies in the future.
    assert_eq!(firing(13_660.0, 1060.0), [("BackupInFuture", 0.0), ("PoolDegraded", 60.0)]);
    assert_eq!(firing(200_000.0, 1120.0), [("PoolDegraded", 120.0)]);
}

#[test]
fn a_rule_that_fires_everywhere_has_a_bounded_number_of_alerts() {
    let evaluator = evaluator(&["PoolDegraded"]);
    let mut readings = Readings::default();
    for pool in 0..600 {
        readings.add_states(
            &POOL_STATE_NOW,
            &["kernel", &format!("pool{pool}")],
            &["ONLINE", "DEGRADED"],
            "DEGRADED",
        );
    }
    for now in [1000.0, 1100.0] {
        evaluator.evaluate(now, &[&readings]);
    }
    let answer = evaluator.alerts();
    assert_eq!((answer.alerts.len(), answer.left_out), (500, 100));
    assert!(answer.alerts.iter().all(|alert| alert.since_seconds == 100.0));
    // A pool that is read before the others takes no place from an alert that fires.
    let mut more = Readings::default();
    more.add_states(&POOL_STATE_NOW, &["kernel", "first"], &["ONLINE", "DEGRADED"], "DEGRADED");
    more.resources.extend(readings.resources);
    evaluator.evaluate(1200.0, &[&more]);
    let later = evaluator.alerts();
    let pools = |answer: &ApiAlerts| {
        answer.alerts.iter().map(|alert| alert.labels["pool"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((pools(&later), later.left_out), (pools(&answer), 101));
}

#[test]
fn rules_are_complete() {
    let mut names = BTreeSet::new();
    for rule in table::rules() {
        let name = rule.name;
        assert!(names.insert(name), "{name} occurs twice");
        assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric()), "{name}");
        for text in [rule.meaning, rule.action] {
            assert!(text.ends_with(['.']), "{name}: {text}");
        }
        assert!(
            !rule.summary.ends_with('.') && rule.summary.starts_with(|c: char| !c.is_whitespace()),
            "{name}"
        );
        let labels = labels_of(rule);
        for used in template::labels(rule.summary) {
            assert!(labels.contains(&used), "{name}: the value has no label {used}");
        }
    }
    assert!(names.len() >= 30, "{}", names.len());
}

fn labels_of(rule: &AlertRule) -> Vec<&'static str> {
    rule.condition.comparisons().next().map_or(Vec::new(), |first| first.value.labels())
}

/// An operator keeps the labels of its left side, so that the right side may only lack labels.
#[test]
fn right_sides_have_no_labels_of_their_own() {
    let check = |name: &str, left: &Expression, right: &Expression| {
        let labels = left.labels();
        assert!(right.labels().iter().all(|label| labels.contains(label)), "{name}: {left:?} {right:?}");
    };
    for rule in table::rules() {
        rule.condition.visit(&mut |value| {
            if let Expression::Plus(left, right) | Expression::Quotient(left, right) = value {
                check(rule.name, left, right);
            }
        });
        for comparison in rule.condition.comparisons() {
            if let Limit::Expression(right) = comparison.limit {
                check(rule.name, &comparison.value, right);
            }
        }
    }
}

/// `check` and `serve` keep no more than this.
#[test]
fn only_prometheus_keeps_long_histories() {
    for rule in table::rules().filter(|rule| rule.decision == Decision::Anywhere) {
        rule.condition.visit(&mut |value| {
            let window = value.selector().map_or(0, |(_, window)| window.as_secs());
            assert!(window <= u64::from(2 * HOUR), "{}", rule.name);
        });
    }
}

#[test]
fn all_thresholds_are_used() {
    for threshold in THRESHOLDS {
        let is_used =
            |rule: &AlertRule| rule.condition.thresholds().iter().any(|used| used.name == threshold.name);
        assert!(table::rules().any(is_used), "{}", threshold.name);
        assert!(threshold.source.ends_with('.'), "{}", threshold.name);
    }
}
