//! What a run found.

use poolwright_mrc::sweep::Progress;
use poolwright_mrc::{Curve, Skipped, Sweep};

use super::models::{self, ModelConfig};

/// Why the reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The trace did.
    Done,
    /// Somebody pressed Ctrl-C; the figures are of what was read until then.
    Interrupted,
    /// There was nothing to read, and so there is no curve.
    Empty,
}

/// All that is known at the end.
pub struct MrcResult {
    /// The file, or what was recorded.
    pub source: String,
    pub format: &'static str,
    /// By recordsize, then by model.
    pub curves: Vec<Curve>,
    pub skipped: Skipped,
    pub duration_ns: u64,
    /// Bytes of the records that are touched, estimated, where it was asked for.
    pub footprint: Option<u64>,
    /// Bytes of memory for records and models.
    pub memory: usize,
    pub lost_events: u64,
    pub unseen: Vec<(String, u64)>,
    /// Of the caches asked for, where there is something to say.
    pub notes: Vec<String>,
    pub ended: Ended,
    /// Share of the trace that was read.
    pub share: Option<f64>,
    pub seconds: f64,
}

impl MrcResult {
    pub fn new(
        source: String,
        format: &'static str,
        config: &ModelConfig,
        sweep: &Sweep,
        read: &Progress,
    ) -> MrcResult {
        let ended = match read.requests {
            _ if !read.ended => Ended::Interrupted,
            0 => Ended::Empty,
            _ => Ended::Done,
        };
        MrcResult {
            source,
            format,
            curves: sweep.curves(),
            skipped: sweep.skipped(),
            duration_ns: read.duration_ns,
            footprint: config.sizes.footprint(),
            notes: models::notes(config),
            memory: sweep.memory(),
            lost_events: 0,
            unseen: Vec::new(),
            ended,
            share: read.share,
            seconds: 0.0,
        }
    }
}
