//! Formats every figure of every trial as a row of CSV, for R, pandas or a spreadsheet.

use poolwright_report::{Column, Table, Unit};

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
    let mut columns = vec![Column::left("study")];
    columns.extend(factors.iter().map(|f| Column::left(&heading(f))));
    columns.extend(["block", "node", "phase", "measure"].map(Column::left));
    columns.extend([Column::right("value"), Column::left("unit")]);
    let mut table = Table::new(columns);
    for trial in trials {
        let Ok(outcome) = &trial.outcome else { continue };
        for phase in &outcome.phases {
            for (name, measure) in &phase.measures {
                let mut row = vec![cell(&trial.key.study)];
                row.extend(factors.iter().map(|f| cell(trial.key.case.get(*f).map_or("", String::as_str))));
                row.extend([cell(&trial.key.block.to_string()), cell(&trial.node)]);
                row.extend([cell(&phase.name), cell(name)]);
                row.extend([poolwright_report::Cell::num(measure.value, Unit::None), cell(&measure.unit)]);
                table.row(row);
            }
        }
    }
    table.csv()
}

fn heading(factor: &str) -> String {
    let ours = ["study", "block", "node", "phase", "measure", "value", "unit"];
    if ours.contains(&factor) { format!("factor_{factor}") } else { factor.to_owned() }
}

fn cell(text: &str) -> poolwright_report::Cell {
    poolwright_report::Cell::text(text)
}
