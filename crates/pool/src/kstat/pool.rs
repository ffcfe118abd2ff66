//! The counters of one pool.

use std::path::{Path, PathBuf};

use super::error::{KstatError, MalformedKstat, read, read_with};
use super::named::{NamedKstat, parse_named};
use super::txgs::{TxgRecord, parse_txgs};
use crate::HealthState;

/// The directory of one pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolKstats {
    name: String,
    dir: PathBuf,
}

/// The counters of one mounted dataset (`objset-0x…`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjsetKstat {
    /// The dataset's name.
    pub dataset: String,
    /// The number of the object set in its pool.
    pub objset: u64,
    /// The counters: `writes`, `nwritten` (bytes), `reads`, `nread` (bytes), `nunlinks`, `nunlinked`, and since 2.2 those of
    /// the dataset's intent log (`zil_…`).
    pub stats: NamedKstat,
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

    /// Reads `guid` (since 2.2).
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn guid(&self) -> Result<Option<u64>, KstatError> {
        read_with(&self.dir.join("guid"), |text| {
            text.trim().parse().map_err(|_| MalformedKstat::new(1, "the GUID is not a number"))
        })
    }

    /// Reads `iostats`: trims, and in later versions reads and writes by kind.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn iostats(&self) -> Result<Option<NamedKstat>, KstatError> {
        read_with(&self.dir.join("iostats"), parse_named)
    }

    /// Reads `txgs`: the last transaction groups, oldest first. The table is empty if the module's parameter
    /// `zfs_txg_history` is 0.
    ///
    /// # Errors
    /// If the file exists and cannot be read or parsed.
    pub fn txgs(&self) -> Result<Option<Vec<TxgRecord>>, KstatError> {
        read_with(&self.dir.join("txgs"), parse_txgs)
    }

    /// Reads the counters of all mounted datasets, sorted by the file names.
    ///
    /// # Errors
    /// If a file exists and cannot be read or parsed.
    pub fn objsets(&self) -> Result<Vec<ObjsetKstat>, KstatError> {
        let _ = (&self.dir, read);
        todo!()
    }
}

pub(super) fn list(root: &Path) -> Result<Vec<PoolKstats>, KstatError> {
    todo!("{}", root.display())
}

/// Parses the content of the file `objset-0xNUMBER`.
///
/// # Errors
/// If the text is not a named kstat with a `dataset_name`.
pub fn parse_objset(text: &str, objset: u64) -> Result<ObjsetKstat, MalformedKstat> {
    let mut stats = parse_named(text)?;
    let dataset = stats.text("dataset_name").map(str::to_owned);
    let dataset = dataset.ok_or_else(|| MalformedKstat::new(1, "no dataset_name"))?;
    stats.values.remove("dataset_name");
    Ok(ObjsetKstat { dataset, objset, stats })
}
