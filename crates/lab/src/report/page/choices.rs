//! The alternatives of each question: the trade-off as a plot, the Pareto front, and all cases that were tried.

use poolwright_report::plot::{Point, Scatter};
use poolwright_report::{Axis, Better, Mark, Page, Section};

use super::super::advice::{Advice, Alternative, Choice};
use super::super::{Report, measures, tables, text};

/// Number of settings above which the plot is more informative than the table.
const PLOTTED: usize = 3;

/// Adds a section with the alternatives of every question.
pub fn draw(page: &mut Page, report: &Report) {
    if report.advice.iter().all(|advice| advice.settings.is_empty()) {
        return;
    }
    let section = page.section("The choices and their alternatives");
    for advice in report.advice.iter().filter(|advice| !advice.settings.is_empty()) {
        section.heading(&text::front_title(advice));
        if let Some(plot) = trade_off(advice) {
            section.plot(&plot, "Medians with their 95 % intervals.");
        }
        section.paragraph(&format!("{}.", text::goal(advice)));
        section.table(&tables::front(advice));
        beaten(section, advice);
    }
}

fn beaten(section: &mut Section, advice: &Advice) {
    let Some(beaten) = text::beaten(advice) else { return };
    section.paragraph(&format!("{beaten}."));
    if advice.settings.iter().all(|setting| tables::is_in_front(advice, setting)) {
        return;
    }
    section.folded(&format!("Everything that was tried for {}", advice.question), |inside| {
        inside.table(&tables::all(advice));
    });
}

/// Plots the second criterion against the first one.
fn trade_off(advice: &Advice) -> Option<Scatter> {
    let [x, y, ..] = advice.criteria.as_slice() else { return None };
    let unit = |i: usize| advice.settings.iter().find_map(|s| s.figures[i].as_ref()).map(|f| f.unit.clone());
    let (ux, fx) = measures::shown(&x.info.name, &unit(0)?, []);
    let (uy, fy) = measures::shown(&y.info.name, &unit(1)?, []);
    let firm = matches!(advice.verdict, Choice::Best | Choice::AmongBest);
    let point = |setting: &Alternative| {
        let (x, x_range) = setting.figures[0].as_ref()?.scaled(fx);
        let (y, y_range) = setting.figures[1].as_ref()?.scaled(fy);
        let point = Point::new(x, y, "", &advice.values(&setting.set)).x_range(x_range).y_range(y_range);
        let chosen = firm && advice.case.as_ref() == Some(&setting.case);
        Some(if chosen { point.mark(Mark::Chosen) } else { point })
    };
    let points: Vec<Point> = advice.settings.iter().filter_map(point).collect();
    let better = |info: &crate::campaign::MeasureInfo| info.better.map_or(Better::Lower, Better::from);
    (points.len() >= PLOTTED).then(|| {
        let title = format!("{} against {}", y.info.title, x.info.title.to_lowercase());
        let axes = (Axis::new(&x.info.title, ux), Axis::new(&y.info.title, uy));
        Scatter::new(&title, axes.0, axes.1, (better(&x.info), better(&y.info)), points).size(872.0, 340.0)
    })
}
