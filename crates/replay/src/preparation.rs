//! The files that all trials of a replay share: the capture and a copy of the trace.

use std::path::{Path, PathBuf};

use poolwright_trace::Trace;

use crate::source_files::SourceFiles;
use crate::{Capture, Result, capture};

/// The capture and the trace of a replay, in files that a [`crate::Spec`] names.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The trace, with a role for every file.
    pub trace: PathBuf,
    /// The directory of the capture.
    pub capture: PathBuf,
    /// Captured bytes that were read from the real files. If this is 0, all data is synthetic.
    pub real_bytes: u64,
}

/// Captures the data that the trace touches from `files`, and writes the capture and a copy of the trace to `dir`.
///
/// # Errors
/// If nothing can be captured ([`Capture::take`]), or a file cannot be written.
pub fn prepare(
    trace: &Trace,
    files: &SourceFiles,
    options: &capture::Options,
    dir: &Path,
) -> Result<Prepared> {
    let into = dir.join("capture");
    let taken = Capture::take(trace, options, files, &into)?;
    let prepared = Prepared { trace: dir.join("trace.parquet"), capture: into, real_bytes: taken.real_bytes };
    trace.save(&prepared.trace)?;
    Ok(prepared)
}
