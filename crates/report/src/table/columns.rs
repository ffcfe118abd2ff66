//! A table that is built column by column.

use super::{Cell, Column, Table};

/// A table with a row for each item, to which columns are added.
///
/// ```
/// use poolwright_report::{Cell, Table, Terminal};
///
/// let files = [("orders.ibd", 16384), ("undo_001", 1024)];
/// let table = Table::of(&files).left("file", |(name, _)| *name).right("size", |(_, bytes)| Cell::bytes(*bytes)).table();
/// assert_eq!(table.terminal(Terminal::PLAIN), "file        size\n──────────  ────\norders.ibd   16K\nundo_001      1K\n");
/// ```
#[derive(Clone, Debug)]
pub struct TableColumns<T> {
    items: Vec<T>,
    table: Table,
}

impl<T: Copy> TableColumns<T> {
    pub(super) fn new(items: impl IntoIterator<Item = T>) -> Self {
        let items: Vec<T> = items.into_iter().collect();
        let rows = vec![Vec::new(); items.len()];
        TableColumns { items, table: Table { columns: Vec::new(), rows } }
    }

    /// Adds a column with the cell of each item.
    pub fn column<C: Into<Cell>>(mut self, column: Column, mut cell: impl FnMut(T) -> C) -> Self {
        self.table.columns.push(column);
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(*item).into());
        }
        self
    }

    /// Adds a column of text, like [`Column::left`].
    pub fn left<C: Into<Cell>>(self, title: impl Into<String>, cell: impl FnMut(T) -> C) -> Self {
        self.column(Column::left(title), cell)
    }

    /// Adds a column of numbers, like [`Column::right`].
    pub fn right<C: Into<Cell>>(self, title: impl Into<String>, cell: impl FnMut(T) -> C) -> Self {
        self.column(Column::right(title), cell)
    }

    /// Adds a column of text if it is `shown`.
    pub fn left_if<C: Into<Cell>>(self, shown: bool, title: &str, cell: impl FnMut(T) -> C) -> Self {
        if shown { self.left(title, cell) } else { self }
    }

    /// Adds a column of numbers if it is `shown`.
    pub fn right_if<C: Into<Cell>>(self, shown: bool, title: &str, cell: impl FnMut(T) -> C) -> Self {
        if shown { self.right(title, cell) } else { self }
    }

    /// Adds the columns that `add` adds for each of `all`, such as the metrics of a table.
    pub fn each<I>(self, all: impl IntoIterator<Item = I>, add: impl FnMut(Self, I) -> Self) -> Self {
        all.into_iter().fold(self, add)
    }

    /// Returns the table.
    pub fn table(self) -> Table {
        self.table
    }
}
