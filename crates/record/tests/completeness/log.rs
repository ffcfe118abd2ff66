//! The log of the program `io.c`; `io.h` describes its lines.

use std::collections::BTreeMap;
use std::fmt;

/// An operation on a file of a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    pub op: String,
    pub file: String,
    pub offset: u64,
    pub len: u64,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.op, self.file, self.offset, self.len)
    }
}

/// What the program did in one way.
#[derive(Debug, Default)]
pub struct Row {
    pub operations: Vec<Line>,
    pub touches: Vec<Line>,
    /// Words of entries of `unseen`, and their counts.
    pub counts: Vec<(String, u64)>,
    pub lacks: bool,
}

#[derive(Debug, Default)]
pub struct Log {
    pub rows: BTreeMap<String, Row>,
    order: Vec<String>,
}

impl Log {
    pub fn parse(text: &str) -> Log {
        let mut log = Log::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [row, op, file, offset, len] = words.as_slice() else { panic!("{line}") };
            if !log.rows.contains_key(*row) {
                log.order.push((*row).to_owned());
            }
            let row = log.rows.entry((*row).to_owned()).or_default();
            let line = || Line {
                op: (*op).to_owned(),
                file: (*file).to_owned(),
                offset: offset.parse().expect("an offset"),
                len: len.parse().expect("a length"),
            };
            match *op {
                "lacks" => row.lacks = true,
                "count" => row.counts.push((file.replace('_', " "), len.parse().expect("a count"))),
                "touch" => row.touches.push(line()),
                "alias" => {
                    let (old, new) = file.split_once('=').expect("two names");
                    for line in row.operations.iter_mut().filter(|line| line.file == old) {
                        line.file = new.to_owned();
                    }
                }
                _ => row.operations.push(line()),
            }
        }
        log
    }

    /// The names of the rows, in the order of the log.
    pub fn order(&self) -> Vec<String> {
        self.order.clone()
    }

    /// The sums of the counts by their words. Rows that the file system lacks do not count.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (words, count) in self.rows.values().filter(|row| !row.lacks).flat_map(|row| &row.counts) {
            *sums.entry(words.clone()).or_default() += count;
        }
        sums
    }
}
