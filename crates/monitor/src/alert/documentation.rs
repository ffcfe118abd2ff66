//! The page `docs/alerts.md`.

use std::fmt::Write as _;

use crate::alert::promql;
use crate::alert::recording::RECORDINGS;
use crate::alert::rule::{AlertRule, Decision};
use crate::alert::table::{self, GROUPS};
use crate::alert::template;
use crate::alert::threshold::{THRESHOLDS, Thresholds};

const HEAD: &str = include_str!("documentation/head.txt");

/// The page.
pub fn text() -> String {
    let count = table::rules().count();
    let local = table::rules().filter(|rule| rule.is_local()).count();
    let mut text =
        "<!-- Generated: REWRITE=1 cargo test --release -p poolwright-monitor rules -->\n\n".to_owned();
    text += &HEAD.replace("{rules}", &count.to_string()).replace("{local}", &local.to_string());
    index(&mut text);
    for group in GROUPS {
        let _ = write!(text, "\n## {}\n", group.title);
        for rule in group.rules {
            section(&mut text, rule);
        }
    }
    thresholds(&mut text);
    recordings(&mut text);
    text
}

fn index(text: &mut String) {
    text.push_str("\n## All alerts\n\n| alert | severity | for | `check` |\n| --- | --- | --- | --- |\n");
    for rule in table::rules() {
        let wait = promql::duration(rule.wait);
        let check = if rule.is_local() { "yes" } else { "no" };
        let anchor = rule.name.to_lowercase();
        let _ = writeln!(
            text,
            "| [{}](#{anchor}) | {} | {} | {check} |",
            rule.name,
            rule.severity.name(),
            if rule.wait == 0 { "–" } else { &wait },
        );
    }
}

fn section(text: &mut String, rule: &AlertRule) {
    let _ = write!(text, "\n### {}\n\n", rule.name);
    let wait = match rule.wait {
        0 => "at once".to_owned(),
        wait => format!("after {}", promql::duration(wait)),
    };
    let _ = writeln!(text, "*{}*, {wait}: {}\n", rule.severity.name(), template::to_names(rule.summary));
    let _ = writeln!(text, "**What it means.** {}\n", rule.meaning);
    let _ = writeln!(text, "**What to do.** {}\n", rule.action);
    let _ = writeln!(text, "**To silence it:** `{}`.{}\n", silence(rule), changeable(rule));
    let decision = match rule.decision {
        Decision::Anywhere if rule.needs_history() => "Yes, by comparison with earlier runs.",
        Decision::Anywhere => "Yes.",
        Decision::Prometheus(reason) => &format!("No: {reason}."),
    };
    let _ = writeln!(text, "**`poolwright check` evaluates it:** {decision}\n");
    let expression = promql::condition(&rule.condition, &Thresholds::default());
    let _ = writeln!(text, "```promql\n{expression}\n```");
}

/// The command that silences a rule for what one alert is about.
fn silence(rule: &AlertRule) -> String {
    let label = template::labels(rule.summary).into_iter().next();
    let matcher = label.map_or(String::new(), |label| format!(" {label}={}", label.to_uppercase()));
    format!("amtool silence add alertname={}{matcher} --duration 7d --comment WHY", rule.name)
}

fn changeable(rule: &AlertRule) -> String {
    let thresholds = rule.condition.thresholds();
    if thresholds.is_empty() {
        return String::new();
    }
    let names: Vec<String> = thresholds
        .iter()
        .map(|threshold| format!("[`{}`](#thresholds) ({})", threshold.name, threshold.value))
        .collect();
    format!(" **Thresholds:** {}.", names.join(", "))
}

fn thresholds(text: &mut String) {
    text.push_str("\n## Thresholds\n\n| name | value | used by | source |\n| --- | --- | --- | --- |\n");
    for threshold in THRESHOLDS {
        let uses = |rule: &&AlertRule| {
            let of = rule.condition.thresholds();
            of.iter().any(|used| used.name == threshold.name)
        };
        let users: Vec<&str> = table::rules().filter(uses).map(|rule| rule.name).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            threshold.name,
            threshold.value,
            users.join(", "),
            threshold.source
        );
    }
}

fn recordings(text: &mut String) {
    text.push_str(
        "\n## Recording rules\n\nPrometheus computes these once; dashboards, fleets and some alerts use them. They keep the label \
         `instance` and those that Prometheus adds.\n\n| name | meaning |\n| --- | --- |\n",
    );
    for recording in RECORDINGS {
        let _ = writeln!(text, "| `{}` | {} |", recording.name, recording.help);
    }
}
