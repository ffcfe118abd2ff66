//! The analysis of a trace file.

use std::path::PathBuf;

use super::division::{self, Divided, divide};
use super::error::{Error, Result};
use super::request::MrcRequest;
use super::result::{Ended, MrcResult};
use super::sizes::CacheSizes;
use crate::input::{self, Format, Select};
use crate::openzfs::PrimaryCache;
use crate::sweep::Progress;
use crate::{Footprint, Input, Kind};

/// A trace file, which an analysis may read several times.
#[derive(Clone, Debug)]
pub struct TraceFile {
    /// The file.
    pub path: PathBuf,
    /// Its format; `None` to detect it.
    pub format: Option<Format>,
    /// The files of the trace to use.
    pub select: Select,
}

impl TraceFile {
    /// Opens the file at its beginning.
    ///
    /// # Errors
    /// See [`input::open`].
    pub fn open(&self) -> crate::Result<Box<dyn Input>> {
        input::open(&self.path, self.format, &self.select)
    }
}

/// A part of an analysis; each reads the trace once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnalysisPhase {
    /// Measures the footprint, to choose the cache sizes.
    Measuring,
    /// Shows the trace to the models.
    Modelling,
    /// Models the divisions of memory.
    Dividing,
}

/// Analyzes a trace file. `input` is the file as [`TraceFile::open`] returns it. Calls `go_on` after each chunk of the trace; the
/// run ends early if that returns false.
///
/// # Errors
/// If the request does not fit the trace, the trace cannot be read, or the run was ended while measuring.
pub fn analyze(
    request: &MrcRequest,
    file: &TraceFile,
    mut input: Box<dyn Input>,
    mut go_on: impl FnMut(AnalysisPhase, &Progress) -> bool,
) -> Result<(MrcResult, Option<Divided>)> {
    if request.split_bytes.is_some() {
        division::check(input.format())?;
    }
    let mut config = request.config(&*input, |recordsize, ratio| {
        let footprint = measure(file, recordsize, |read| go_on(AnalysisPhase::Measuring, read))?;
        Ok(CacheSizes::up_to(&footprint, ratio, recordsize.unwrap_or(1)))
    })?;
    if request.primarycache != PrimaryCache::All {
        config.read_bytes = typical_read(&mut *file.open()?)?;
    }
    let mut sweep = config.sweep()?;
    let read = sweep.show(&mut *input, |read| go_on(AnalysisPhase::Modelling, read))?;
    let source = file.path.display().to_string();
    let mut result = MrcResult::new(source, input.format(), &config, &sweep, &read);
    drop(sweep);
    let Some(total_bytes) = request.split_bytes else { return Ok((result, None)) };
    let split =
        divide(total_bytes, &config, &mut *file.open()?, |read| go_on(AnalysisPhase::Dividing, read))?;
    if split.is_none() {
        result.ended = Ended::Interrupted;
    }
    Ok((result, split))
}

/// Measures the footprint of a trace in records of `recordsize` bytes.
fn measure(
    file: &TraceFile,
    recordsize: Option<u64>,
    mut go_on: impl FnMut(&Progress) -> bool,
) -> Result<Footprint> {
    let mut input = file.open()?;
    let mut footprint = Footprint::new(input.unit(), recordsize)?;
    let mut stopped = false;
    footprint.read(&mut *input, &mut |input| {
        stopped = !go_on(&Progress { share: input.progress(), ..Progress::default() });
        stopped
    })?;
    if stopped { Err(Error::Interrupted) } else { Ok(footprint) }
}

/// The median length in bytes of the reads in the first chunk of a trace; `None` if it has no read.
fn typical_read(input: &mut dyn Input) -> crate::Result<Option<u64>> {
    let mut extents = Vec::new();
    input.read(&mut extents)?;
    let reads = extents.iter().filter(|extent| extent.kind == Kind::Read);
    let mut lengths: Vec<u64> = reads.map(|extent| extent.len).collect();
    lengths.sort_unstable();
    Ok(lengths.get(lengths.len() / 2).copied())
}
