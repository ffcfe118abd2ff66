//! Lists of pools, datasets and properties, for people and for scripts.

use poolwright_report::{Cell, Column, Table, Terminal};

/// Placeholder for a value that does not exist.
pub const NONE: &str = "-";

/// Renders rows under titles; columns whose title begins with `<` are right-aligned. With `script`, omits the titles and
/// separates fields with tabs.
pub fn listing(titles: &[&str], rows: &[Vec<String>], script: bool, terminal: Terminal) -> String {
    if script {
        return rows.iter().map(|row| row.join("\t") + "\n").collect();
    }
    if rows.is_empty() {
        return "nothing to list\n".to_owned();
    }
    let column = |title: &&str| match title.strip_prefix('<') {
        Some(title) => Column::right(title),
        None => Column::left(title),
    };
    let mut table = Table::new(titles.iter().map(column));
    rows.iter().for_each(|row| table.row(row.iter().map(Cell::text)));
    table.terminal(terminal)
}

/// A size with its suffix, or in bytes with `plain`; [`NONE`] if unknown.
pub fn size(bytes: Option<u64>, plain: bool) -> String {
    match bytes {
        None => NONE.to_owned(),
        Some(bytes) if plain => bytes.to_string(),
        Some(bytes) => poolwright_trace::format_size(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_get_tabs_and_people_get_columns() {
        let rows = vec![vec!["tank".to_owned(), size(Some(1 << 20), false)]];
        assert_eq!(listing(&["NAME", "<SIZE"], &rows, true, Terminal::PLAIN), "tank\t1M\n");
        assert!(listing(&["NAME", "<SIZE"], &rows, false, Terminal::PLAIN).starts_with("NAME"));
        assert_eq!(listing(&["NAME"], &[], false, Terminal::PLAIN), "nothing to list\n");
        assert_eq!((size(Some(1 << 20), true), size(None, true)), ("1048576".into(), "-".into()));
    }
}
