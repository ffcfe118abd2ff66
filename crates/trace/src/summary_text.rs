//! The summary of an imported trace, as text.

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
}
