//! The tables, identical in every output.

mod choices;
mod shown;

use poolwright_report::{Cell, Table, Tone, Unit};

use super::claims::{self, ClaimResult};
use super::compare::Comparison;
use super::{ClaimVerdict, Effect, Report, StudyReport, TablePart, format, measures};

pub use choices::{all, front, is_in_front, settings};
pub use shown::ShownColumn;

/// The tables of a study, each with its question: a row for each case, a column for each measure, with median, interval and
/// a mark for large variation.
pub fn study(study: &StudyReport) -> Vec<(&str, Table)> {
    study.tables.iter().map(|part| (part.question.as_str(), part_table(study, part))).collect()
}

/// The table that answers one question.
pub fn part_table(study: &StudyReport, part: &TablePart) -> Table {
    let missing = study.rows.iter().any(|r| r.failed > 0 || r.trials == 0);
    let at = |measure: &String| study.measures.iter().position(|m| m == measure);
    Table::of(&study.rows)
        .each(&study.factors, |table, factor| {
            table.left(factor, |row| row.case.get(factor).map_or("", String::as_str))
        })
        .each(part.measures.iter().filter_map(at), |table, i| {
            let figures = study.rows.iter().filter_map(|r| r.figures[i].as_ref());
            let shown = ShownColumn::new(&study.columns[i], figures);
            table.right(shown.title(), |row| shown.cell(row.figures[i].as_ref()))
        })
        .right_if(missing, "trials", |row| {
            let failed = if row.failed > 0 { format!("{} failed", row.failed) } else { String::new() };
            Cell::count(row.trials as u64).note(failed)
        })
        .table()
}

fn number(measure: &str, unit: &str, value: f64) -> Cell {
    let (shown, factor) = measures::shown(measure, unit, [value]);
    Cell::num(value * factor, shown)
}

/// The table of a study's claims: the original's figures next to the measured ones.
pub fn claims(study: &StudyReport) -> Table {
    let sides = |claim: &ClaimResult| {
        let show = |i: usize| Cell::from(claim.ours.map(|ours| number(&claim.measure, &claim.unit, ours[i])));
        let notes = [format::levels(&claim.better), than(claim)];
        claims::ordered(claim.than_first, [0, 1].map(|i| show(i).note(notes[i].as_str())))
    };
    let inverse = |claim: &ClaimResult, ratio: f64| if claim.than_first { 1.0 / ratio } else { ratio };
    let ci95 = |claim: &ClaimResult| {
        let (low, high) = claim.ci95?;
        Some(if claim.than_first { (1.0 / high, 1.0 / low) } else { (low, high) })
    };
    Table::of(&study.claims)
        .left("verdict", |claim| Cell::text(claim.verdict.label()).tone(tone(claim.verdict)))
        .left("what the original says", |claim| {
            Cell::text(&claim.text).note(study.measure_title(&claim.measure))
        })
        .left_if(study.claims.iter().any(|claim| !claim.source.is_empty()), "where", |claim| {
            Cell::text(&claim.source)
        })
        .right("here", |claim| sides(claim)[0].clone())
        .right("against", |claim| sides(claim)[1].clone())
        .right("ratio", |claim| {
            Cell::num(claim.ratio.map(|r| inverse(claim, r)), Unit::Ratio)
                .note(format::ratio_interval(ci95(claim)))
        })
        .right_if(study.claims.iter().any(|claim| claim.original.is_some()), "original", |claim| {
            claim.original.map(|figures| original(claim, figures))
        })
        .table()
}

/// Formats the other side of a claim: a case or a bound.
fn than(claim: &ClaimResult) -> String {
    match (claim.least, claim.times, claim.lower) {
        (None, ..) => format::levels(&claim.than),
        (Some(_), Some(_), _) => "about".to_owned(),
        (Some(_), None, false) => "at least".to_owned(),
        (Some(_), None, true) => "at most".to_owned(),
    }
}

fn original(claim: &ClaimResult, figures: [f64; 2]) -> Cell {
    if claim.least.is_some() {
        return number(&claim.measure, &claim.unit, figures[0]);
    }
    let [better, than] = claims::ordered(claim.than_first, figures);
    let show = |v| measures::format(&claim.measure, &claim.unit, v);
    Cell::num(better / than, Unit::Ratio).note(format!("{} against {}", show(better), show(than)))
}

/// Returns the tone of a verdict.
pub fn tone(verdict: ClaimVerdict) -> Tone {
    match verdict {
        ClaimVerdict::Agrees => Tone::Good,
        ClaimVerdict::DoesNotAgree => Tone::Bad,
        ClaimVerdict::Equal | ClaimVerdict::NoDifference | ClaimVerdict::Unclear => Tone::Strong,
        ClaimVerdict::TooFew | ClaimVerdict::NotMeasured => Tone::Muted,
    }
}

/// The table of effects: each level relative to the first one, for every column.
pub fn effects(study: &StudyReport) -> Table {
    let effect = |e: &Effect| match (e.beyond_noise, e.better) {
        (false, _) if e.ci95.is_none() => Cell::text("too few trials").tone(Tone::Muted),
        (false, _) => Cell::text("no difference").tone(Tone::Muted),
        (true, Some(true)) => Cell::text("better").tone(Tone::Good),
        (true, Some(false)) => Cell::text("worse").tone(Tone::Bad),
        (true, None) => Cell::text(if e.ratio > 1.0 { "more" } else { "less" }),
    };
    Table::of(&study.effects)
        .left("measure", |e| study.measure_title(&e.measure))
        .left("factor", |e| e.factor.as_str())
        .left("from", |e| e.from.as_str())
        .left("to", |e| e.to.as_str())
        .right("median before", |e| number(&e.measure, &e.unit, e.medians.0))
        .right("after", |e| number(&e.measure, &e.unit, e.medians.1))
        .right("ratio", |e| Cell::num(e.ratio, Unit::Ratio).note(format::ratio_interval(e.ci95)))
        .right("pairs", |e| Cell::count(e.pairs as u64))
        .left("effect", effect)
        .table()
}

/// The table of failed trials.
pub fn failed(report: &Report) -> Table {
    Table::of(&report.failed)
        .left("study", |f| f.study.as_str())
        .left("case", |f| f.label.as_str())
        .left("block", |f| Cell::count((f.block + 1).into()))
        .left("why", |f| Cell::text(&f.why).tone(Tone::Bad))
        .table()
}

/// The table of cells in which two runs differ.
pub fn apart(comparison: &Comparison) -> Table {
    let (a, b) = comparison.runs;
    Table::of(&comparison.apart)
        .left("study", |cell| cell.study.as_str())
        .left("case", |cell| cell.label.as_str())
        .left("measure", |cell| cell.title.as_str())
        .right(format!("run {a}"), |cell| cell.first.as_str())
        .right(format!("run {b}"), |cell| cell.second.as_str())
        .right("ratio", |cell| Cell::num(cell.ratio, Unit::Ratio))
        .table()
}
