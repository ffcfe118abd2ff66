//! The page of a run: conclusions and tested claims first, then the evidence.

mod choices;
mod histograms;
mod plots;
mod series;

use poolwright_report::{Callout, Page, Section, Tone};

use super::advice::Advice;
use super::compare::Comparison;
use super::{ClaimVerdict, Report, StudyReport, format, tables, text};
use crate::campaign::{Campaign, Study};
use crate::store::Trial;

/// Number of rows above which only the first measure has an open bar chart; the charts of the others are collapsed.
const MANY: usize = 12;

/// Builds the whole page. `text` is the content of the campaign's file; `against` is the run to compare with.
pub fn html(
    report: &Report,
    campaign: &Campaign,
    file: &str,
    trials: &[Trial],
    against: Option<&Comparison>,
) -> String {
    let mut page = Page::new(&report.title).subtitle(&text::subtitle(report)).footer(&format!(
        "poolwright lab {} · {}",
        env!("CARGO_PKG_VERSION"),
        report.started
    ));
    summary(page.section(""), report);
    choices::draw(&mut page, report);
    if let Some(comparison) = against {
        compared(page.section("Against another run"), comparison);
    }
    for found in &report.studies {
        let Some(study) = campaign.study(&found.name) else { continue };
        self::study(page.section(&study.name), found, study, report, trials);
    }
    if !report.failed.is_empty() {
        page.section("Failed trials").table(&tables::failed(report));
    }
    ran_on(page.section("What it ran on"), report, campaign, trials);
    how_to_read(page.section("How to read this"));
    page.section("The campaign itself").raw(&format!("{}.toml", report.campaign), file);
    page.html()
}

/// Adds the summary.
fn summary(top: &mut Section, report: &Report) {
    let odd =
        report.claims().filter(|c| !matches!(c.verdict, ClaimVerdict::Agrees | ClaimVerdict::NotMeasured));
    let odd: Vec<String> = odd.take(5).map(|c| c.line.clone()).collect();
    let kind = match report.claims().any(|c| c.verdict == ClaimVerdict::DoesNotAgree) {
        true => Callout::Warning,
        false if odd.is_empty() && report.claims().count() > 0 => Callout::Change,
        false => Callout::Note,
    };
    if !report.about.is_empty() {
        top.paragraph(&report.about);
    }
    if !report.advice.is_empty() {
        top.heading(text::choice(report)).list(report.advice.iter().map(|advice| &advice.line));
    }
    if report.advice.iter().any(|a| !a.set.is_empty() && a.dataset.is_some()) {
        top.heading("Recommended settings").table(&tables::settings(&report.advice));
        dangerous(top, report);
    }
    top.callout(kind, &text::verdicts(report), "Each statement is beside its measured figures below.");
    if !odd.is_empty() {
        top.heading("Where it is not as the original says").list(&odd);
    }
    for warning in text::warnings(report) {
        top.callout(Callout::Warning, "Before you trust this", &warning);
    }
    tiles(top, report);
}

/// Adds better but dangerous settings, with the danger.
fn dangerous(top: &mut Section, report: &Report) {
    let of = report.advice.iter().flat_map(|a| {
        let all = a.dangerous.iter().chain(&a.conditions);
        all.map(|text| format!("{}: {text}", a.question))
    });
    let all: Vec<String> = of.collect();
    if !all.is_empty() {
        top.callout(
            Callout::Warning,
            "Better, but not recommended",
            "These settings lose data or may lose it:",
        );
        top.list(&all);
    }
}

fn tiles(top: &mut Section, report: &Report) {
    let agree = report.claims().filter(|c| c.verdict == ClaimVerdict::Agrees).count();
    let claims = format!("{agree} of {}", report.claims().count());
    let trials = format!("{} of {}", report.done, report.planned.max(report.done));
    let failed = match report.failed.len() {
        0 => "none failed".to_owned(),
        n => format!("{n} failed"),
    };
    let (noisy, figures) = report.noisy();
    let cells = format!("{noisy} of {figures}");
    let bad = |is: bool| if is { Tone::Bad } else { Tone::Plain };
    top.tiles([
        ("claims that agree", claims, "", Tone::Plain),
        ("trials", trials, failed.as_str(), bad(!report.failed.is_empty())),
        ("cells that vary over 10 %", cells, "standard deviation over mean", Tone::Plain),
    ]);
}

fn compared(section: &mut Section, comparison: &Comparison) {
    section.paragraph(&format!("{}.", text::agreement(comparison)));
    if !comparison.unlike.is_empty() {
        section.callout(Callout::Warning, "Not the same experiment", &comparison.unlike.join("; "));
    }
    if !comparison.apart.is_empty() {
        section.table(&tables::apart(comparison));
    }
}

fn study(section: &mut Section, found: &StudyReport, study: &Study, report: &Report, trials: &[Trial]) {
    section.paragraph(&found.title);
    if found.is_empty() {
        section.paragraph(text::NOT_RUN);
        return;
    }
    if !found.claims.is_empty() {
        section.heading("What the original says").table(&tables::claims(found));
    }
    for part in &found.tables {
        section.heading(if part.question.is_empty() { "Figures" } else { &part.question });
        plots::bars(section, found, part, report);
        section.table(&tables::part_table(found, part));
    }
    plots::effects(section, found, study);
    let has_front = |a: &Advice| a.study == found.name && a.criteria.len() > 1;
    if !report.advice.iter().any(has_front) {
        plots::trade_off(section, found, study, report, trials);
    }
    let typical = series::typical(study, trials);
    series::draw(section, study, &typical);
    histograms::draw(section, study, trials);
    logs(section, &typical);
}

/// Adds the drivers' log lines, collapsed.
fn logs(section: &mut Section, typical: &[series::Typical]) {
    section.folded("Log lines of the drivers", |inside| {
        for t in typical {
            for phase in t.outcome.phases.iter().filter(|p| !p.log.is_empty()) {
                let lines = phase.log.iter().map(|(at, line)| format!("{at:10.1} s  {line}\n"));
                let name = format!("{} · {} · block {}", t.label, phase.name, t.block + 1);
                inside.raw(&name, &lines.collect::<String>());
            }
        }
    });
}

fn ran_on(section: &mut Section, report: &Report, campaign: &Campaign, trials: &[Trial]) {
    let own = [
        ("campaign", report.campaign.clone()),
        ("source", report.source.clone()),
        ("scale", report.scale.clone()),
        ("seed", report.seed.to_string()),
        ("target", report.target.clone()),
        ("order", "blocks; the cases of each block in an order drawn from the seed".to_owned()),
        ("began", report.started.clone()),
    ];
    let own = own.into_iter().map(|(k, v)| (k.to_owned(), v));
    let found = report.machine.iter().chain(&report.versions).map(|(k, v)| (k.clone(), v.clone()));
    section.key_values(own.chain(found));
    let line = |t: &Trial| {
        let study = campaign.studies.iter().find(|s| s.name == t.key.study);
        let case = study.map_or_else(|| format::levels(&t.key.case), |s| format::case(s, &t.key.case));
        let took = match &t.outcome {
            Ok(outcome) => format!("{:.1} s", outcome.seconds),
            Err(_) => "failed".to_owned(),
        };
        let node = if report.runs_on(&t.node) { String::new() } else { format!("  on {}", t.node) };
        format!(
            "{:4}  {}  {}, block {}: {case}  {took}{node}\n",
            t.position + 1,
            t.started,
            t.key.study,
            t.key.block + 1
        )
    };
    let mut order: Vec<&Trial> = trials.iter().collect();
    order.sort_by_key(|t| t.position);
    section.raw("Trials in the order they were run in", &order.into_iter().map(line).collect::<String>());
}

fn how_to_read(section: &mut Section) {
    section.paragraph(
        "A row of a table is a case: one level of each factor. Every figure is the median of its trials, with the \
         95 % interval of that median below it (from Student's t below twenty trials, a bootstrap from there on; none below three). \
         A figure that is the same in every trial has no interval. \"Varies\" marks cells in which the trials' standard \
         deviation is over a tenth of their mean.",
    );
    section.paragraph(
        "Claims and effects compare trials of the same block that differ in one respect only, and say the median of \
         those ratios with its 95 % interval. If that holds 1, there is no difference beyond noise. Many intervals \
         are shown, each for itself: of twenty settings that do nothing, one will look as if it did something.",
    );
    section.paragraph(
        "A choice is by a goal of `tune`: the weighted geometric mean of the ratios of a case's figures to those of another \
         case, each so that lower is better, in pairs of trials of one block. Its 95 % interval is that of the median pair. \
         Settings whose interval holds 1 are not told apart. The Pareto front holds the settings that no other one beats: \
         better in one figure beyond noise, and worse in none. Only settings that lose no data are candidates.",
    );
    section.paragraph(
        "Curves over time are of one trial of each case, the one whose first measure is the median. docs/method.md says \
         how each figure is obtained.",
    );
}
