//! Samples the data files of databases for compressibility.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use poolwright_estimate::{Error as EstimateError, Estimate, Input, Layout, Options, estimate};
use poolwright_openzfs::property::canonical;

use super::Request;
use crate::facts::{DatasetFacts, DatasetKind, MachineFacts};
use crate::{Error, Result};

/// Less data than this is not sampled.
const MIN_BYTES: u64 = 1 << 20;
/// How long the sample of one dataset takes at most.
const TIME: Duration = Duration::from_millis(1500);
/// The bytes that one sample reads at most.
const MAX_READ: u64 = 64 << 20;
/// The number of files of a sample: the largest ones.
const MAX_FILES: usize = 64;
/// Less data than this is read completely.
const EXACT_BELOW: u64 = 4 << 20;
/// The precision at which a sample ends.
const WITHIN: f64 = 0.03;
/// The alternatives to today's setting.
const RECORDSIZES: [u64; 3] = [16 << 10, 64 << 10, 128 << 10];
const COMPRESSIONS: [&str; 3] = ["off", "lz4", "zstd-3"];
/// The sector size, as an exponent, of pools that do not show theirs.
const USUAL_ASHIFT: u32 = 12;

/// Adds a sample to each dataset with enough data.
pub fn add(request: &Request, facts: &mut MachineFacts) -> Result<()> {
    if !request.samples_data {
        return Ok(());
    }
    for at in 0..facts.datasets.len() {
        request.check_cancelled()?;
        let dataset = &facts.datasets[at];
        let paths = data_files(facts, dataset);
        if dataset.kind == DatasetKind::Volume || paths.is_empty() {
            continue;
        }
        if facts.pool_of(dataset).is_none_or(|pool| pool.ashift().is_none()) {
            let note = format!("{}: its sector size; the sample assumes 4K", dataset.name);
            facts.unknown.push(note);
        }
        let dataset = &facts.datasets[at];
        match sample(request, facts, dataset, paths) {
            Ok(found) => facts.datasets[at].sample = Some(found),
            Err(_) if request.is_cancelled() => return Err(Error::Interrupted),
            Err(why) => {
                let note = format!("{}: the compressibility of its data: {why}", dataset.name);
                facts.unknown.push(note);
            }
        }
    }
    Ok(())
}

/// The largest tables and indexes on a dataset; empty if there is little.
fn data_files(facts: &MachineFacts, dataset: &DatasetFacts) -> Vec<PathBuf> {
    let bytes: u64 = facts.databases_on(dataset).map(|of| of.page_bytes_on(dataset)).sum();
    let all = facts.databases_on(dataset).flat_map(|of| &of.paths);
    let mut on: Vec<_> = all
        .filter(|file| file.dataset == dataset.name && file.is_of_kernel == dataset.is_of_kernel)
        .collect();
    on.sort_by_key(|file| std::cmp::Reverse(file.bytes));
    let paths = on.into_iter().take(MAX_FILES).map(|file| file.path.clone());
    if bytes < MIN_BYTES { Vec::new() } else { paths.collect() }
}

fn sample(
    request: &Request,
    facts: &MachineFacts,
    dataset: &DatasetFacts,
    paths: Vec<PathBuf>,
) -> std::result::Result<Estimate, EstimateError> {
    let pool = facts.pool_of(dataset);
    let block = dataset.block_size().unwrap_or(RECORDSIZES[2]);
    let recordsizes: BTreeSet<u64> = RECORDSIZES.into_iter().chain([block]).collect();
    let codec = canonical("compression", dataset.value("compression").unwrap_or("lz4"));
    let mut compressions: Vec<String> = COMPRESSIONS.map(str::to_owned).into();
    if !compressions.contains(&codec) {
        compressions.push(codec);
    }
    let options = Options {
        recordsizes: recordsizes.into_iter().collect(),
        compressions,
        ashifts: vec![pool.and_then(|pool| pool.ashift()).unwrap_or(USUAL_ASHIFT)],
        layouts: vec![pool.and_then(|pool| pool.layout()).unwrap_or(Layout::Plain)],
        within: WITHIN,
        time_limit: Some(TIME),
        byte_limit: Some(MAX_READ),
        exact_below: EXACT_BELOW,
        cancel: Arc::clone(&request.cancel),
        ..Options::default()
    };
    estimate(&Input::files_being_written(paths)?, &options, &mut |_| {})
}
