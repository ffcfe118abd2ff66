//! The space of datasets: `zfs list`.

use super::error::MalformedOutput;
use super::number::Row;

/// The columns.
pub const COLUMNS: &str = "name,type,guid,used,available,referenced,usedbydataset,usedbysnapshots,usedbychildren,\
                           usedbyrefreservation,logicalused,logicalreferenced,compressratio,refcompressratio,written,quota,\
                           refquota,reservation,refreservation,volsize,mounted,origin";

/// The space of a file system or volume. Numbers are bytes, and `None` if the dataset has no such property.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetSpace {
    /// The dataset's name.
    pub name: String,
    /// The space used by the dataset, its snapshots and its descendants.
    pub used: Option<u64>,
    /// The space that the dataset can still use.
    pub available: Option<u64>,
    /// The space that the dataset refers to, shared with snapshots or not.
    pub referenced: Option<u64>,
    /// The part of `used` that destroying the dataset alone would free.
    pub used_by_dataset: Option<u64>,
    /// The part of `used` that destroying all snapshots would free.
    pub used_by_snapshots: Option<u64>,
    /// The part of `used` of the descendants.
    pub used_by_children: Option<u64>,
    /// The part of `used` that `refreservation` holds.
    pub used_by_refreservation: Option<u64>,
    /// `used` before compression.
    pub logical_used: Option<u64>,
    /// `referenced` before compression.
    pub logical_referenced: Option<u64>,
    /// The compression ratio of `used`, for example 1.8.
    pub compress_ratio: Option<f64>,
    /// The space written since the last snapshot.
    pub written: Option<u64>,
    /// The limit for the dataset and its descendants; 0 means none.
    pub quota: Option<u64>,
    /// The size of a volume; `None` for a file system.
    pub volume_size: Option<u64>,
}

/// Parses the output of `zfs list -Hp -t filesystem,volume -o` [`COLUMNS`].
///
/// # Errors
/// If a line has another number of columns, or a value is malformed.
pub fn parse_datasets(text: &str) -> Result<Vec<DatasetSpace>, MalformedOutput> {
    let mut datasets = Vec::new();
    parse_each(text, |dataset| datasets.push(dataset))?;
    Ok(datasets)
}

/// Parses as [`parse_datasets`], and calls `each` with one dataset after the other.
///
/// # Errors
/// As [`parse_datasets`]. `each` may have been called before.
pub fn parse_each(text: &str, mut each: impl FnMut(DatasetSpace)) -> Result<(), MalformedOutput> {
    for row in Row::all(text, COLUMNS.split(',').count()) {
        each(parse_dataset(&row?)?);
    }
    Ok(())
}

fn parse_dataset(row: &Row<'_>) -> Result<DatasetSpace, MalformedOutput> {
    Ok(DatasetSpace {
        name: row.text(0).to_owned(),
        used: row.number(3)?,
        available: row.number(4)?,
        referenced: row.number(5)?,
        used_by_dataset: row.number(6)?,
        used_by_snapshots: row.number(7)?,
        used_by_children: row.number(8)?,
        used_by_refreservation: row.number(9)?,
        logical_used: row.number(10)?,
        logical_referenced: row.number(11)?,
        compress_ratio: row.ratio(12)?,
        written: row.number(14)?,
        quota: row.number(15)?,
        volume_size: row.number(19)?,
    })
}
