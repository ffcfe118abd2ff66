//! Numbers and ages of snapshots: `zfs list -t snapshot`.

use std::collections::BTreeMap;

use super::error::MalformedOutput;
use super::number::Row;

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
