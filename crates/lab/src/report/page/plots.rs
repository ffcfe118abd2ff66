//! Charts of a study's figures: bars, effects, and time against space.

use poolwright_report::plot::{Bars, HALF, Intervals, Point, Scatter};
use poolwright_report::{Axis, Better, Mark, Section};

use super::super::advice::Choice;
use super::super::cells::{self, Row};
use super::super::figure::Figure;
use super::super::{Report, StudyReport, TablePart, measures};
use super::MANY;
use crate::campaign::{Case, Study};
use crate::store::Trial;

/// Bars whose lengths differ by less than this fraction are equal.
const SAME: f64 = 0.005;

/// Adds a chart for each measure of a table that differs between cases, with a bar for each case.
pub fn bars(section: &mut Section, found: &StudyReport, part: &TablePart, report: &Report) {
    let at = |measure: &String| found.measures.iter().position(|m| m == measure);
    let drawn: Vec<Bars> =
        part.measures.iter().filter_map(at).filter_map(|i| bar_plot(found, report, i)).collect();
    let Some((lead, others)) = drawn.split_first() else { return };
    section.plot(lead, "Medians with their 95 % intervals.");
    let others: Vec<Bars> = others.iter().map(|plot| plot.clone().width(HALF)).collect();
    if found.rows.len() > MANY {
        section.folded("The other measures as bars", |inside| {
            inside.plots(&others);
        });
    } else {
        section.plots(&others);
    }
}

fn bar_plot(found: &StudyReport, report: &Report, i: usize) -> Option<Bars> {
    let measure = &found.measures[i];
    let has = || found.rows.iter().filter_map(|r| Some((r, r.figures[i].as_ref()?)));
    let (_, first) = has().next()?;
    // Equal bars, or a single one, say less than the table.
    let medians = || has().map(|(_, figure)| figure.median);
    let (least, most) = (medians().fold(f64::MAX, f64::min), medians().fold(f64::MIN, f64::max));
    if has().count() < 2 || most - least <= SAME * most.abs() {
        return None;
    }
    let (unit, factor) = measures::shown(measure, &first.unit, has().map(|(_, f)| f.median));
    let group = grouping(found);
    let plot = Bars::new(&found.columns[i].title, Axis::new("", unit));
    Some(has().fold(plot, |plot, (row, figure)| {
        let (median, range) = figure.scaled(factor);
        plot.bar(&row.label, &group(row), median, range, mark(report, found, row, measure))
    }))
}

/// With a second factor, colours distinguish the levels of the first one.
fn grouping(found: &StudyReport) -> impl Fn(&Row) -> String {
    let varied: Vec<String> = (found.factors.iter())
        .filter(|f| found.rows.iter().any(|r| r.case.get(*f) != found.rows[0].case.get(*f)))
        .cloned()
        .collect();
    move |row| match varied.as_slice() {
        [first, _, ..] => row.case.get(first).cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

fn mark(report: &Report, found: &StudyReport, row: &Row, measure: &str) -> Mark {
    let firm = |c| matches!(c, Choice::Best | Choice::AmongBest);
    let chosen = report.advice.iter().any(|a| {
        a.study == found.name
            && a.criteria.iter().any(|c| c.info.name == measure)
            && firm(a.verdict)
            && a.case.as_deref() == Some(&row.label)
    });
    if chosen { Mark::Chosen } else { Mark::None }
}

/// Adds the effects on the first measure as a chart, and those on all measures as a table.
pub fn effects(section: &mut Section, found: &StudyReport, study: &Study) {
    let Some(lead) = found.measures.first() else { return };
    let drawn: Vec<_> = found.effects.iter().filter(|e| e.measure == *lead && e.ci95.is_some()).collect();
    if let Some(first) = drawn.first() {
        let medians = drawn.iter().flat_map(|e| [e.medians.0, e.medians.1]);
        let (unit, factor) = measures::shown(lead, &first.unit, medians);
        let better = measures::better(study, lead, &first.unit).unwrap_or(Better::Higher);
        let plot = Intervals::new(&format!("Effects on {}", found.measure_title(lead)));
        let plot = plot.words("from", "to", "change of the median pair");
        let plot = drawn.iter().fold(plot, |plot, e| {
            let name = format!("{}: {} → {}", e.factor, e.from, e.to);
            let medians = (e.medians.0 * factor, e.medians.1 * factor);
            let (lo, hi) = e.ci95.unwrap_or((e.ratio, e.ratio));
            plot.row(&name, unit, medians, (e.ratio - 1.0, (lo - 1.0, hi - 1.0)), better)
        });
        section.heading("Effects").plot(
            &plot,
            "Each level against the first one of its factor, in pairs of trials that differ in nothing else.",
        );
    }
    if !found.effects.is_empty() {
        let table = super::tables::effects(found);
        section.folded("Effects on every measure", |inside| {
            inside.table(&table);
        });
    }
}

/// Plots time or rate against space, if the study has both, and marks the cases that no other case beats in both.
pub fn trade_off(
    section: &mut Section,
    found: &StudyReport,
    study: &Study,
    report: &Report,
    trials: &[Trial],
) {
    let Some((speed, space)) = axes(found) else { return };
    let (spaces, speeds) = (cells::figures(study, trials, &space), cells::figures(study, trials, &speed));
    let of = |row: &Row, all: &[(Case, Figure)]| {
        all.iter().find(|(case, _)| *case == row.case).map(|(_, figure)| figure.clone())
    };
    let both = |row| Some((row, of(row, &spaces)?, of(row, &speeds)?));
    let figures: Vec<(&Row, Figure, Figure)> = found.rows.iter().filter_map(both).collect();
    // If all cases take the same space, there is no trade-off.
    let sizes = || figures.iter().map(|(_, x, _)| x.median);
    let (least, most) = (sizes().fold(f64::MAX, f64::min), sizes().fold(0.0, f64::max));
    let [(_, x, y), _, ..] = figures.as_slice() else { return };
    if most <= least * 1.01 {
        return;
    }
    let better = measures::better(study, &speed, &y.unit).unwrap_or(Better::Lower);
    let (space_unit, space_factor) = measures::shown(&space, &x.unit, []);
    let (speed_unit, speed_factor) = measures::shown(&speed, &y.unit, []);
    let group = grouping(found);
    let point = |(row, x, y): &(&Row, Figure, Figure)| {
        let ((x, x_range), (y, y_range)) = (x.scaled(space_factor), y.scaled(speed_factor));
        let point = Point::new(x, y, &group(row), &row.label).x_range(x_range).y_range(y_range);
        point.mark(mark(report, found, row, &speed))
    };
    let (space_title, speed_title) = (study.info(&space).title, study.info(&speed).title);
    let plot = Scatter::new(
        &format!("{speed_title} against {space_title}"),
        Axis::new(&space_title, space_unit),
        Axis::new(&speed_title, speed_unit),
        (Better::Lower, better),
        figures.iter().map(point).collect(),
    );
    let which = if better == Better::Higher { "upper left" } else { "lower left" };
    section.plot(
        &plot,
        &format!("The {which} corner is best; the line joins the cases that no other case beats in both."),
    );
}

/// Returns the first column that describes speed, and the first one that describes space, or the total of its
/// phase.
fn axes(found: &StudyReport) -> Option<(String, String)> {
    let unit = |i: usize| found.rows.iter().find_map(|r| Some(r.figures[i].as_ref()?.unit.clone()));
    let speed = (0..found.measures.len())
        .find(|&i| unit(i).is_some_and(|u| measures::is_speed(&found.measures[i], &u)))?;
    let speed = found.measures[speed].clone();
    let space = found.measures.iter().find(|m| measures::is_space(m)).cloned();
    let sum = || match speed.split_once('/') {
        Some((phase, _)) => format!("{phase}/allocated"),
        None => "allocated".to_owned(),
    };
    let space = space.unwrap_or_else(sum);
    Some((speed, space))
}
