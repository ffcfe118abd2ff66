//! The tables, identical in every output.

use poolwright_report::{Cell, Column, Table, Tone, Unit};

use super::advice::{Advice, Choice};
use super::claims::{self, ClaimResult, ClaimVerdict};
use super::compare::Comparison;
use super::figure::Figure;
use super::{Report, StudyReport, format, measures};

/// The table of a study: a row for each case, a column for each measure, with median, interval and a mark for large
/// variation.
pub fn study(study: &StudyReport) -> Table {
    let mut columns: Vec<Column> = study.factors.iter().map(|f| Column::left(f)).collect();
    columns.extend(study.measures.iter().map(|m| Column::right(m)));
    let missing = study.rows.iter().any(|r| r.failed > 0 || r.trials == 0);
    columns.extend(missing.then(|| Column::right("trials")));
    let mut table = Table::new(columns);
    for row in &study.rows {
        let levels = study.factors.iter().map(|f| row.case.get(f).map_or("", String::as_str));
        let mut cells: Vec<Cell> = levels.map(Cell::text).collect();
        cells.extend(row.figures.iter().map(|f| f.as_ref().map_or_else(Cell::missing, figure)));
        if missing {
            let failed = if row.failed > 0 { format!("{} failed", row.failed) } else { String::new() };
            cells.push(Cell::num(row.trials as f64, Unit::Count).note(failed));
        }
        table.row(cells);
    }
    table
}

/// Formats a median with its interval below it.
fn figure(figure: &Figure) -> Cell {
    number(&figure.measure, &figure.unit, figure.median).note(format::note(figure))
}

fn number(measure: &str, unit: &str, value: f64) -> Cell {
    let (shown, factor) = measures::shown(measure, unit, [value]);
    Cell::num(value * factor, shown)
}

/// The table of a study's claims: the original's figures beside the measured ones.
pub fn claims(claims: &[ClaimResult]) -> Table {
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
            Cell::text(&claim.text).note(&claim.measure),
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
            Cell::text(&e.measure),
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

/// The closing table: a row for each dataset, a column for each property.
pub fn settings(advice: &[Advice]) -> Table {
    let (mut datasets, mut properties): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for a in advice.iter().filter(|a| !a.set.is_empty()) {
        if !datasets.contains(&a.dataset.as_str()) {
            datasets.push(&a.dataset);
        }
        for (property, _) in &a.set {
            if !properties.contains(&property.as_str()) {
                properties.push(property);
            }
        }
    }
    let columns = [Column::left("dataset")].into_iter().chain(properties.iter().map(|p| Column::left(p)));
    let mut table = Table::new(columns);
    for dataset in datasets {
        let of_dataset: Vec<&Advice> = advice.iter().filter(|a| a.dataset == dataset).collect();
        let cells = properties.iter().map(|p| setting(&of_dataset, p));
        table.row([Cell::text(dataset).tone(Tone::Strong)].into_iter().chain(cells).collect::<Vec<_>>());
    }
    table
}

/// Formats a property of a dataset; lists all studies if they recommend different values.
fn setting(advice: &[&Advice], property: &str) -> Cell {
    let mut values: Vec<(&str, Vec<&Advice>)> = Vec::new();
    for a in advice {
        let Some((_, value)) = a.set.iter().find(|(p, _)| p == property) else { continue };
        match values.iter_mut().find(|(v, _)| v == value) {
            Some((_, by)) => by.push(a),
            None => values.push((value, vec![a])),
        }
    }
    let reason = |by: &[&Advice]| {
        let all = by.iter().map(|a| format!("{} in {}: {}", a.by, a.study, certainty(a.verdict)));
        all.collect::<Vec<_>>().join("; ")
    };
    match values.as_slice() {
        [] => Cell::missing(),
        [(value, by)] => {
            let firm = by.iter().any(|a| matches!(a.verdict, Choice::Best | Choice::AmongBest));
            Cell::text(*value).tone(if firm { Tone::Good } else { Tone::Muted }).note(reason(by))
        }
        several => {
            let all = several.iter().map(|(value, by)| format!("{value} ({})", reason(by)));
            Cell::text(all.collect::<Vec<_>>().join(" or "))
        }
    }
}

/// Formats the certainty of a recommendation.
pub fn certainty(choice: Choice) -> &'static str {
    match choice {
        Choice::Best => "best",
        Choice::AmongBest => "among the best",
        Choice::NoDifference => "no difference beyond noise",
        Choice::TooFew => "too few trials to be certain",
        Choice::NotMeasured => "not measured",
    }
}

/// The table of the evidence behind the closing table.
pub fn evidence(advice: &[Advice]) -> Table {
    let columns = ["dataset", "study", "set", "how sure", "evidence"].map(Column::left);
    let mut table = Table::new(columns);
    for a in advice {
        let firm = matches!(a.verdict, Choice::Best | Choice::AmongBest);
        table.row([
            Cell::text(&a.dataset),
            Cell::text(&a.study),
            Cell::text(format::settings(&a.set)).tone(if firm { Tone::Strong } else { Tone::Muted }),
            Cell::text(certainty(a.verdict)),
            Cell::text(&a.line),
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
            Cell::text(&cell.measure),
            Cell::text(&cell.first),
            Cell::text(&cell.second),
            Cell::num(cell.ratio, Unit::Ratio),
        ]);
    }
    table
}
