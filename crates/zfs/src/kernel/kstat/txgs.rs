//! The history of transaction groups.

use super::error::MalformedKstat;

/// One transaction group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxgRecord {
    /// The number of the group.
    pub txg: u64,
    /// Whether it is on stable storage. The times are 0 until then, or until their phase has ended.
    pub is_committed: bool,
    /// The bytes that were dirty when the group was closed.
    pub dirty_bytes: u64,
    /// How long the group was open, in nanoseconds.
    pub open_ns: u64,
    /// How long it took to write the group, in nanoseconds.
    pub sync_ns: u64,
}

/// The letters of the states: being set up, open, quiescing, waiting for the previous group, being written, committed.
const STATES: [&str; 6] = ["B", "O", "Q", "W", "S", "C"];

/// Parses the table `txgs`, which has no rows if the history is off.
///
/// # Errors
/// If a line has another number of columns, or a value is not a number.
pub fn parse_txgs(text: &str) -> Result<Vec<TxgRecord>, MalformedKstat> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).peekable();
    if lines.peek().is_none() {
        return Ok(Vec::new());
    }
    let mut lines = lines.skip_while(|(_, line)| line.split_whitespace().next() != Some("txg"));
    let Some((_, head)) = lines.next() else {
        return Err(MalformedKstat::new(1, "no line with the names of the columns"));
    };
    let width = head.split_whitespace().count();
    lines
        .map(|(at, line)| parse_row(line, width).map_err(|cause| MalformedKstat::new(at + 1, cause)))
        .collect()
}

/// Parses one row. Columns that a later version may append are ignored.
fn parse_row(line: &str, width: usize) -> Result<TxgRecord, String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    if fields.len() != width || width < 12 {
        return Err(format!("{} columns instead of {}", fields.len(), width.max(12)));
    }
    let state = fields[2];
    if !STATES.contains(&state) {
        return Err(format!("{state:?} is not a state"));
    }
    let number = |at: usize| fields[at].parse().map_err(|_| format!("{:?} is not a number", fields[at]));
    Ok(TxgRecord {
        txg: number(0)?,
        is_committed: state == "C",
        dirty_bytes: number(3)?,
        open_ns: number(8)?,
        sync_ns: number(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "txg birth state ndirty nread nwritten reads writes otime qtime wtime stime\n";

    #[test]
    fn rows() {
        let text =
            format!("24 0 0x01 7 1120 1 2\n{HEAD}8 100 C 1 2 3 4 5 6 7 8 9\n9 200 O 0 0 0 0 0 0 0 0 0\n");
        let records = parse_txgs(&text).unwrap();
        assert_eq!(records.len(), 2);
        let first = TxgRecord { txg: 8, is_committed: true, dirty_bytes: 1, open_ns: 6, sync_ns: 9 };
        assert_eq!((&records[0], records[1].is_committed), (&first, false));
        assert_eq!(parse_txgs(HEAD), Ok(Vec::new()));
        assert_eq!(parse_txgs("\n"), Ok(Vec::new()));
    }

    #[test]
    fn malformed_rows() {
        let fails = |row: &str| parse_txgs(&format!("{HEAD}{row}")).unwrap_err().to_string();
        assert_eq!(fails("8 100 C 1\n"), "line 2: 4 columns instead of 12");
        assert_eq!(fails("8 100 X 1 2 3 4 5 6 7 8 9\n"), "line 2: \"X\" is not a state");
        assert_eq!(fails("8 100 C 1 2 3 4 5 6 7 8 -\n"), "line 2: \"-\" is not a number");
        assert!(parse_txgs("something else").is_err());
        assert!(parse_txgs("txg\n1\n").is_err());
    }
}
