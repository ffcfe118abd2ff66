//! Formats a report as Markdown, for an issue, a wiki or a repository.

use poolwright_report::escape::markdown as escape;

use super::compare::Comparison;
use super::{Report, StudyReport, tables, text};

/// Formats a report: conclusions and claims first, then the tables of each study.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n{}\n", escape(&report.title), escape(&text::subtitle(report)));
    out += &conclusions(report);
    for warning in text::warnings(report) {
        out += &format!("\n> {}\n", escape(&warning).replace("\\`", "`"));
    }
    for advice in report.advice.iter().filter(|advice| !advice.settings.is_empty()) {
        out += &format!(
            "\n### {}\n\n{}.\n\n{}",
            escape(&text::front_title(advice)),
            escape(&text::goal(advice)),
            tables::front(advice).markdown()
        );
        out += &text::beaten(advice).map_or(String::new(), |beaten| format!("\n{}.\n", escape(&beaten)));
    }
    out += &format!("\n## What the original says\n\n{}.\n", escape(&text::verdicts(report)));
    if report.claims().count() > 0 {
        out.push('\n');
    }
    for claim in report.claims() {
        out += &format!("- {}\n", escape(&claim.line));
    }
    for found in &report.studies {
        out += &study(found);
    }
    if !report.failed.is_empty() {
        out += &format!("\n## Failed trials\n\n{}", tables::failed(report).markdown());
    }
    out += "\n## What it ran on\n\n";
    for (key, value) in report.machine.iter().chain(&report.versions) {
        out += &format!("- {}: {}\n", escape(key), escape(value));
    }
    out += &format!("\nSource: {}\n", escape(&report.source));
    out
}

fn conclusions(report: &Report) -> String {
    if report.advice.is_empty() {
        return String::new();
    }
    let mut out = format!("\n## {}\n\n", text::choice(report));
    for advice in &report.advice {
        out += &format!("- {}\n", escape(&advice.line));
    }
    let settings = tables::settings(&report.advice);
    if !settings.is_empty() {
        out += &format!("\n{}", settings.markdown());
    }
    out
}

fn study(study: &StudyReport) -> String {
    let mut out = format!("\n## {}\n\n{}\n", escape(&study.name), escape(&study.title));
    if study.is_empty() {
        return out + &format!("\n{}\n", text::NOT_RUN);
    }
    for (question, table) in tables::study(study) {
        if !question.is_empty() {
            out += &format!("\n### {}\n", escape(question));
        }
        out += &format!("\n{}", table.markdown());
    }
    if !study.claims.is_empty() {
        out += &format!("\n### What the original says\n\n{}", tables::claims(study).markdown());
    }
    if !study.effects.is_empty() {
        out += &format!("\n### Effects\n\n{}", tables::effects(study).markdown());
    }
    out
}

/// Formats the comparison of two runs.
pub fn comparison(comparison: &Comparison) -> String {
    let mut out = format!("\n## Against another run\n\n{}.\n", escape(&text::agreement(comparison)));
    for unlike in &comparison.unlike {
        out += &format!("\n> Not the same experiment – {}\n", escape(unlike));
    }
    if !comparison.apart.is_empty() {
        out += &format!("\n{}", tables::apart(comparison).markdown());
    }
    out
}
