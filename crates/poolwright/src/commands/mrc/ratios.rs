//! How much smaller records are in the cache than they are written: one figure, or what `estimate` found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use serde::Deserialize;

use crate::commands::options::Usage;

/// How records are compressed.
#[derive(Debug, clap::Args)]
pub struct Compressed {
    /// How much smaller records are in the cache than they are written, as `zfs get compressratio` says: 1.5
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = parse_ratio)]
    compress_ratio: f64,

    /// The same for each recordsize, from what `poolwright estimate --json` has printed
    #[arg(long, value_name = "FILE", conflicts_with = "compress_ratio")]
    estimate: Option<PathBuf>,

    /// The compression to take from --estimate, where it has several
    #[arg(long, value_name = "VALUE", requires = "estimate")]
    compression: Option<String>,

    /// Sector size of the pool as a power of two: compressed records take whole sectors
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(9..=16))]
    ashift: u32,
}

/// What is taken of an estimate.
#[derive(Deserialize)]
struct Estimate {
    cells: Vec<Cell>,
}

#[derive(Deserialize)]
struct Cell {
    recordsize: u64,
    compression: String,
    ashift: u32,
    /// `null` where all of the files are holes.
    ratio: Option<f64>,
}

/// The ratio of each recordsize.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratios {
    /// `None`: the same for all.
    by_recordsize: Option<BTreeMap<u64, f64>>,
    all: f64,
    /// Bytes.
    pub sector: u32,
}

impl Compressed {
    /// The ratios of these recordsizes.
    pub fn ratios(&self, recordsizes: &[u64]) -> anyhow::Result<Ratios> {
        let mut ratios = Ratios { by_recordsize: None, all: self.compress_ratio, sector: 1 << self.ashift };
        if let Some(path) = &self.estimate {
            if recordsizes.is_empty() {
                return Err(anyhow::anyhow!("an estimate is of records, and this trace is of objects"))
                    .context(Usage);
            }
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            let estimate: Estimate = serde_json::from_str(&text).with_context(|| {
                format!("{} is not what `poolwright estimate --json` prints", path.display())
            })?;
            ratios.by_recordsize = Some(self.chosen(path, &estimate, recordsizes).context(Usage)?);
        }
        Ok(ratios)
    }

    fn chosen(
        &self,
        path: &Path,
        estimate: &Estimate,
        recordsizes: &[u64],
    ) -> anyhow::Result<BTreeMap<u64, f64>> {
        let mut names: Vec<&str> = estimate.cells.iter().map(|cell| cell.compression.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let name = match (&self.compression, names.as_slice()) {
            (Some(name), _) => name,
            (None, [one]) => *one,
            (None, _) => bail!("{} has {}: choose one with --compression", path.display(), names.join(", ")),
        };
        let ratio = |recordsize: u64| {
            let wanted = |cell: &&Cell| {
                (cell.recordsize, cell.compression.as_str(), cell.ashift) == (recordsize, name, self.ashift)
            };
            let cell = estimate.cells.iter().find(wanted).with_context(|| {
                format!(
                    "{} has no recordsize={recordsize}, compression={name}, ashift={}: estimate it too",
                    path.display(),
                    self.ashift
                )
            })?;
            Ok((recordsize, cell.ratio.unwrap_or(1.0).max(1.0)))
        };
        recordsizes.iter().map(|recordsize| ratio(*recordsize)).collect()
    }
}

impl Ratios {
    /// The ratio of records of that size, or of objects.
    pub fn of(&self, recordsize: Option<u64>) -> f64 {
        match (&self.by_recordsize, recordsize) {
            (Some(ratios), Some(recordsize)) => ratios.get(&recordsize).copied().unwrap_or(1.0),
            _ => self.all,
        }
    }
}

fn parse_ratio(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(ratio) if (1.0..=1000.0).contains(&ratio) => Ok(ratio),
        _ => Err(format!("{text:?} is no compression ratio; write 1.5")),
    }
}
