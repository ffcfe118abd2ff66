//! Lists of pools, datasets and properties, for people and for scripts.

use poolwright_report::{Table, Terminal};

/// Placeholder for a value that does not exist.
pub const NONE: &str = "-";

/// Renders a table. With `script`, omits the titles and separates fields with tabs.
pub fn listing(table: &Table, script: bool, terminal: Terminal) -> String {
    match (script, table.is_empty()) {
        (true, _) => table.tabs(),
        (false, true) => "nothing to list\n".to_owned(),
        (false, false) => table.terminal(terminal),
    }
}

/// A size with its suffix, or in bytes with `plain`; [`NONE`] if unknown.
pub fn size(bytes: Option<u64>, plain: bool) -> String {
    match bytes {
        None => NONE.to_owned(),
        Some(bytes) if plain => bytes.to_string(),
        Some(bytes) => poolwright_base::units::format_size(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_get_tabs_and_people_get_columns() {
        let pools = Table::of(["tank"])
            .left("NAME", |name| name)
            .right("SIZE", |_| size(Some(1 << 20), false))
            .table();
        assert_eq!(listing(&pools, true, Terminal::PLAIN), "tank\t1M\n");
        assert!(listing(&pools, false, Terminal::PLAIN).starts_with("NAME"));
        assert_eq!(listing(&Table::new([]), false, Terminal::PLAIN), "nothing to list\n");
        assert_eq!((size(Some(1 << 20), true), size(None, true)), ("1048576".into(), "-".into()));
    }
}
