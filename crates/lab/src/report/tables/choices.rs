//! The tables of the recommendations: the settings of each dataset, and the alternatives of each question.

use poolwright_report::{Cell, Column, Table, Tone, Unit};

use super::super::advice::{Advice, Alternative, Choice};
use super::super::format;
use super::shown::ShownColumn;

/// The closing table: a row for each dataset, a column for each property.
pub fn settings(advice: &[Advice]) -> Table {
    let (mut datasets, mut properties): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for a in advice.iter().filter(|a| !a.set.is_empty()) {
        let Some(dataset) = a.dataset.as_deref() else { continue };
        if !datasets.contains(&dataset) {
            datasets.push(dataset);
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
        let of_dataset: Vec<&Advice> =
            advice.iter().filter(|a| a.dataset.as_deref() == Some(dataset)).collect();
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
        let all = by.iter().map(|a| format!("{}: {}", a.question, certainty(a.verdict)));
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
fn certainty(choice: Choice) -> &'static str {
    match choice {
        Choice::Best => "best",
        Choice::AmongBest => "among the best",
        Choice::NoDifference => "no difference beyond noise",
        Choice::TooFew => "too few trials to be certain",
        Choice::NotMeasured => "not measured",
    }
}

/// The Pareto front of a question, and the original's choice even if another setting beats it.
pub fn front(advice: &Advice) -> Table {
    alternatives(advice, advice.settings.iter().filter(|setting| is_in_front(advice, setting)))
}

/// Whether the table of the Pareto front has the setting.
pub fn is_in_front(advice: &Advice, setting: &Alternative) -> bool {
    setting.front || advice.original.as_ref() == Some(&setting.case)
}

/// Everything that was tried for a question.
pub fn all(advice: &Advice) -> Table {
    alternatives(advice, advice.settings.iter())
}

fn alternatives<'a>(advice: &'a Advice, settings: impl Iterator<Item = &'a Alternative>) -> Table {
    let figures = |i: usize| advice.settings.iter().filter_map(move |setting| setting.figures[i].as_ref());
    let shown: Vec<ShownColumn> =
        advice.criteria.iter().enumerate().map(|(i, c)| ShownColumn::new(&c.info, figures(i))).collect();
    let names: Vec<&str> = match advice.settings.first() {
        Some(setting) => setting.set.iter().map(|(name, _)| name.as_str()).collect(),
        None => Vec::new(),
    };
    let mut columns: Vec<Column> = names.iter().map(|name| Column::left(name)).collect();
    columns.extend(shown.iter().map(ShownColumn::heading));
    columns.push(Column::right("cost by the goal").key("ratio"));
    columns.push(Column::left("standing"));
    let mut table = Table::new(columns);
    for setting in settings {
        let mut cells: Vec<Cell> = setting.set.iter().map(|(_, value)| Cell::text(value)).collect();
        cells.extend(shown.iter().zip(&setting.figures).map(|(column, f)| column.cell(f.as_ref())));
        let chosen = advice.case.as_ref() == Some(&setting.case);
        cells.push(match (chosen, setting.ratio) {
            (true, _) => Cell::num(1.0, Unit::Ratio),
            (_, Some(ratio)) => Cell::num(ratio, Unit::Ratio)
                .note(format::interval(setting.ci95, |v| Unit::Ratio.format(v)).unwrap_or_default()),
            (_, None) => Cell::missing(),
        });
        let (word, tone) = standing(advice, setting, chosen);
        let original = advice.original.as_ref() == Some(&setting.case);
        let note = if original { "the original's choice" } else { "" };
        cells.push(Cell::text(word).tone(tone).note(note));
        table.row(cells);
    }
    table
}

fn standing(advice: &Advice, setting: &Alternative, chosen: bool) -> (&'static str, Tone) {
    match (chosen, setting.worse, advice.verdict) {
        (true, _, Choice::Best | Choice::AmongBest) => ("recommended", Tone::Good),
        (true, ..) => ("best median", Tone::Strong),
        (_, true, _) if setting.front => ("worse by the goal", Tone::Plain),
        (_, true, _) => ("worse", Tone::Muted),
        (_, _, Choice::TooFew) => ("too few trials", Tone::Muted),
        (_, false, _) => ("not told apart", Tone::Strong),
    }
}
