//! When a dataset was last sent to a target: a small file in the directory of the summaries, from which a monitor reads the age of a
//! replica.

use std::path::Path;

use poolwright_base::time;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::summary::{read_all, write_into};

/// The version of the format that this release writes, and the highest that it reads.
const VERSION: u32 = 1;
/// Ends the name of each file.
const EXTENSION: &str = "sent";

/// The last transfer to a target that has brought it up to date.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendRecord {
    /// The version of the format.
    pub version: u32,
    /// The dataset.
    pub dataset: String,
    /// The target, with its host.
    pub target: String,
    /// Time of the end of the transfer, in seconds since 1970.
    pub sent_unix_s: u64,
}

impl SendRecord {
    /// A transfer that has ended now.
    pub fn new(dataset: &str, target: &str) -> SendRecord {
        let sent_unix_s = time::unix_seconds() as u64;
        SendRecord { version: VERSION, dataset: dataset.to_owned(), target: target.to_owned(), sent_unix_s }
    }

    /// Writes the record into a directory, in place of the earlier one of this dataset and target.
    ///
    /// # Errors
    /// The host's errors.
    pub fn keep(&self, dir: &Path) -> Result<()> {
        // A name of a dataset has no `%`. One of a target can have, but then it is that of another dataset or host.
        let name = format!("{} to {}.{EXTENSION}", self.dataset, self.target).replace('/', "%");
        write_into(dir, &name, self)
    }

    /// Reads the records in a directory, sorted by the names of their files. A directory that does not exist has none.
    ///
    /// # Errors
    /// If the directory or one of the files cannot be read or understood.
    pub fn all_in(dir: &Path) -> Result<Vec<SendRecord>> {
        read_all(dir, EXTENSION, VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackupSummary;

    #[test]
    fn each_target_has_a_record() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(SendRecord::all_in(&dir.path().join("none")).unwrap(), []);
        let there = SendRecord::new("tank/a", "root@[fe80::1]:vault/a");
        let here = SendRecord::new("tank/a", "vault/a");
        for record in [&there, &here, &there] {
            record.keep(dir.path()).unwrap();
        }
        assert_eq!(SendRecord::all_in(dir.path()).unwrap(), [there, here]);
        assert_eq!(BackupSummary::all_in(dir.path()).unwrap(), [], "they are no summaries");
    }
}
