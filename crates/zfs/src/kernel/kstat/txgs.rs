//! The history of transaction groups.

use super::error::MalformedKstat;

/// How far a transaction group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TxgState {
    /// `B`: it is being set up.
    Birth,
    /// `O`: it accepts changes.
    Open,
    /// `Q`: closed; waits until the changes under way have ended.
    Quiescing,
    /// `W`: waits for the previous group to be written.
    WaitingForSync,
    /// `S`: it is being written.
    Syncing,
    /// `C`: on stable storage.
    Committed,
}

/// One transaction group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxgRecord {
    /// The number of the group.
    pub txg: u64,
    /// When the group was opened, in nanoseconds since boot.
    pub birth_ns: u64,
    /// How far the group is.
    pub state: TxgState,
    /// The bytes that were dirty when the group was closed.
    pub dirty_bytes: u64,
    /// The bytes read from the vdevs while the group was written.
    pub read_bytes: u64,
    /// The bytes written to the vdevs while the group was written.
    pub written_bytes: u64,
    /// The number of reads.
    pub reads: u64,
    /// The number of writes.
    pub writes: u64,
    /// How long the group was open, in nanoseconds. As the three following, it is 0 until the phase has ended.
    pub open_ns: u64,
    /// How long the group was quiescing, in nanoseconds.
    pub quiesce_ns: u64,
    /// How long the group waited for the previous one, in nanoseconds.
    pub wait_ns: u64,
    /// How long it took to write the group, in nanoseconds.
    pub sync_ns: u64,
}

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
    let number = |at: usize| fields[at].parse().map_err(|_| format!("{:?} is not a number", fields[at]));
    Ok(TxgRecord {
        txg: number(0)?,
        birth_ns: number(1)?,
        state: parse_state(fields[2]).ok_or_else(|| format!("{:?} is not a state", fields[2]))?,
        dirty_bytes: number(3)?,
        read_bytes: number(4)?,
        written_bytes: number(5)?,
        reads: number(6)?,
        writes: number(7)?,
        open_ns: number(8)?,
        quiesce_ns: number(9)?,
        wait_ns: number(10)?,
        sync_ns: number(11)?,
    })
}

fn parse_state(letter: &str) -> Option<TxgState> {
    Some(match letter {
        "B" => TxgState::Birth,
        "O" => TxgState::Open,
        "Q" => TxgState::Quiescing,
        "W" => TxgState::WaitingForSync,
        "S" => TxgState::Syncing,
        "C" => TxgState::Committed,
        _ => return None,
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
        assert_eq!((records[0].txg, records[0].state, records[0].sync_ns), (8, TxgState::Committed, 9));
        assert_eq!((records[0].dirty_bytes, records[0].written_bytes, records[0].writes), (1, 3, 5));
        assert_eq!((records[1].birth_ns, records[1].state), (200, TxgState::Open));
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
