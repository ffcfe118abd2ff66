//! The summary of a finished recording.

use std::path::PathBuf;

use poolwright_trace::{Meta, UnseenOperation};
use schemars::JsonSchema;
use serde::Serialize;

/// The reason for the end of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The caller ended it.
    Asked,
    /// The followed process and all its children ended.
    SubjectGone,
}

/// The summary of a finished recording.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The summary of the trace; without a path if no trace was written.
    pub trace: poolwright_trace::Summary,
    /// Metadata: probe set, lost events, kinds of I/O that were not seen.
    pub meta: Meta,
    /// Bytes read and written.
    pub bytes: u64,
    /// The reason for the end.
    pub ended: Ended,
}

/// The summary as `record --json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordingSummary {
    /// The trace; `null` if nothing was recorded, and so no trace was written.
    pub trace: Option<PathBuf>,
    /// The number of events in the trace.
    pub events: u64,
    /// The number of files in the trace's file table.
    pub files: usize,
    /// Bytes that the events read and wrote.
    pub bytes: u64,
    /// Duration of the recording in seconds.
    pub seconds: f64,
    /// The number of events lost because the buffer was full.
    pub lost_events: u64,
    /// The source of the events.
    pub probe_set: String,
    /// The recorded subject: `dir:PATH`, `pid:N` or `zvol:PATH`.
    pub subject: String,
    /// Kinds of I/O that the recorder could not see.
    pub unseen: Vec<UnseenOperation>,
    /// The reason for the end.
    pub ended: Ended,
}

impl From<&Summary> for RecordingSummary {
    fn from(summary: &Summary) -> RecordingSummary {
        let Summary { trace, meta, .. } = summary;
        RecordingSummary {
            trace: (trace.events > 0).then(|| trace.path.clone()),
            events: trace.events,
            files: trace.files,
            bytes: summary.bytes,
            seconds: meta.duration_ns as f64 / 1e9,
            lost_events: meta.lost_events,
            probe_set: meta.probe_set.clone(),
            subject: meta.subject.clone(),
            unseen: meta.unseen.iter().map(UnseenOperation::new).collect(),
            ended: summary.ended,
        }
    }
}
