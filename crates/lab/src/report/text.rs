//! Formats a run's results as text for the terminal, and the introduction of Markdown and of the page.

use poolwright_base::units::{bytes, counted, format_count};
use poolwright_report::escape::line;
use poolwright_report::{Terminal, Unit};

use super::advice::Advice;
use super::compare::Comparison;
use super::{ClaimVerdict, Report, tables};
use crate::LabPoolLoad;

/// Width of a study's table in characters if the terminal's width is unknown: a campaign may have dozens of
/// measures.
const PIPE_COLUMNS: usize = 100;

/// The text for a study without trials.
pub const NOT_RUN: &str = "No trial of this study has been run.";

/// Returns the heading of the conclusions. A campaign without an original has no author who chose.
pub fn choice(report: &Report) -> &'static str {
    let original = report.advice.iter().any(|advice| advice.original.is_some());
    if original { "What its author would choose today" } else { "What to choose" }
}

/// Formats a report for a terminal: conclusions, the Pareto fronts behind them and claims first, then the tables, split if they
/// are wide.
pub fn text(report: &Report, to: Terminal) -> String {
    let mut out = format!("{}\n{}\n", line(&report.title), line(&subtitle(report)));
    let parts = Terminal { width: to.width.or(Some(PIPE_COLUMNS)), ..to };
    if !report.advice.is_empty() {
        out += &format!("\n{}\n", choice(report));
        for advice in &report.advice {
            out += &format!("  {}\n", line(&advice.line));
        }
    }
    for warning in warnings(report) {
        out += &format!("\n{}\n", line(&warning));
    }
    for advice in report.advice.iter().filter(|advice| !advice.settings.is_empty()) {
        out += &format!("\n{}. {}.\n\n", line(&front_title(advice)), line(&goal(advice)));
        out += &tables::front(advice).terminal_in_parts(parts, advice.settings[0].set.len());
        out += &beaten(advice).map_or(String::new(), |beaten| format!("\n{}.\n", line(&beaten)));
    }
    out += &format!("\n{}\n", line(&verdicts(report)));
    for claim in report.claims() {
        out += &format!("  {}\n", line(&claim.line));
    }
    for study in &report.studies {
        out += &format!("\n{}: {}\n", line(&study.name), line(&study.title));
        if study.is_empty() {
            out += &format!("{NOT_RUN}\n");
            continue;
        }
        for (i, (question, table)) in tables::study(study).into_iter().enumerate() {
            if !question.is_empty() {
                let gap = if i > 0 { "\n" } else { "" };
                out += &format!("{gap}{}\n", line(question));
            }
            out += &table.terminal_in_parts(parts, study.factors.len());
        }
    }
    if !report.failed.is_empty() {
        out += &format!("\nFailed trials\n{}", tables::failed(report).terminal(to));
    }
    out
}

/// Formats the heading of a question's alternatives: `Compression of table 1: the Pareto front`.
pub fn front_title(advice: &Advice) -> String {
    format!("{}: the Pareto front", advice.question)
}

/// Formats the goal with its weights, and how it relates to the column of costs.
pub fn goal(advice: &Advice) -> String {
    format!("The cost is that of the goal {}, relative to the best setting", super::advice::goal(advice))
}

/// Names the settings that another one beats; `None` if no setting is beaten.
pub fn beaten(advice: &Advice) -> Option<String> {
    let names = advice.beaten();
    (!names.is_empty()).then(|| {
        format!(
            "Beaten, because another setting is better in one figure and worse in none: {}",
            names.join(", ")
        )
    })
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
    let (agree, cells) = (format_count(c.agree as u64), counted(c.cells as u64, "cell"));
    let ((first, second), campaign) = (c.runs, &c.campaign);
    let mut out = format!(
        "Runs {first} and {second} of {campaign} agree within their intervals in {agree} of {cells}{share}"
    );
    if c.apart_of_host > 0 {
        let measure = if c.apart_of_host == 1 { "measures" } else { "measure" };
        let others = format_count(c.apart_of_host as u64);
        out += &format!("; of the others, {others} {measure} the whole host with all of its processes");
    }
    let cells = |n: usize| format!("{} {}", counted(n as u64, "cell"), if n == 1 { "has" } else { "have" });
    if c.without_interval > 0 {
        out += &format!("; {} too few trials for an interval", cells(c.without_interval));
    }
    if c.in_one_only > 0 {
        out += &format!("; {} a figure in one run only", cells(c.in_one_only));
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
        format_count(report.done as u64),
        counted(report.planned.max(report.done) as u64, "trial"),
        report.started
    )
}

/// Formats the verdicts: `The original's 7 claims: 5 agree, 1 does not agree, 1 with no difference beyond noise`.
pub fn verdicts(report: &Report) -> String {
    let parts = report.verdicts().into_iter().map(|(verdict, n)| match verdict {
        ClaimVerdict::Agrees if n == 1 => "1 agrees".to_owned(),
        ClaimVerdict::Agrees => format!("{n} agree"),
        ClaimVerdict::DoesNotAgree if n == 1 => "1 does not agree".to_owned(),
        ClaimVerdict::DoesNotAgree => format!("{n} do not agree"),
        ClaimVerdict::Equal => format!("{n} equal"),
        ClaimVerdict::NoDifference => format!("{n} with no difference beyond noise"),
        ClaimVerdict::Unclear => format!("{n} too close to tell"),
        ClaimVerdict::TooFew => format!("{n} with too few trials to tell"),
        ClaimVerdict::NotMeasured => format!("{n} not measured"),
    });
    match report.claims().count() {
        0 => "The campaign checks no claims".to_owned(),
        all => {
            let claims = counted(all as u64, "claim");
            let is_of_a_report =
                report.claims().any(|claim| !claim.source.is_empty() || claim.original.is_some());
            let whose = if is_of_a_report { "original's" } else { "campaign's" };
            format!("The {whose} {claims}: {}", parts.collect::<Vec<_>>().join(", "))
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
            format_count(left as u64),
            counted(report.planned as u64, "trial")
        ));
    }
    if !report.failed.is_empty() {
        all.push(format!(
            "{} failed; the reasons are listed under \"Failed trials\", and their cases have fewer figures.",
            counted(report.failed.len() as u64, "trial")
        ));
    }
    all.extend(report.pool.map(|pool| pool_load(&pool)));
    let (noisy, figures) = report.noisy();
    if noisy > 0 {
        all.push(format!(
            "In {} of {} the trials differ by more than 10 % (standard deviation over mean); the tables say \
             \"varies\" there.",
            format_count(noisy),
            counted(figures, "cell")
        ));
    }
    all
}

/// Says what others did in the pool of the trials.
fn pool_load(pool: &LabPoolLoad) -> String {
    let worst = Unit::Nanoseconds.format(pool.load.worst_device_ns as f64);
    format!(
        "During the trials, the devices of the pool wrote {}. Others read {} and wrote {} in its datasets meanwhile: bytes on devices and \
         ARC hits include theirs. In the slowest second, half of the I/O of the devices took up to {worst}.",
        bytes(pool.device_written_bytes),
        bytes(pool.load.others_read_bytes),
        bytes(pool.load.others_written_bytes)
    )
}
