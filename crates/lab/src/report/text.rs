//! Formats a run's results as text for the terminal, and the introduction of Markdown and of the page.

use poolwright_report::Terminal;
use poolwright_report::escape::line;

use super::claims::ClaimVerdict;
use super::compare::Comparison;
use super::{Report, format, tables};

/// Width of a study's table in characters if the terminal's width is unknown: a campaign may have dozens of
/// measures.
const PIPE_COLUMNS: usize = 100;

/// The text for a study without trials.
pub const NOT_RUN: &str = "No trial of this study has been run.";

/// Formats a report for a terminal: claims and recommendations first, then the tables, split if they are wide.
pub fn text(report: &Report, to: Terminal) -> String {
    let mut out = format!("{}\n{}\n\n", line(&report.title), line(&subtitle(report)));
    out += &format!("{}\n", line(&verdicts(report)));
    for claim in report.claims() {
        out += &format!("  {}\n", line(&claim.line));
    }
    if !report.advice.is_empty() {
        out += "\nRecommended settings\n";
        for a in &report.advice {
            let set = if a.set.is_empty() { "–".to_owned() } else { format::settings(&a.set) };
            out += &format!("  {}: {} ({})\n", line(&a.dataset), line(&set), tables::certainty(a.verdict));
            out += &format!("    {}\n", line(&a.line));
        }
    }
    for warning in warnings(report) {
        out += &format!("\n{}\n", line(&warning));
    }
    for study in &report.studies {
        out += &format!("\n{}: {}\n", line(&study.name), line(&study.title));
        if study.is_empty() {
            out += &format!("{NOT_RUN}\n");
            continue;
        }
        let parts = Terminal { width: to.width.or(Some(PIPE_COLUMNS)), ..to };
        out += &tables::study(study).terminal_in_parts(parts, study.factors.len());
    }
    if !report.failed.is_empty() {
        out += &format!("\nFailed trials\n{}", tables::failed(report).terminal(to));
    }
    out
}

/// Formats the comparison of two runs for a terminal.
pub fn comparison(comparison: &Comparison, to: Terminal) -> String {
    let mut out = format!("{}\n", line(&agreement(comparison)));
    for unlike in &comparison.unlike {
        out += &format!("Not the same experiment – {}\n", line(unlike));
    }
    if !comparison.apart.is_empty() {
        out += &format!("\n{}", tables::apart(comparison).terminal(to));
    }
    out
}

/// Formats the agreement: `Runs 1 and 2 agree in 38 of 40 cells (95.0 %); 3 without an interval are not counted`.
pub fn agreement(c: &Comparison) -> String {
    let share = c.share.map_or(String::new(), |s| format!(" ({:.1} %)", s * 100.0));
    let mut out = format!(
        "Runs {} and {} of {} agree within their intervals in {} of {}{share}",
        c.runs.0,
        c.runs.1,
        c.campaign,
        c.agree,
        format::counted(c.cells, "cell")
    );
    let has = |n| if n == 1 { "has" } else { "have" };
    if c.without_interval > 0 {
        let (n, cells) = (c.without_interval, format::counted(c.without_interval, "cell"));
        out += &format!("; {cells} {} too few trials for an interval", has(n));
    }
    if c.in_one_only > 0 {
        out += &format!(
            "; {} {} a figure in one run only",
            format::counted(c.in_one_only, "cell"),
            has(c.in_one_only)
        );
    }
    out
}

/// Describes the run in one line.
pub fn subtitle(report: &Report) -> String {
    format!(
        "{}, run {} · {} scale · seed {} · {} · {} of {} · {}",
        report.campaign,
        report.run,
        report.scale,
        report.seed,
        report.target,
        report.done,
        format::counted(report.planned.max(report.done), "trial"),
        report.started
    )
}

/// Formats the verdicts: `Of the original's 7 claims 5 agree, 1 does not, 1 shows no difference beyond noise`.
pub fn verdicts(report: &Report) -> String {
    let all = report.claims().count();
    let parts = report.verdicts().into_iter().map(|(verdict, n)| match verdict {
        ClaimVerdict::Agrees if n == 1 => "1 agrees".to_owned(),
        ClaimVerdict::Agrees => format!("{n} agree"),
        ClaimVerdict::DoesNotAgree if n == 1 => "1 does not agree".to_owned(),
        ClaimVerdict::DoesNotAgree => format!("{n} do not agree"),
        ClaimVerdict::NoDifference => format!("{n} with no difference beyond noise"),
        ClaimVerdict::Unclear => format!("{n} too close to tell"),
        ClaimVerdict::TooFew => format!("{n} with too few trials to tell"),
        ClaimVerdict::NotMeasured => format!("{n} not measured"),
    });
    match all {
        0 => "The original makes no claims that are checked here".to_owned(),
        _ => {
            let claims = if all == 1 { "claim" } else { "claims" };
            format!("The original's {all} {claims}: {}", parts.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Returns the limits of the results' validity.
pub fn warnings(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    let left = report.planned.saturating_sub(report.done + report.failed.len());
    if left > 0 {
        all.push(format!(
            "This run is not finished: {} of {} are missing. `poolwright lab run` continues it.",
            left,
            format::counted(report.planned, "trial")
        ));
    }
    if !report.failed.is_empty() {
        all.push(format!(
            "{} failed; the reasons are listed under \"Failed trials\", and their cases have fewer figures.",
            format::counted(report.failed.len(), "trial")
        ));
    }
    let figures = || report.studies.iter().flat_map(|s| &s.rows).flat_map(|r| r.figures.iter().flatten());
    let (noisy, figures) = (figures().filter(|f| f.noisy).count(), figures().count());
    if noisy > 0 {
        all.push(format!(
            "In {noisy} of {} the trials differ by more than 10 % (standard deviation over mean); the tables say \
             \"varies\" there.",
            format::counted(figures, "cell")
        ));
    }
    all
}
