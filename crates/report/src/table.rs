//! Tables that can be printed for the terminal and as Markdown, CSV or HTML.

mod cell;
mod columns;
mod terminal;

use std::fmt::Write as _;

pub(crate) use cell::tone_class;
pub use cell::{Cell, Column, Tone};
use cell::{Value, ansi};
pub use columns::TableColumns;
pub use terminal::Terminal;

use crate::escape;

/// The number of spaces between two columns.
const GAP: usize = 2;

/// A table: rows below named columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Creates an empty table.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Table { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Creates a table with a row for each item, to which columns can be added.
    pub fn of<T: Copy>(items: impl IntoIterator<Item = T>) -> TableColumns<T> {
        TableColumns::new(items)
    }

    /// Adds a row. Missing cells are added to a row that is too short.
    ///
    /// # Panics
    ///
    /// Panics if the row has more cells than the table has columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<Cell> = cells.into_iter().collect();
        assert!(row.len() <= self.columns.len(), "{} cells in {} columns", row.len(), self.columns.len());
        row.resize(self.columns.len(), Cell::missing());
        self.rows.push(row);
    }

    /// Whether the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Formats the table for a terminal: a heading, a rule, one line per row, two spaces between columns.
    pub fn terminal(&self, to: Terminal) -> String {
        let cells: Vec<Vec<String>> = self.shown(escape::line);
        let titles: Vec<String> = self.columns.iter().map(|c| escape::line(&c.title)).collect();
        let mut widths = self.widths(&titles, &cells);
        if let Some(limit) = to.width {
            self.narrow(&mut widths, limit);
        }
        let mut out = String::new();
        self.line(&mut out, &titles, &widths, |_| if to.ansi { "\x1b[1m" } else { "" });
        let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
        self.line(&mut out, &rule, &widths, |_| if to.ansi { "\x1b[2m" } else { "" });
        for (row, shown) in self.rows.iter().zip(&cells) {
            self.line(&mut out, shown, &widths, |i| if to.ansi { ansi(row[i].tone) } else { "" });
        }
        out
    }

    /// Formats the table like [`Table::terminal`], but splits it if it is wider than the terminal. Each part has the
    /// first `keep` columns and as many of the others as fit.
    pub fn terminal_in_parts(&self, to: Terminal, keep: usize) -> String {
        let Some(limit) = to.width.filter(|limit| self.width() > *limit) else { return self.terminal(to) };
        let widths = self.natural_widths();
        let keep = keep.min(widths.len());
        let kept: usize = widths[..keep].iter().map(|w| w + GAP).sum();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut used = 0;
        for (i, width) in widths.iter().enumerate().skip(keep) {
            if parts.is_empty() || used + GAP + width > limit {
                parts.push((0..keep).collect());
                used = kept + width;
            } else {
                used += GAP + width;
            }
            parts.last_mut().expect("just pushed").push(i);
        }
        let part = |at: &Vec<usize>| {
            let rows = self.rows.iter().map(|row| at.iter().map(|i| row[*i].clone()).collect()).collect();
            Table { columns: at.iter().map(|i| self.columns[*i].clone()).collect(), rows }.terminal(to)
        };
        parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// Returns the width of the whole table in terminal columns.
    pub fn width(&self) -> usize {
        let widths = self.natural_widths();
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    fn natural_widths(&self) -> Vec<usize> {
        let titles: Vec<String> = self.columns.iter().map(|c| escape::line(&c.title)).collect();
        self.widths(&titles, &self.shown(escape::line))
    }

    fn line<'a>(
        &self,
        out: &mut String,
        cells: &[String],
        widths: &[usize],
        style: impl Fn(usize) -> &'a str,
    ) {
        let mut line = String::new();
        for (i, (cell, &width)) in cells.iter().zip(widths).enumerate() {
            if i > 0 {
                line.push_str("  ");
            }
            let cell = shorten(cell, width);
            let pad = " ".repeat(width - columns(&cell));
            let on = style(i);
            let off = if on.is_empty() { "" } else { "\x1b[0m" };
            if self.columns[i].right {
                line.extend([&pad, on, &cell, off]);
            } else {
                line.extend([on, &cell, off, &pad]);
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }

    /// Shortens the widest text column repeatedly until the table fits.
    fn narrow(&self, widths: &mut [usize], limit: usize) {
        const LEAST: usize = 8; // fewer characters are not meaningful
        loop {
            let total: usize = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            let widest = (0..widths.len()).filter(|&i| !self.columns[i].right).max_by_key(|&i| widths[i]);
            match widest {
                Some(i) if total > limit && widths[i] > LEAST => widths[i] -= 1,
                _ => return,
            }
        }
    }

    fn widths(&self, titles: &[String], cells: &[Vec<String>]) -> Vec<usize> {
        let widest = |i: usize| cells.iter().map(|row| columns(&row[i])).max().unwrap_or(0);
        titles.iter().enumerate().map(|(i, title)| columns(title).max(widest(i))).collect()
    }

    fn shown(&self, escape: impl Fn(&str) -> String) -> Vec<Vec<String>> {
        self.rows.iter().map(|row| row.iter().map(|c| escape(&c.shown())).collect()).collect()
    }

    /// Formats a Markdown table that is also readable as plain text.
    pub fn markdown(&self) -> String {
        let titles: Vec<String> = self.columns.iter().map(|c| escape::markdown(&c.title)).collect();
        let cells = self.shown(escape::markdown);
        let widths: Vec<usize> = self.widths(&titles, &cells).into_iter().map(|w| w.max(3)).collect();
        let rule: Vec<String> = (self.columns.iter().zip(&widths))
            .map(|(c, w)| if c.right { format!("{}:", "-".repeat(w - 1)) } else { "-".repeat(*w) })
            .collect();
        let mut out = String::new();
        for row in [&titles, &rule].into_iter().chain(&cells) {
            for ((cell, &width), column) in row.iter().zip(&widths).zip(&self.columns) {
                let pad = " ".repeat(width - columns(cell));
                let (before, after) = if column.right { (pad.as_str(), "") } else { ("", pad.as_str()) };
                let _ = write!(out, "| {before}{cell}{after} ");
            }
            out.push_str("|\n");
        }
        out
    }

    /// Formats CSV (RFC 4180, with plain newlines): the columns' titles, then numbers with every digit in their base
    /// unit.
    pub fn csv(&self) -> String {
        let titles = self.columns.iter().map(|c| escape::csv(&c.title)).collect::<Vec<_>>().join(",");
        let mut out = titles + "\n";
        for row in &self.rows {
            let cells: Vec<String> = row.iter().map(|c| escape::csv(&c.raw())).collect();
            out.push_str(&cells.join(","));
            out.push('\n');
        }
        out
    }

    /// Formats the rows with tabs between their cells, for scripts.
    pub fn tabs(&self) -> String {
        let line = |row: &Vec<Cell>| row.iter().map(Cell::shown).collect::<Vec<_>>().join("\t") + "\n";
        self.rows.iter().map(line).collect()
    }

    /// Formats an HTML `<table>`, whose columns the page's script makes sortable.
    pub(crate) fn html(&self) -> String {
        let mut out = String::from("<div class=\"scroll\"><table class=\"sortable\">\n<thead><tr>");
        for column in &self.columns {
            let side = if column.right { " class=\"num\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{side}>{}</th>", escape::html(&column.title));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            out.push_str("<tr>");
            for (cell, column) in row.iter().zip(&self.columns) {
                let class = [if column.right { "num" } else { "" }, tone_class(cell.tone)];
                let class = class.into_iter().filter(|c| !c.is_empty()).collect::<Vec<_>>().join(" ");
                let class = if class.is_empty() { class } else { format!(" class=\"{class}\"") };
                let key = match cell.value {
                    Value::Number(v, _) => format!(" data-v=\"{v}\""),
                    _ => String::new(),
                };
                let _ = write!(out, "<td{class}{key}>{}", escape::html(&cell.figure()));
                if !cell.note.is_empty() {
                    let _ = write!(out, "<small>{}</small>", escape::html(&cell.note));
                }
                out.push_str("</td>");
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

/// Returns the number of terminal columns of a text: two for East Asian wide characters and emoji, none for combining
/// marks. The ranges are those of Unicode's EastAsianWidth that occur in file names.
fn columns(text: &str) -> usize {
    text.chars().map(char_columns).sum()
}

fn char_columns(c: char) -> usize {
    match c as u32 {
        0x0300..=0x036f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 => 2,
        0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f900..=0x1f9ff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Shortens a text by removing its middle, because the beginning of a path shows the tree and its end the file.
pub fn shorten(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let head = width.saturating_sub(1) / 2;
    let tail = width.saturating_sub(1) - head;
    let take = |limit: usize, from: &mut dyn Iterator<Item = char>| {
        let mut used = 0;
        from.take_while(|c| {
            used += char_columns(*c);
            used <= limit
        })
        .collect::<Vec<char>>()
    };
    let start = take(head, &mut text.chars());
    let end = take(tail, &mut text.chars().rev());
    start.into_iter().chain(['…']).chain(end.into_iter().rev()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_base::units::Unit;

    fn sample() -> Table {
        let path = "/srv/mariadb/data/orders/line_items#p#2024.ibd";
        let mut t = Table::new([Column::left("file"), Column::right("size"), Column::right("p99")]);
        t.row([path.into(), Cell::bytes(16384), Cell::num(118e3, Unit::Nanoseconds)]);
        t.row(["日本|\u{1b}[31m".into(), Cell::bytes(1_500_000_000).tone(Tone::Good)]);
        t
    }

    #[test]
    fn a_pipe_gets_every_letter_and_no_colour() {
        let out = sample().terminal(Terminal::PLAIN);
        assert!(!out.contains('\u{1b}'), "{out}");
        let widths: Vec<usize> = out.lines().map(columns).collect();
        assert!(widths.iter().all(|w| *w == widths[0]), "ragged right edge:\n{out}");
        assert!(out.contains("line_items#p#2024.ibd") && out.contains("日本|\\u{1b}[31m"), "{out}");
    }

    #[test]
    fn a_narrow_terminal_cuts_text_and_keeps_numbers() {
        let out = sample().terminal(Terminal { width: Some(40), ansi: false });
        assert!(out.lines().all(|l| columns(l) <= 40), "{out}");
        assert!(out.contains('…') && out.contains("118 µs") && out.contains("024.ibd"), "{out}");
        let tiny = sample().terminal(Terminal { width: Some(1), ansi: false });
        assert!(tiny.contains("118 µs") && tiny.contains("1.40G"), "{tiny}");
    }

    #[test]
    fn a_wide_table_comes_in_parts_that_fit() {
        let names: Vec<String> = (0..30).map(|i| format!("measure {i}")).collect();
        let cases = Table::of(["off", "on"]).left("case", |case| case);
        let t = cases.each(0..30u64, |t, i| t.right(&names[i as usize], |_| Cell::count(i))).table();
        let to = Terminal { width: Some(80), ansi: false };
        let out = t.terminal_in_parts(to, 1);
        assert!(out.lines().all(|l| columns(l) <= 80), "{out}");
        assert!(
            names.iter().all(|n| out.split_whitespace().collect::<Vec<_>>().join(" ").contains(n.as_str()))
        );
        let parts: Vec<&str> = out.split("\n\n").collect();
        assert!(parts.len() > 2 && parts.iter().all(|p| p.starts_with("case") && p.contains("off")), "{out}");
        assert_eq!(t.terminal_in_parts(Terminal::PLAIN, 1), t.terminal(Terminal::PLAIN));
        let wide = Terminal { width: Some(t.width()), ansi: false };
        assert_eq!(t.terminal_in_parts(wide, 1), t.terminal(wide));
        // A column that is wider than the terminal still gets a part.
        assert!(t.terminal_in_parts(Terminal { width: Some(5), ansi: false }, 1).contains("measure 29"));
    }

    #[test]
    fn colour_is_only_what_the_tone_asks_for() {
        let out = sample().terminal(Terminal { width: None, ansi: true });
        assert!(out.contains("\x1b[32m1.40G\x1b[0m"), "{out}");
        assert_eq!(out.matches('\u{1b}').count(), 2 * (3 + 3 + 1), "{out:?}");
    }

    #[test]
    fn csv_has_every_digit_and_markdown_stays_in_its_cells() {
        let csv = sample().csv();
        assert_eq!(csv.lines().next(), Some("file,size,p99"));
        assert!(csv.contains(",16384,118000\n") && csv.ends_with(",1500000000,\n"), "{csv}");
        let md = sample().markdown();
        assert!(md.contains("日本\\|"), "{md}");
        assert!(md.lines().all(|l| l.replace("\\|", "").matches('|').count() == 4), "{md}");
    }

    #[test]
    fn an_empty_table_is_its_heading() {
        let t = Table::new([Column::left("a"), Column::right("b")]);
        assert!(t.is_empty());
        assert_eq!(t.terminal(Terminal::PLAIN), "a  b\n─  ─\n");
        assert_eq!(t.csv(), "a,b\n");
        assert_eq!(Table::new([]).terminal(Terminal::PLAIN).trim(), "");
    }

    #[test]
    fn not_a_number_is_missing() {
        let mut t = Table::new([Column::right("x")]);
        t.row([Cell::num(f64::NAN, Unit::Count)]);
        assert_eq!(t.csv(), "x\n\n");
        assert!(t.terminal(Terminal::PLAIN).ends_with("–\n"));
    }
}
