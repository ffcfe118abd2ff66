//! The tables of the recommendations: the settings of each dataset, and the alternatives of each question.

use poolwright_report::{Cell, Table, Tone, Unit};

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
    Table::of(datasets)
        .left("dataset", |dataset| Cell::text(dataset).tone(Tone::Strong))
        .each(properties, |table, property| {
            table.left(property, |dataset| {
                setting(advice.iter().filter(|a| a.dataset.as_deref() == Some(dataset)), property)
            })
        })
        .table()
}

/// Formats a property of a dataset; lists all studies if they recommend different values.
fn setting<'a>(advice: impl Iterator<Item = &'a Advice>, property: &str) -> Cell {
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
    let is_chosen = |setting: &Alternative| advice.case.as_ref() == Some(&setting.case);
    let names = advice.settings.first().map_or(&[][..], |setting| &setting.set);
    let cost = |setting: &Alternative| match is_chosen(setting) {
        true => Cell::num(1.0, Unit::Ratio),
        false => Cell::num(setting.ratio, Unit::Ratio).note(format::ratio_interval(setting.ci95)),
    };
    let standing = |setting: &Alternative| {
        let (word, tone) = standing(advice, setting, is_chosen(setting));
        let is_original = advice.original.as_ref() == Some(&setting.case);
        Cell::text(word).tone(tone).note(if is_original { "the original's choice" } else { "" })
    };
    Table::of(settings)
        .each(names.iter().enumerate(), |table, (i, (name, _))| {
            table.left(name, |setting| setting.set.get(i).map(|(_, value)| value.as_str()))
        })
        .each(advice.criteria.iter().enumerate(), |table, (i, criterion)| {
            let figures = advice.settings.iter().filter_map(|setting| setting.figures[i].as_ref());
            let shown = ShownColumn::new(&criterion.info, figures);
            table.right(shown.title(), |setting| shown.cell(setting.figures[i].as_ref()))
        })
        .right("cost by the goal", cost)
        .left("standing", standing)
        .table()
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
