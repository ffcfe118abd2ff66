//! The tables, identical in every output.

mod choices;
mod shown;

use poolwright_report::{Cell, Column, Table, Tone, Unit};

use super::claims::{self, ClaimResult, ClaimVerdict};
use super::compare::Comparison;
use super::{Report, StudyReport, TablePart, format, measures};

pub use choices::{all, front, is_in_front, settings};
pub use shown::ShownColumn;

/// The tables of a study, each with its question: a row for each case, a column for each measure, with median, interval and
/// a mark for large variation.
pub fn study(study: &StudyReport) -> Vec<(&str, Table)> {
    study.tables.iter().map(|part| (part.question.as_str(), part_table(study, part))).collect()
}

/// The table that answers one question.
pub fn part_table(study: &StudyReport, part: &TablePart) -> Table {
    let at = |measure: &String| study.measures.iter().position(|m| m == measure);
    let indices: Vec<usize> = part.measures.iter().filter_map(at).collect();
    let shown: Vec<ShownColumn> = indices
        .iter()
        .map(|&i| {
            ShownColumn::new(&study.columns[i], study.rows.iter().filter_map(|r| r.figures[i].as_ref()))
        })
        .collect();
    let mut columns: Vec<Column> = study.factors.iter().map(|f| Column::left(f)).collect();
    columns.extend(shown.iter().map(ShownColumn::heading));
    let missing = study.rows.iter().any(|r| r.failed > 0 || r.trials == 0);
    columns.extend(missing.then(|| Column::right("trials")));
    let mut table = Table::new(columns);
    for row in &study.rows {
        let levels = study.factors.iter().map(|f| row.case.get(f).map_or("", String::as_str));
        let mut cells: Vec<Cell> = levels.map(Cell::text).collect();
        cells.extend(indices.iter().zip(&shown).map(|(&i, column)| column.cell(row.figures[i].as_ref())));
        if missing {
            let failed = if row.failed > 0 { format!("{} failed", row.failed) } else { String::new() };
            cells.push(Cell::num(row.trials as f64, Unit::Count).note(failed));
        }
        table.row(cells);
    }
    table
}

fn number(measure: &str, unit: &str, value: f64) -> Cell {
    let (shown, factor) = measures::shown(measure, unit, [value]);
    Cell::num(value * factor, shown)
}

/// The table of a study's claims: the original's figures beside the measured ones.
pub fn claims(study: &StudyReport) -> Table {
    let claims = &study.claims;
    let published = claims.iter().any(|c| c.original.is_some());
    let mut columns = vec![
        Column::left("verdict"),
        Column::left("what the original says"),
        Column::right("here"),
        Column::right("against"),
        Column::right("ratio"),
    ];
    columns.extend(published.then(|| Column::right("original")));
    let mut table = Table::new(columns);
    for claim in claims {
        let show = |v: Option<f64>| v.map_or_else(Cell::missing, |v| number(&claim.measure, &claim.unit, v));
        let sides = [
            show(claim.ours.map(|o| o[0])).note(format::levels(&claim.better)),
            show(claim.ours.map(|o| o[1])).note(than(claim)),
        ];
        let [first, second] = claims::ordered(claim.than_first, sides);
        let inverse = |r: f64| if claim.than_first { 1.0 / r } else { r };
        let ci95 = claim.ci95.map(|(low, high)| match claim.than_first {
            true => (1.0 / high, 1.0 / low),
            false => (low, high),
        });
        let mut row = vec![
            Cell::text(claim.verdict.label()).tone(tone(claim.verdict)),
            Cell::text(&claim.text).note(study.measure_title(&claim.measure)),
            first,
            second,
            claim
                .ratio
                .map_or_else(Cell::missing, |r| Cell::num(inverse(r), Unit::Ratio))
                .note(interval(ci95)),
        ];
        row.extend(claim.original.map(|figures| original(claim, figures)));
        table.row(row);
    }
    table
}

/// Formats the other side of a claim: a case or a bound.
fn than(claim: &ClaimResult) -> String {
    match (claim.least, claim.lower) {
        (None, _) => format::levels(&claim.than),
        (Some(_), false) => "at least".to_owned(),
        (Some(_), true) => "at most".to_owned(),
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

fn interval(ci95: Option<(f64, f64)>) -> String {
    format::interval(ci95, |v| Unit::Ratio.format(v)).unwrap_or_default()
}

/// Returns the tone of a verdict.
pub fn tone(verdict: ClaimVerdict) -> Tone {
    match verdict {
        ClaimVerdict::Agrees => Tone::Good,
        ClaimVerdict::DoesNotAgree => Tone::Bad,
        ClaimVerdict::NoDifference | ClaimVerdict::Unclear => Tone::Strong,
        ClaimVerdict::TooFew | ClaimVerdict::NotMeasured => Tone::Muted,
    }
}

/// The table of effects: each level relative to the first one, for every column.
pub fn effects(study: &StudyReport) -> Table {
    let mut table = Table::new([
        Column::left("measure"),
        Column::left("factor"),
        Column::left("from"),
        Column::left("to"),
        Column::right("median before"),
        Column::right("after"),
        Column::right("ratio"),
        Column::right("pairs"),
        Column::left("effect"),
    ]);
    for e in &study.effects {
        let (word, tone) = match (e.beyond_noise, e.better) {
            (false, _) if e.ci95.is_none() => ("too few trials", Tone::Muted),
            (false, _) => ("no difference", Tone::Muted),
            (true, Some(true)) => ("better", Tone::Good),
            (true, Some(false)) => ("worse", Tone::Bad),
            (true, None) if e.ratio > 1.0 => ("more", Tone::Plain),
            (true, None) => ("less", Tone::Plain),
        };
        table.row([
            Cell::text(study.measure_title(&e.measure)),
            Cell::text(&e.factor),
            Cell::text(&e.from),
            Cell::text(&e.to),
            number(&e.measure, &e.unit, e.medians.0),
            number(&e.measure, &e.unit, e.medians.1),
            Cell::num(e.ratio, Unit::Ratio).note(interval(e.ci95)),
            Cell::num(e.pairs as f64, Unit::Count),
            Cell::text(word).tone(tone),
        ]);
    }
    table
}

/// The table of failed trials.
pub fn failed(report: &Report) -> Table {
    let mut table = Table::new(["study", "case", "block", "why"].map(Column::left));
    for f in &report.failed {
        let block = Cell::num(f64::from(f.block + 1), Unit::Count);
        table.row([Cell::text(&f.study), Cell::text(&f.label), block, Cell::text(&f.why).tone(Tone::Bad)]);
    }
    table
}

/// The table of cells in which two runs differ.
pub fn apart(comparison: &Comparison) -> Table {
    let (a, b) = comparison.runs;
    let mut table = Table::new([
        Column::left("study"),
        Column::left("case"),
        Column::left("measure"),
        Column::right(&format!("run {a}")),
        Column::right(&format!("run {b}")),
        Column::right("ratio"),
    ]);
    for cell in &comparison.apart {
        table.row([
            Cell::text(&cell.study),
            Cell::text(&cell.label),
            Cell::text(&cell.title),
            Cell::text(&cell.first),
            Cell::text(&cell.second),
            Cell::num(cell.ratio, Unit::Ratio),
        ]);
    }
    table
}
