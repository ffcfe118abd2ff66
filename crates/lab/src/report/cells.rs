//! The rows of a study's table: every case with the figures of its trials.

use schemars::JsonSchema;
use serde::Serialize;

use super::figure::Figure;
use super::format;
use crate::campaign::{Case, Study};
use crate::order::cases;
use crate::statistics;
use crate::store::Trial;

/// A case and the figures of its trials.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The case.
    pub case: Case,
    /// The case's name in plots and sentences.
    pub label: String,
    /// Number of trials with an outcome.
    pub trials: usize,
    /// Number of failed trials.
    pub failed: usize,
    /// A figure for each of the study's measures, in order; `null` if the measure was not measured.
    pub figures: Vec<Option<Figure>>,
}

/// Returns the rows in the order of the campaign's file, including cases without trials.
pub fn rows(study: &Study, trials: &[Trial]) -> Vec<Row> {
    let columns: Vec<Vec<(Case, Figure)>> =
        study.measures.iter().map(|m| figures(study, trials, m)).collect();
    let row = |case: Case| {
        let of_case = || trials.iter().filter(|t| t.key.study == study.name && t.key.case == case);
        let failed = of_case().filter(|t| t.outcome.is_err()).count();
        let figures = columns.iter().map(|c| c.iter().find(|(of, _)| *of == case).map(|(_, f)| f.clone()));
        Row {
            label: format::case(study, &case),
            trials: of_case().count() - failed,
            failed,
            figures: figures.collect(),
            case,
        }
    };
    cases(study).into_iter().map(row).collect()
}

/// Returns a measure for every case that has it.
pub fn figures(study: &Study, trials: &[Trial], measure: &str) -> Vec<(Case, Figure)> {
    let cells = statistics::cells(study, trials, measure).into_iter();
    let figure = |cell: statistics::Cell| {
        let figure = Figure {
            measure: measure.to_owned(),
            unit: cell.unit,
            median: cell.median,
            ci95: cell.interval,
            variation: cell.variation,
            noisy: cell.noisy,
            values: cell.values,
        };
        (cell.case, figure)
    };
    cells.filter(|c| !c.values.is_empty()).map(figure).collect()
}
