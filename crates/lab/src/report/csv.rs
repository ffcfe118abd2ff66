//! Formats every figure of every trial as a row of CSV, for R, pandas or a spreadsheet.

use poolwright_report::{Cell, Table, Unit};

use crate::campaign::Campaign;
use crate::store::Trial;

/// The columns are `study`, one for each factor of any study, `block`, `node`, `phase`, `measure`, `value`, `unit`. A
/// factor with one of these names gets the prefix `factor_`. Failed trials have no rows.
pub fn csv(campaign: &Campaign, trials: &[Trial]) -> String {
    let mut factors: Vec<&str> = Vec::new();
    for factor in campaign.studies.iter().flat_map(|s| &s.factors) {
        if !factors.contains(&factor.name.as_str()) {
            factors.push(&factor.name);
        }
    }
    let done = trials.iter().filter_map(|trial| Some((trial, trial.outcome.as_ref().ok()?)));
    let phases = done.flat_map(|(trial, outcome)| outcome.phases.iter().map(move |phase| (trial, phase)));
    let figures = phases.flat_map(|(trial, phase)| phase.measures.iter().map(move |of| (trial, phase, of)));
    Table::of(figures)
        .left("study", |(trial, ..)| trial.key.study.as_str())
        .each(factors, |table, factor| {
            table.left(heading(factor), |(trial, ..)| trial.key.case.get(factor).map_or("", String::as_str))
        })
        .left("block", |(trial, ..)| trial.key.block.to_string())
        .left("node", |(trial, ..)| trial.node.as_str())
        .left("phase", |(_, phase, _)| phase.name.as_str())
        .left("measure", |(.., (name, _))| name.as_str())
        .right("value", |(.., (_, measure))| Cell::num(measure.value, Unit::None))
        .left("unit", |(.., (_, measure))| measure.unit.as_str())
        .table()
        .csv()
}

fn heading(factor: &str) -> String {
    let ours = ["study", "block", "node", "phase", "measure", "value", "unit"];
    if ours.contains(&factor) { format!("factor_{factor}") } else { factor.to_owned() }
}
