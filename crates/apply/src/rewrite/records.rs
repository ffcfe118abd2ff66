//! Records of the copies, in a file that survives a crash.
//!
//! One line with a JSON object is appended for each copy. A line can be lost or cut off by a crash; the copy is then compared with
//! its file again. A line can also survive a crash that the copy did not survive, so a copy is used only if its own attributes
//! agree with the line ([`Copies`](super::Copies)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use poolwright_base::{cannot, private};
use serde::{Deserialize, Serialize};

use super::scan::FileIdentity;
use crate::{Error, Result};

/// A copy of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyRecord {
    /// The file when it was copied.
    pub source: FileIdentity,
    /// The inode number of the copy.
    pub copy: u64,
}

/// The records of the copies in one dataset.
#[derive(Debug)]
pub struct CopyRecords {
    path: PathBuf,
    file: File,
    by_source: BTreeMap<u64, CopyRecord>,
    /// The inode numbers of all copies.
    copies: BTreeSet<u64>,
}

impl CopyRecords {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// If it cannot be created, read or written.
    pub fn open(path: &Path) -> Result<CopyRecords> {
        let host = |what| cannot(what, path);
        let mut lines = Vec::new();
        let mut is_cut_off = false;
        let file = match File::options().read(true).append(true).open(path) {
            Ok(file) => {
                for line in BufReader::new(&file).split(b'\n') {
                    let line = serde_json::from_slice::<CopyRecord>(&line.map_err(host("read"))?);
                    is_cut_off = line.is_err();
                    lines.extend(line);
                }
                file
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
                private::create_new(path).map_err(host("create"))?;
                File::options().append(true).open(path).map_err(host("open"))?
            }
            Err(cause) => return Err(host("open")(cause).into()),
        };
        let (by_source, copies) = Default::default();
        let mut records = CopyRecords { path: path.to_owned(), file, by_source, copies };
        lines.into_iter().for_each(|line| records.keep(line));
        if is_cut_off {
            // Ends the line that a crash cut off.
            records.append(b"\n")?;
        }
        Ok(records)
    }

    /// The copy of the file with this inode number.
    pub fn of(&self, source: u64) -> Option<&CopyRecord> {
        self.by_source.get(&source)
    }

    /// Whether the file with this inode number was made as a copy.
    pub fn is_copy(&self, inode: u64) -> bool {
        self.copies.contains(&inode)
    }

    /// Adds a record, replacing an earlier one of the same file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn add(&mut self, record: CopyRecord) -> Result<()> {
        let mut line = serde_json::to_vec(&record)
            .map_err(|why| Error::Journal { path: self.path.clone(), why: why.to_string() })?;
        line.push(b'\n');
        self.append(&line)?;
        self.keep(record);
        Ok(())
    }

    /// Writes all records to the device.
    ///
    /// # Errors
    /// If the host cannot.
    pub fn sync(&self) -> Result<()> {
        Ok(self.file.sync_all().map_err(cannot("write", &self.path))?)
    }

    fn keep(&mut self, record: CopyRecord) {
        self.by_source.insert(record.source.inode, record);
        self.copies.insert(record.copy);
    }

    fn append(&mut self, line: &[u8]) -> Result<()> {
        Ok(self.file.write_all(line).map_err(cannot("write", &self.path))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_survive_and_a_cut_off_line_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("records");
        let source = |inode, length| FileIdentity { inode, length, modified_ns: -1, changed_ns: i64::MAX };
        let mut records = CopyRecords::open(&path).unwrap();
        records.add(CopyRecord { source: source(1, 10), copy: 7 }).unwrap();
        records.add(CopyRecord { source: source(2, 20), copy: 8 }).unwrap();
        records.add(CopyRecord { source: source(1, 11), copy: 7 }).unwrap();
        records.sync().unwrap();
        drop(records);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();

        let mut records = CopyRecords::open(&path).unwrap();
        assert_eq!(records.of(1).unwrap().source.length, 10, "the last line was lost");
        records.add(CopyRecord { source: source(3, 30), copy: 9 }).unwrap();
        let records = CopyRecords::open(&path).unwrap();
        assert_eq!(records.of(3).unwrap().copy, 9);
        assert!(records.is_copy(7) && records.is_copy(9) && !records.is_copy(1));
        assert_eq!(records.of(4), None);
    }
}
