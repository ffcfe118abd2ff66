//! The summary of an imported trace, as text and as JSON.

use crate::{Summary, counted, format_size};

impl Summary {
    /// One line on a trace that was imported from `format`.
    pub fn text(&self, format: &str) -> String {
        format!(
            "{}: {} on {}, {} ({format})\n",
            self.path.display(),
            counted(self.events, "event"),
            counted(self.files as u64, "file"),
            format_size(self.bytes),
        )
    }

    /// A trace that was imported from `format`, as JSON.
    pub fn json(&self, format: &str) -> serde_json::Value {
        serde_json::json!({
            "format": format, "trace": self.path, "events": self.events, "files": self.files,
            "bytes": self.bytes, "duration_s": self.duration_ns as f64 / 1e9,
        })
    }
}
