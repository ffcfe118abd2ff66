//! Numbers and ages of snapshots: `zfs list -t snapshot`.

use std::collections::BTreeMap;

use super::error::MalformedOutput;
use super::number::{Row, is_absent};

/// The snapshots of one dataset together. Their space is [`super::dataset::DatasetSpace::used_by_snapshots`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTotals {
    /// The dataset's name.
    pub dataset: String,
    /// The number of snapshots.
    pub count: u64,
    /// When the oldest was taken, in seconds since 1970.
    pub oldest: u64,
    /// When the newest was taken, in seconds since 1970.
    pub newest: u64,
}

/// The columns, in the order of [`SnapshotSummary`]'s fields.
pub const COLUMNS: &str = "name,clones,userrefs";

/// One snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// `DATASET@SNAPSHOT`.
    pub name: String,
    /// The datasets that were cloned from it.
    pub clones: Vec<String>,
    /// The number of holds.
    pub holds: u64,
}

/// Parses the output of `zfs list -Hp -t snapshot -o` [`COLUMNS`].
///
/// # Errors
/// If a line has another number of columns, or a value is malformed.
pub fn parse_snapshots(text: &str) -> Result<Vec<SnapshotSummary>, MalformedOutput> {
    let rows = Row::all(text, COLUMNS.split(',').count());
    rows.map(|row| {
        let row = row?;
        let clones = row.text(1).split(',').filter(|clone| !is_absent(clone));
        Ok(SnapshotSummary {
            name: row.text(0).to_owned(),
            clones: clones.map(str::to_owned).collect(),
            holds: row.number(2)?.unwrap_or(0),
        })
    })
    .collect()
}

/// The columns, in the order of [`HistoryPoint`]'s fields.
pub const HISTORY_COLUMNS: &str = "name,guid,createtxg";

/// A snapshot or a bookmark. A bookmark has the GUID and the transaction group of the snapshot from which it was made, and a received
/// snapshot has the GUID of the one that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryPoint {
    /// `DATASET@SNAPSHOT` or `DATASET#BOOKMARK`.
    pub name: String,
    /// Its GUID.
    pub guid: u64,
    /// The transaction group of its creation: within one dataset, a larger one is newer.
    pub created_txg: u64,
}

impl HistoryPoint {
    /// Whether it is a bookmark.
    pub fn is_bookmark(&self) -> bool {
        self.name.contains('#')
    }

    /// The name without that of the dataset.
    pub fn short_name(&self) -> &str {
        self.name.split(['@', '#']).nth(1).unwrap_or_default()
    }
}

/// Parses the output of `zfs list -Hp -t snapshot,bookmark -o` [`HISTORY_COLUMNS`].
///
/// # Errors
/// If a line has another number of columns, or a value is missing or malformed.
pub fn parse_history(text: &str) -> Result<Vec<HistoryPoint>, MalformedOutput> {
    let rows = Row::all(text, HISTORY_COLUMNS.split(',').count());
    rows.map(|row| {
        let row = row?;
        if !row.text(0).contains(['@', '#']) {
            return Err(row.malformed("the name has no @ or #"));
        }
        let guid = row.number(1)?.ok_or_else(|| row.malformed("no GUID"))?;
        let created_txg = row.number(2)?.ok_or_else(|| row.malformed("no transaction group"))?;
        Ok(HistoryPoint { name: row.text(0).to_owned(), guid, created_txg })
    })
    .collect()
}

/// Adds up snapshots while the output of `zfs list -Hp -t snapshot -o name,creation` arrives, so that it need not be kept.
#[derive(Debug, Default)]
pub struct SnapshotCounter {
    totals: BTreeMap<String, SnapshotTotals>,
    /// The beginning of a line whose end has not arrived.
    rest: Vec<u8>,
    lines: usize,
}

/// The limit for one line, in bytes: far more than the 256 of a name.
const MAX_LINE: usize = 4096;

impl SnapshotCounter {
    /// Adds the next piece of the output, which can end within a line.
    ///
    /// # Errors
    /// If a line is malformed.
    pub fn add(&mut self, piece: &[u8]) -> Result<(), MalformedOutput> {
        let mut lines = piece.split(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            self.rest.extend_from_slice(line);
            if self.rest.len() > MAX_LINE {
                return Err(MalformedOutput::new(self.lines + 1, format!("more than {MAX_LINE} bytes")));
            }
            if lines.peek().is_some() {
                self.end_line()?;
            }
        }
        Ok(())
    }

    /// The totals of the datasets that have snapshots, sorted by name.
    ///
    /// # Errors
    /// If the last line is malformed.
    pub fn finish(mut self) -> Result<Vec<SnapshotTotals>, MalformedOutput> {
        self.end_line()?;
        Ok(self.totals.into_values().collect())
    }

    fn end_line(&mut self) -> Result<(), MalformedOutput> {
        let line = std::mem::take(&mut self.rest);
        self.lines += 1;
        if line.is_empty() {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        let row = Row::parse(&line, self.lines, 2)?;
        let (dataset, _) = row.text(0).split_once('@').ok_or_else(|| row.malformed("the name has no @"))?;
        let created = row.number(1)?.ok_or_else(|| row.malformed("no time of creation"))?;
        let new =
            || SnapshotTotals { dataset: dataset.to_owned(), count: 0, oldest: created, newest: created };
        // Most snapshots belong to the dataset of the one before: do not copy its name.
        let totals = match self.totals.get_mut(dataset) {
            Some(totals) => totals,
            None => self.totals.entry(dataset.to_owned()).or_insert_with(new),
        };
        totals.count += 1;
        totals.oldest = totals.oldest.min(created);
        totals.newest = totals.newest.max(created);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "tank/a@1\t300\ntank/a@2\t200\ntank/b@1\t400\ntank/a@3\t250\n";

    #[test]
    fn pieces_can_end_anywhere() {
        for size in 1..TEXT.len() {
            let mut counter = SnapshotCounter::default();
            TEXT.as_bytes().chunks(size).for_each(|piece| counter.add(piece).unwrap());
            let totals = counter.finish().unwrap();
            let a = SnapshotTotals { dataset: "tank/a".to_owned(), count: 3, oldest: 200, newest: 300 };
            let b = SnapshotTotals { dataset: "tank/b".to_owned(), count: 1, oldest: 400, newest: 400 };
            assert_eq!(totals, [a, b]);
        }
    }

    #[test]
    fn snapshots_with_clones_and_holds() {
        let text = "tank/a@1\ttank/b,tank/c\t0\ntank/a@2\t-\t2\n";
        let snapshots = parse_snapshots(text).unwrap();
        assert_eq!(snapshots[0].clones, ["tank/b", "tank/c"]);
        assert_eq!(snapshots[0].name, "tank/a@1");
        assert_eq!((snapshots[1].clones.len(), snapshots[1].holds), (0, 2));
        assert!(parse_snapshots("tank/a@1\t-\n").is_err());
    }

    #[test]
    fn snapshots_and_bookmarks_with_guids() {
        let text = "tank/a b@1\t17446744073709551615\t12\ntank/a b#1\t17446744073709551615\t12\n";
        let history = parse_history(text).unwrap();
        assert_eq!((history[0].short_name(), history[0].is_bookmark()), ("1", false));
        assert_eq!((history[1].short_name(), history[1].is_bookmark()), ("1", true));
        assert_eq!((history[1].guid, history[1].created_txg), (17_446_744_073_709_551_615, 12));
        let fails = |text: &str| parse_history(text).unwrap_err().to_string();
        assert_eq!(fails("tank/a\t1\t2\n"), "line 1: the name has no @ or #");
        assert_eq!(fails("tank/a@1\t-\t2\n"), "line 1: no GUID");
        assert_eq!(fails("tank/a@1\t1\n"), "line 1: 2 fields instead of 3");
    }

    #[test]
    fn malformed_lines() {
        let fails = |text: &str| {
            let mut counter = SnapshotCounter::default();
            counter.add(text.as_bytes()).and_then(|()| counter.finish()).unwrap_err().to_string()
        };
        assert_eq!(fails("tank/a@1\t1\ntank/a\t1\n"), "line 2: the name has no @");
        assert_eq!(fails("tank/a@1\t-"), "line 1: no time of creation");
        assert_eq!(fails("tank/a@1"), "line 1: 1 fields instead of 2");
        assert_eq!(fails(&"x".repeat(5000)), "line 1: more than 4096 bytes");
        assert_eq!(SnapshotCounter::default().finish(), Ok(Vec::new()));
    }
}
