//! A column of figures with one unit, which its heading names.

use poolwright_report::{Cell, ColumnUnit, Unit};

use super::super::figure::Figure;
use super::super::{format, measures};
use crate::campaign::MeasureInfo;

/// How the figures of one measure are shown.
pub struct ShownColumn {
    title: String,
    /// The unit of the figures, and the factor to its base unit.
    base: (Unit, f64),
    column: Option<ColumnUnit>,
}

impl ShownColumn {
    /// Chooses the unit by the medians. The trials' own unit counts, not the declared one.
    pub fn new<'a>(info: &MeasureInfo, figures: impl Iterator<Item = &'a Figure> + Clone) -> ShownColumn {
        let unit = figures.clone().next().map_or(info.unit.as_str(), |figure| figure.unit.as_str());
        let medians = || figures.clone().map(|figure| figure.median);
        let base = measures::shown(&info.name, unit, medians());
        let column = base.0.for_column(medians().map(|median| median * base.1));
        ShownColumn { title: info.title.clone(), base, column }
    }

    /// Returns the title with the unit: `Table 1: time until durable, ms`.
    pub fn title(&self) -> String {
        match self.column.filter(|column| !column.label.is_empty()) {
            Some(column) => format!("{}, {}", self.title, column.label),
            None => self.title.clone(),
        }
    }

    /// Formats a median with its interval below it; `None` if there is no figure.
    pub fn cell(&self, figure: Option<&Figure>) -> Option<Cell> {
        let figure = figure?;
        let (unit, factor) = match self.column {
            Some(column) => (None, self.base.1 * column.factor),
            None => (Some(self.base.0), self.base.1),
        };
        // Four digits and more are grouped.
        let plain = |v: f64| if v.abs() >= 999.5 { Unit::Count } else { Unit::None };
        let unit = |v: f64| unit.unwrap_or_else(|| plain(v));
        let note = format::note_as(figure, |v| unit(v * factor).format(v * factor));
        let median = figure.median * factor;
        Some(Cell::num(median, unit(median)).note(note))
    }
}
