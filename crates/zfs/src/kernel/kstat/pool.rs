//! The counters of one pool.

use std::path::{Path, PathBuf};

use poolwright_base::cannot;

use super::error::{KstatError, MalformedKstat, is_gone, read_with};
use super::named::{KstatValue, each_value};
use super::txgs::{TxgRecord, parse_txgs};
use crate::kernel::HealthState;

/// The directory of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolKstats {
    name: String,
    dir: PathBuf,
}

impl PoolKstats {
    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads `state`. It never waits for the pool, so it can be read while the pool is suspended.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn state(&self) -> Result<Option<HealthState>, KstatError> {
        read_with(&self.dir.join("state"), |text| match text.trim() {
            "" => Err(MalformedKstat::new(1, "the state is empty")),
            word => Ok(HealthState::parse(word)),
        })
    }

    /// Reads `txgs`: the last transaction groups, oldest first. The table is empty if the module's parameter
    /// `zfs_txg_history` is 0.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn txgs(&self) -> Result<Option<Vec<TxgRecord>>, KstatError> {
        read_with(&self.dir.join("txgs"), parse_txgs)
    }

    /// Reads the counters with these names of all mounted datasets, and calls `each` with the name of each dataset. A counter
    /// that the module does not have is `None`. Files are read in the order of their names.
    ///
    /// `nread` and `nwritten` are bytes, `reads` and `writes` requests, and `zil_…` those of the dataset's intent log (since 2.2).
    ///
    /// Datasets come and go, so a file that cannot be read or parsed does not hide the others: the result has its error. An
    /// empty file is one of a dataset that has just gone.
    ///
    /// # Errors
    /// If the directory exists and cannot be read.
    pub fn for_each_objset<const N: usize>(
        &self,
        names: [&str; N],
        mut each: impl FnMut(&str, [Option<u64>; N]),
    ) -> Result<Vec<KstatError>, KstatError> {
        let mut unusable = Vec::new();
        for file in entries(&self.dir)?.iter().filter(|file| objset_number(file).is_some()) {
            let read = read_with(&self.dir.join(file), |text| {
                if !text.is_empty() {
                    let (dataset, counters) = objset_counters(text, names)?;
                    each(dataset, counters);
                }
                Ok(())
            });
            unusable.extend(read.err());
        }
        Ok(unusable)
    }
}

/// The dataset of an objset file, and the counters with these names.
fn objset_counters<'a, const N: usize>(
    text: &'a str,
    names: [&str; N],
) -> Result<(&'a str, [Option<u64>; N]), MalformedKstat> {
    let (mut dataset, mut counters) = (None, [None; N]);
    each_value(text, |name, value| match value {
        KstatValue::Text(value) if name == "dataset_name" => dataset = Some(value),
        KstatValue::Unsigned(value) => {
            if let Some(at) = names.iter().position(|wanted| *wanted == name) {
                counters[at] = Some(value);
            }
        }
        _ => {}
    })?;
    let dataset = dataset.ok_or_else(|| MalformedKstat::new(1, "no dataset_name"))?;
    Ok((dataset, counters))
}

/// The pools below a kstat directory, sorted by name.
pub(super) fn list(root: &Path) -> Result<Vec<PoolKstats>, KstatError> {
    let mut pools = Vec::new();
    for name in entries(root)? {
        let dir = root.join(&name);
        if dir.join("state").is_file() || dir.join("guid").is_file() {
            pools.push(PoolKstats { name, dir });
        }
    }
    Ok(pools)
}

/// The names in a directory, sorted. Names that are not UTF-8 are left out: the module makes none. Empty if the directory does
/// not exist.
fn entries(dir: &Path) -> Result<Vec<String>, KstatError> {
    let failed = |cause| KstatError::from(cannot("read", dir)(cause));
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(cause) if is_gone(&cause) => return Ok(Vec::new()),
        Err(cause) => return Err(failed(cause)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// The number in `objset-0xNUMBER`.
fn objset_number(file: &str) -> Option<u64> {
    u64::from_str_radix(file.strip_prefix("objset-0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Kstats;

    #[test]
    fn a_tree_with_gaps() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("tank/state", "DEGRADED\n");
        write("tank/guid", "17\n");
        write("tank/objset-0x36", "1 1 0x01 1 1 1 1\nname type data\ndataset_name 7 tank/a\nreads 4 5\n");
        write("other/state", "\n");
        write("import_progress/file", "");
        write("arcstats", "x");
        let kstats = Kstats::new(root.path());
        let pools = kstats.pools().unwrap();
        assert_eq!(pools.iter().map(PoolKstats::name).collect::<Vec<_>>(), ["other", "tank"]);
        assert_eq!(pools[1].state().unwrap(), Some(HealthState::Degraded));
        assert_eq!(pools[1].txgs().unwrap(), None);
        let mut found = Vec::new();
        pools[1].for_each_objset(["writes", "reads"], |name, of| found.push((name.to_owned(), of))).unwrap();
        assert_eq!(found, [("tank/a".to_owned(), [None, Some(5)])]);
        write("tank/objset-0x1", "");
        write("tank/objset-0x2", "1 1 0x01 1 1 1 1\nname type data\ndataset_name 7 tank/b\nreads 4 \n");
        std::fs::create_dir(root.path().join("tank/objset-0x3")).unwrap();
        found.clear();
        let each = |name: &str, of| found.push((name.to_owned(), of));
        let unusable = pools[1].for_each_objset(["writes", "reads"], each).unwrap();
        assert_eq!(found, [("tank/a".to_owned(), [None, Some(5)])], "the others are read");
        let unusable: Vec<String> = unusable.iter().map(KstatError::to_string).collect();
        assert!(unusable[0].ends_with("objset-0x2, line 4: \"\" is not a value of type 4"), "{unusable:?}");
        assert!(unusable[1].contains("objset-0x3: Is a directory"), "{unusable:?}");
        assert_eq!(unusable.len(), 2, "an empty file is one of a dataset that has gone: {unusable:?}");
        let message = pools[0].state().unwrap_err().to_string();
        assert!(message.ends_with("other/state, line 1: the state is empty"), "{message}");
        assert!(matches!(kstats.named("arcstats"), Err(KstatError::Malformed { line: 1, .. })));
        assert_eq!(kstats.named("zil").unwrap(), None);
    }

    #[test]
    fn a_missing_tree() {
        let kstats = Kstats::new("/missing/kstat");
        assert!(!kstats.is_present());
        assert_eq!(kstats.pools().unwrap(), []);
        assert_eq!(kstats.named("arcstats").unwrap(), None);
    }

    #[test]
    fn a_large_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(root.path().join("zil")).unwrap();
        file.set_len(crate::kernel::kstat::MAX_FILE + 1).unwrap();
        assert!(matches!(Kstats::new(root.path()).named("zil"), Err(KstatError::TooLarge { .. })));
    }
}
