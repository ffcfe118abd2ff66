//! Formats a report as Markdown, for an issue, a wiki or a repository.

use poolwright_report::escape::markdown as escape;

use super::compare::Comparison;
use super::{Report, tables, text};

/// Formats a report: claims and recommendations first, then a table for each study.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# {}\n\n{}\n\n", escape(&report.title), escape(&text::subtitle(report)));
    out += &format!("{}.\n", escape(&text::verdicts(report)));
    if report.claims().count() > 0 {
        out.push('\n');
    }
    for claim in report.claims() {
        out += &format!("- {}\n", escape(&claim.line));
    }
    if report.advice.iter().any(|a| !a.set.is_empty()) {
        out += &format!("\n## Recommended settings\n\n{}", tables::settings(&report.advice).markdown());
        out += &format!("\n{}", tables::evidence(&report.advice).markdown());
    }
    for warning in text::warnings(report) {
        out += &format!("\n> {}\n", escape(&warning).replace("\\`", "`"));
    }
    for study in &report.studies {
        out += &format!("\n## {}\n\n{}\n\n", escape(&study.name), escape(&study.title));
        if study.is_empty() {
            out += &format!("{}\n", text::NOT_RUN);
            continue;
        }
        out += &tables::study(study).markdown();
        if !study.claims.is_empty() {
            out += &format!("\n### What the original says\n\n{}", tables::claims(&study.claims).markdown());
        }
        if !study.effects.is_empty() {
            out += &format!("\n### Effects\n\n{}", tables::effects(study).markdown());
        }
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
