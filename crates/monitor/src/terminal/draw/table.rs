//! Draws the visible rows of a table, with as many columns as fit.

use poolwright_report::Tone;
use poolwright_report::table::shorten;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::Line;

use super::Palette;
use crate::terminal::rows::{RowColumn, Rows};
use crate::terminal::state::Scroll;

/// Least width of the first column of text, and of the others.
const MIN_FIRST: u16 = 20;
const MIN_OTHER: u16 = 12;
/// Width from which columns are two spaces apart.
const WIDE: u16 = 100;

/// A column on the screen: its index, its first terminal column and its width.
type Position = (usize, u16, u16);

/// Draws the titles and the rows from `scroll.top`.
pub fn draw(frame: &mut Frame, area: Rect, rows: &Rows, scroll: Scroll, palette: Palette) {
    if area.height == 0 {
        return;
    }
    if rows.count == 0 {
        frame.render_widget(Line::from(rows.nothing), area);
        return;
    }
    let columns = positions(rows.columns, area.width);
    let at = |x: u16, y: u16, width: u16| Rect { x: area.x + x, y: area.y + y, width, height: 1 };
    let strong = palette.style(Tone::Strong);
    for (index, x, width) in &columns {
        let column = &rows.columns[*index];
        frame
            .render_widget(aligned(column, column.title.to_owned(), *width).style(strong), at(*x, 0, *width));
    }
    let visible = scroll.top..rows.count.min(scroll.top + usize::from(area.height - 1));
    for (y, row) in (1..).zip(visible) {
        let mut fields = (rows.row)(row);
        for (index, x, width) in &columns {
            let field = std::mem::replace(&mut fields[*index], crate::terminal::rows::RowField::text(""));
            let text = aligned(&rows.columns[*index], field.text, *width);
            frame.render_widget(text.style(palette.style(field.tone)), at(*x, y, *width));
        }
        if row == scroll.selected {
            frame.buffer_mut().set_style(at(0, y, area.width), Modifier::REVERSED);
        }
    }
}

fn aligned(column: &RowColumn, text: String, width: u16) -> Line<'static> {
    let line = Line::from(shorten(&text, usize::from(width)));
    if column.is_figure { line.right_aligned() } else { line }
}

/// The columns that fit into `width`. Columns are left out by their rank, the highest first, and columns of one rank
/// together.
fn positions(columns: &[RowColumn], width: u16) -> Vec<Position> {
    let gap = if width < WIDE { 1 } else { 2 };
    let least = |index: usize| match columns[index].width {
        0 if index == 0 => MIN_FIRST,
        0 => MIN_OTHER,
        width => width,
    };
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let needed =
        |shown: &[usize]| shown.iter().map(|index| least(*index) + gap).sum::<u16>().saturating_sub(gap);
    while needed(&shown) > width {
        let highest = shown.iter().map(|index| columns[*index].rank).max().unwrap_or(0);
        if highest == 0 {
            break;
        }
        shown.retain(|index| columns[*index].rank != highest);
    }
    let flexible = shown.iter().filter(|index| columns[**index].width == 0).count().max(1);
    let spare = usize::from(width.saturating_sub(needed(&shown)));
    let mut x = 0;
    let mut place = |index: usize, nth: usize| {
        let extra = if columns[index].width == 0 { (spare + nth) / flexible } else { 0 };
        let column =
            (index, x, (least(index) + u16::try_from(extra).unwrap_or(0)).min(width.saturating_sub(x)));
        x = (x + column.2 + gap).min(width);
        column
    };
    let mut nth = 0;
    let mut all = Vec::new();
    for index in shown {
        all.push(place(index, nth));
        nth += usize::from(columns[index].width == 0);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    static COLUMNS: [RowColumn; 4] = [
        RowColumn::text("name", 0),
        RowColumn::figure("a", 6, 0),
        RowColumn::figure("b", 6, 2),
        RowColumn::text("remark", 1),
    ];

    #[test]
    fn columns_are_left_out_by_rank_and_text_takes_the_rest() {
        let widths = |width| positions(&COLUMNS, width).iter().map(|at| (at.0, at.2)).collect::<Vec<_>>();
        assert_eq!(widths(60), [(0, 26), (1, 6), (2, 6), (3, 19)]);
        assert_eq!(widths(40), [(0, 20), (1, 6), (3, 12)]);
        assert_eq!(widths(30), [(0, 23), (1, 6)]);
        assert_eq!(widths(10), [(0, 10), (1, 0)], "what cannot be left out is cut");
        for width in 0..200 {
            let all = positions(&COLUMNS, width);
            assert!(all.iter().all(|(_, x, column)| x + column <= width), "{width}: {all:?}");
        }
    }
}
