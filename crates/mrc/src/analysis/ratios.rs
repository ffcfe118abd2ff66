//! Compression ratios of the records in the cache: one ratio, or one for each recordsize from an estimate.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use poolwright_base::cannot;

use super::error::{Error, Result};

/// Where the compression ratios come from.
#[derive(Clone, Debug, PartialEq)]
pub enum RatioSource {
    /// The same ratio for every recordsize, as `compressratio` of a dataset; at least 1.
    Uniform(f64),
    /// The output of `poolwright estimate --json`.
    Estimate {
        /// The file.
        path: PathBuf,
        /// The compression to use; `None` if the estimate has only one.
        compression: Option<String>,
    },
}

/// The fields of an estimate that are used.
#[derive(Deserialize)]
struct Estimate {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    recordsize: u64,
    compression: String,
    ashift: u32,
    /// `null` if the files contain only holes.
    ratio: Option<f64>,
}

/// The compression ratio of each recordsize.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratios {
    /// `None`: `all` applies to every recordsize.
    by_recordsize: Option<BTreeMap<u64, f64>>,
    all: f64,
    /// Sector size in bytes: a compressed record takes whole sectors.
    pub sector: u32,
}

impl Ratios {
    /// Takes the ratios of `recordsizes` from `source`, for a pool with sectors of 2^`ashift` bytes.
    ///
    /// # Errors
    /// If an estimate cannot be read or lacks one of the recordsizes, or if the trace has objects (no recordsizes) and
    /// `source` is an estimate.
    pub fn new(source: &RatioSource, ashift: u32, recordsizes: &[u64]) -> Result<Ratios> {
        let sector = 1 << ashift;
        let (path, compression) = match source {
            RatioSource::Uniform(ratio) => {
                return Ok(Ratios { by_recordsize: None, all: *ratio, sector });
            }
            RatioSource::Estimate { path, compression } => (path, compression.as_deref()),
        };
        if recordsizes.is_empty() {
            return Err(Error::ObjectsHaveNoEstimate);
        }
        let text = std::fs::read_to_string(path).map_err(cannot("read", path))?;
        let estimate: Estimate = serde_json::from_str(&text)
            .map_err(|source| Error::ParseEstimate { path: path.clone(), source })?;
        let by_recordsize = estimate.ratios(path, compression, ashift, recordsizes)?;
        Ok(Ratios { by_recordsize: Some(by_recordsize), all: 1.0, sector })
    }

    /// The ratio of records of this size; `None` for objects.
    pub fn of(&self, recordsize: Option<u64>) -> f64 {
        match (&self.by_recordsize, recordsize) {
            (Some(ratios), Some(recordsize)) => ratios.get(&recordsize).copied().unwrap_or(1.0),
            _ => self.all,
        }
    }
}

impl Estimate {
    fn ratios(
        &self,
        path: &Path,
        compression: Option<&str>,
        ashift: u32,
        recordsizes: &[u64],
    ) -> Result<BTreeMap<u64, f64>> {
        let mut names: Vec<&str> = self.cells.iter().map(|cell| cell.compression.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let name = match (compression, names.as_slice()) {
            (Some(name), _) => name,
            (None, [name]) => *name,
            (None, _) => {
                return Err(Error::SeveralCompressions { path: path.to_owned(), names: names.join(", ") });
            }
        };
        let ratio = |&recordsize: &u64| {
            let wanted = |cell: &&Cell| {
                (cell.recordsize, cell.compression.as_str(), cell.ashift) == (recordsize, name, ashift)
            };
            let cell = self.cells.iter().find(wanted).ok_or_else(|| Error::NotEstimated {
                path: path.to_owned(),
                recordsize,
                compression: name.to_owned(),
                ashift,
            })?;
            Ok((recordsize, cell.ratio.unwrap_or(1.0).max(1.0)))
        };
        recordsizes.iter().map(ratio).collect()
    }
}
