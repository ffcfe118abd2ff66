//! A grid of figures, such as recordsize × compression, with the figure in each cell.

use super::draw::{Anchor, Drawing, fit, widest};
use super::frame;
use super::{Mark, Plot, WIDTH};
use poolwright_base::units::{MISSING, Unit};

/// Figures by row and column.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatMap {
    title: String,
    unit: Unit,
    rows: (String, Vec<String>),
    columns: (String, Vec<String>),
    values: Vec<Vec<Option<f64>>>,
    marks: Vec<(usize, usize, Mark)>,
    width: f64,
}

impl HeatMap {
    /// Creates a grid of empty cells. `rows` and `columns` contain the title and the names of the rows and columns.
    pub fn new(title: &str, unit: Unit, rows: (&str, &[&str]), columns: (&str, &[&str])) -> Self {
        let own = |(what, names): (&str, &[&str])| {
            (what.to_owned(), names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
        };
        let values = vec![vec![None; columns.1.len()]; rows.1.len()];
        let (rows, columns) = (own(rows), own(columns));
        HeatMap { title: title.to_owned(), unit, rows, columns, values, marks: Vec::new(), width: WIDTH }
    }

    /// Sets a cell. A value that is not finite leaves it empty.
    ///
    /// # Panics
    ///
    /// Panics if the row or column does not exist.
    pub fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[row][column] = Some(value).filter(|v| v.is_finite());
    }

    /// Marks a cell as the current or the recommended one.
    pub fn mark(&mut self, row: usize, column: usize, mark: Mark) {
        self.marks.push((row, column, mark));
    }

    /// Sets the width (default [`WIDTH`]). The height depends on the number of rows.
    pub fn width(mut self, width: f64) -> Self {
        self.width = width;
        self
    }

    fn range(&self) -> Option<(f64, f64)> {
        let all = || self.values.iter().flatten().flatten().copied();
        Some((all().reduce(f64::min)?, all().reduce(f64::max)?))
    }
}

/// Returns the shade, one of nine steps from minimum to maximum; a single value gets the middle one. Values are halved
/// first, so that the range cannot overflow.
fn shade(v: f64, (lo, hi): (f64, f64)) -> usize {
    let range = hi / 2.0 - lo / 2.0;
    if range > 0.0 { (((v / 2.0 - lo / 2.0) / range * 8.0).round() as usize).min(8) } else { 4 }
}

impl Plot for HeatMap {
    fn draw(&self) -> Drawing {
        const ROW: f64 = 34.0;
        let mut d = Drawing::new(self.width, 0.0, &self.title);
        let legend = frame::legend_of_marks(self.marks.iter().map(|(.., mark)| *mark));
        let top = frame::head(&mut d, &self.title, "", &legend, self.width) + 34.0;
        d.set_height(top + ROW * self.rows.1.len().max(1) as f64 + 6.0);
        let Some(range) = self.range() else {
            frame::nothing(&mut d, self.width / 2.0, top);
            return d;
        };
        let names = widest(self.rows.1.iter().chain([&self.rows.0]).map(String::as_str), 0.0);
        let left = (names + 14.0).min(self.width * 0.35);
        let cell = ((self.width - left) / self.columns.1.len() as f64).min(128.0);
        d.text(0.0, top - 9.0, "axis", Anchor::Start, &self.rows.0);
        d.text(left, top - 28.0, "axis", Anchor::Start, &self.columns.0);
        for (c, name) in self.columns.1.iter().enumerate() {
            let x = left + (c as f64 + 0.5) * cell;
            d.text(x, top - 9.0, "", Anchor::Middle, &fit(name, 12.0, cell - 4.0));
        }
        for (r, name) in self.rows.1.iter().enumerate() {
            let y = top + r as f64 * ROW;
            d.text(0.0, y + 21.0, "", Anchor::Start, &fit(name, 12.0, left - 12.0));
            for c in 0..self.columns.1.len() {
                self.cell(&mut d, (r, c), (left + c as f64 * cell, y, cell, ROW), range);
            }
        }
        d
    }
}

impl HeatMap {
    fn cell(
        &self,
        d: &mut Drawing,
        (r, c): (usize, usize),
        (x, y, w, h): (f64, f64, f64, f64),
        range: (f64, f64),
    ) {
        let value = self.values[r][c];
        let shown = value.map_or(MISSING.to_owned(), |v| self.unit.format(v));
        let mark = self.marks.iter().find(|m| (m.0, m.1) == (r, c)).map_or(Mark::None, |m| m.2);
        let (fill, ink) = match value.map(|v| shade(v, range)) {
            None => ("hx".to_owned(), "tx"),
            Some(s) => (format!("h{s}"), if s >= 6 { "thi" } else { "tlo" }),
        };
        let text = if value.is_some() { shown.as_str() } else { "not measured" };
        let tip = format!("{} × {}: {text}{}", self.rows.1[r], self.columns.1[c], mark.remark());
        d.tip(&tip, |d| {
            d.rect(x + 1.0, y + 1.0, w - 2.0, h - 2.0, &fill);
            let class = format!("{ink}{}", if mark == Mark::Chosen { " bold" } else { "" });
            d.text(x + w / 2.0, y + h / 2.0 + 4.0, &class, Anchor::Middle, &fit(&shown, 12.0, w));
            match mark {
                Mark::None => {}
                Mark::Today => d.rect(x + 2.5, y + 2.5, w - 5.0, h - 5.0, &format!("today {ink}")),
                Mark::Chosen => d.rect(x + 2.0, y + 2.0, w - 4.0, h - 4.0, &format!("ring {ink}")),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_cover_any_range() {
        assert_eq!((shade(1.0, (1.0, 3.0)), shade(3.0, (1.0, 3.0)), shade(5.0, (5.0, 5.0))), (0, 8, 4));
        assert_eq!(shade(f64::MAX, (f64::MIN, f64::MAX)), 8);
    }
}
