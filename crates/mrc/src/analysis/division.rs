//! Divisions of memory between the database's own cache and the ARC, modelled over a trace.

use schemars::JsonSchema;
use serde::Serialize;

use super::config::ModelConfig;
use super::error::{Error, Result};
use super::model_name::ModelName;
use super::sizes::MIN_ARC;
use crate::input::{Format, Unit};
use crate::partition::{Partition, Shape, Share};
use crate::sweep::Progress;
use crate::{Input, RecordStream, arc};

/// Number of divisions: every eighth of the memory.
const DIVISIONS: u32 = 9;

/// Divisions of an amount of memory between the database's own cache and the ARC.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Divided {
    /// Size of both caches together in bytes.
    pub total_bytes: u64,
    /// The model of the ARC.
    pub model: String,
    /// Record size of the dataset in bytes; `None` for a trace of objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recordsize: Option<u64>,
    /// The divisions, in ascending order of the database's own cache.
    pub shares: Vec<Share>,
}

/// Checks that a trace has the requests to the database's own cache.
///
/// # Errors
/// [`Error::RecordedBelowCache`] for a Poolwright trace.
pub(super) fn check(format: &str) -> Result<()> {
    if format == Format::Trace.name() { Err(Error::RecordedBelowCache) } else { Ok(()) }
}

/// Models the divisions of `total_bytes` over a trace, with the first model and the first recordsize of `config`. Calls `go_on`
/// after each chunk, and returns `None` if that returned false.
///
/// # Errors
/// If the input cannot be read, or its pages do not fit the recordsize.
pub fn divide(
    total_bytes: u64,
    config: &ModelConfig,
    input: &mut dyn Input,
    mut go_on: impl FnMut(&Progress) -> bool,
) -> Result<Option<Divided>> {
    let model = config.models[0];
    let page_bytes = match config.unit {
        Unit::Bytes { recordsize } => Some(recordsize),
        Unit::Objects => None,
    };
    let recordsize = config.recordsizes.first().copied().or(page_bytes);
    let bytes = recordsize.unwrap_or(0);
    let shape = Shape {
        total_bytes,
        divisions: DIVISIONS,
        least_arc_bytes: if model == ModelName::Openzfs { MIN_ARC } else { 0 },
        page_bytes,
        recordsize: bytes,
        record_bytes: (bytes as f64 / config.ratios.of(recordsize)) as u32,
    };
    let arc = |bytes: u64| match bytes {
        // No model of OpenZFS's ARC can have 0 bytes.
        0 => Box::new(arc::Arc::new(0)),
        bytes => config.one_model(model, recordsize, bytes),
    };
    let mut partition = Partition::new(&shape, arc).map_err(Error::Division)?;
    let mut stream = RecordStream::new(config.unit, None)?;
    let mut extents = Vec::new();
    loop {
        input.read(&mut extents)?;
        if extents.is_empty() {
            break;
        }
        stream.each(&extents, |accesses, keys| {
            partition.feed(accesses, keys);
            Ok(())
        })?;
        let read = Progress { share: input.progress(), requests: stream.requests(), ..Progress::default() };
        if !go_on(&read) {
            return Ok(None);
        }
    }
    Ok(Some(Divided { total_bytes, model: model.name().to_owned(), recordsize, shares: partition.shares() }))
}

#[cfg(test)]
mod tests {
    use poolwright_base::{Exit, ReportedError as _};

    use super::*;

    #[test]
    fn a_trace_from_below_the_cache_cannot_be_divided() {
        assert_eq!(check("trace").unwrap_err().exit(), Exit::Usage);
        assert!(check("lis").is_ok() && check("oraclegeneral").is_ok());
    }
}
