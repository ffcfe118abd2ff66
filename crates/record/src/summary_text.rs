//! The progress and the result of a recording, as text.

use std::fmt;

use poolwright_base::units::{counted, format_count, format_size};

use crate::{Ended, Progress, Summary};

/// The progress in one line.
impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} s, {}, {}, {}",
            self.elapsed.as_secs_f64(),
            counted(self.events, "event"),
            format_size(self.bytes),
            counted(self.files as u64, "file"),
        )?;
        if self.lost > 0 { write!(f, ", {} LOST", format_count(self.lost)) } else { Ok(()) }
    }
}

impl Summary {
    /// The result in lines of text.
    pub fn text(&self) -> String {
        let location = match self.trace.events {
            0 => "no trace written".into(),
            _ => self.trace.path.display().to_string(),
        };
        let mut out = format!(
            "{location}: {}, {}, {:.1} s, {} read and written, probe set {}\n",
            counted(self.trace.events, "event"),
            counted(self.trace.files as u64, "file"),
            self.meta.duration_ns as f64 / 1e9,
            format_size(self.bytes),
            self.meta.probe_set,
        );
        if self.ended == Ended::SubjectGone {
            out.push_str("the process and its children ended\n");
        }
        match self.meta.lost_events {
            0 => out.push_str("no events lost\n"),
            lost => out.push_str(&format!(
                "{} EVENTS LOST: the buffer was full; record again with a larger buffer\n",
                format_count(lost)
            )),
        }
        for (what, count) in &self.meta.unseen {
            match count {
                0 => out.push_str(&format!("not seen: {what}\n")),
                count => out.push_str(&format!("not seen: {count} {what}\n")),
            }
        }
        out
    }

    /// The result in one sentence.
    pub fn sentence(&self) -> String {
        format!(
            "Recorded {} on {} in {:.0} s (probe set {}, {} lost, trace of {}).",
            counted(self.trace.events, "event"),
            counted(self.trace.files as u64, "file"),
            self.trace.duration_ns as f64 / 1e9,
            self.meta.probe_set,
            self.meta.lost_events,
            format_size(self.trace.bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordingSummary;
    use poolwright_trace::Meta;
    use std::time::Duration;

    #[test]
    fn losses_are_shown() {
        let progress =
            Progress { elapsed: Duration::from_secs(3), events: 1, bytes: 4096, files: 2, lost: 1000 };
        assert_eq!(progress.to_string(), "3 s, 1 event, 4K, 2 files, 1,000 LOST");
        let meta = Meta { lost_events: 5, unseen: vec![("splice".into(), 2)], ..Meta::default() };
        let trace =
            poolwright_trace::Summary { path: "t".into(), events: 0, files: 0, bytes: 0, duration_ns: 0 };
        let summary = Summary { trace, meta, bytes: 0, ended: Ended::SubjectGone };
        let text = summary.text();
        assert!(text.starts_with("no trace written: 0 events"), "{text}");
        assert!(text.contains("\n5 EVENTS LOST: ") && text.ends_with("not seen: 2 splice\n"), "{text}");
        let json = serde_json::to_value(RecordingSummary::from(&summary)).unwrap();
        assert_eq!(json["ended"], "subject-gone");
        assert!(json["trace"].is_null());
    }
}
