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

/// The columns, in the order of [`SnapshotSpace`]'s fields.
pub const COLUMNS: &str = "name,used,referenced,creation,clones,userrefs";

/// One snapshot. Numbers are bytes, unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSpace {
    /// `DATASET@SNAPSHOT`.
    pub name: String,
    /// The space that destroying this snapshot alone would free.
    pub used: u64,
    /// The space that the snapshot refers to.
    pub referenced: u64,
    /// When it was taken, in seconds since 1970.
    pub created: u64,
    /// The datasets that were cloned from it.
    pub clones: Vec<String>,
    /// The number of holds.
    pub holds: u64,
}

/// Parses the output of `zfs list -Hp -t snapshot -o` [`COLUMNS`].
///
/// # Errors
/// If a line has another number of columns, or a value is malformed.
pub fn parse_snapshots(text: &str) -> Result<Vec<SnapshotSpace>, MalformedOutput> {
    let rows = Row::all(text, COLUMNS.split(',').count());
    rows.map(|row| {
        let row = row?;
        let clones = row.text(4).split(',').filter(|clone| !is_absent(clone));
        Ok(SnapshotSpace {
            name: row.text(0).to_owned(),
            used: row.number(1)?.unwrap_or(0),
            referenced: row.number(2)?.unwrap_or(0),
            created: row.number(3)?.unwrap_or(0),
            clones: clones.map(str::to_owned).collect(),
            holds: row.number(5)?.unwrap_or(0),
        })
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
        let text = "tank/a@1\t512\t1000\t300\ttank/b,tank/c\t0\ntank/a@2\t0\t1000\t400\t-\t2\n";
        let snapshots = parse_snapshots(text).unwrap();
        assert_eq!(snapshots[0].clones, ["tank/b", "tank/c"]);
        assert_eq!((snapshots[0].used, snapshots[0].referenced, snapshots[0].created), (512, 1000, 300));
        assert_eq!((snapshots[1].clones.len(), snapshots[1].holds), (0, 2));
        assert!(parse_snapshots("tank/a@1\t512\n").is_err());
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
