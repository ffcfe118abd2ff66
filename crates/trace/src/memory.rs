//! A whole trace in memory, for replays and tests.

use std::path::Path;

use poolwright_base::memory;

use crate::{Error, Event, File, Meta, Reader, Result, Summary, Writer};

/// A trace in memory, at 88 bytes per event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Metadata of the trace.
    pub meta: Meta,
    /// The file table.
    pub files: Vec<File>,
    /// All events, sorted by time.
    pub events: Vec<Event>,
}

impl Trace {
    /// Reads a trace from disk.
    ///
    /// # Errors
    ///
    /// Returns [`Error::TooLarge`] if the claimed number of events takes more memory than is available, and the errors
    /// of [`Reader::events`].
    pub fn load(path: impl AsRef<Path>) -> Result<Trace> {
        let reader = Reader::open(path)?;
        // Sorting takes half as much memory again.
        let needed = reader.len().saturating_mul(size_of::<Event>() as u64 * 3 / 2);
        let available = memory::available().unwrap_or(u64::MAX);
        if needed > available {
            return Err(Error::TooLarge {
                path: reader.path().to_owned(),
                events: reader.len(),
                needed,
                available,
            });
        }
        let mut events = Vec::with_capacity(reader.len() as usize);
        for event in reader.events() {
            events.push(event?);
        }
        events.sort_by_key(|event| event.t_ns);
        Ok(Trace { meta: reader.meta().clone(), files: reader.files().to_vec(), events })
    }

    /// Removes the events before `t_ns` and counts times from there, as if the recording had begun then. The CPU time of a
    /// second that `t_ns` divides is kept if more than half of that second is.
    pub fn begin_at(&mut self, t_ns: u64) {
        let first = self.events.partition_point(|event| event.t_ns < t_ns);
        self.events.drain(..first);
        for event in &mut self.events {
            event.t_ns -= t_ns;
        }
        self.meta.duration_ns = self.meta.duration_ns.saturating_sub(t_ns);
        let seconds = (t_ns as f64 / 1e9).round() as usize;
        self.meta.cpu.drain(..seconds.min(self.meta.cpu.len()));
    }

    /// Writes the trace to disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Summary> {
        let mut writer = Writer::create(path, self.meta.clone())?;
        for file in &self.files {
            writer.file(file.clone());
        }
        for event in &self.events {
            writer.push(*event)?;
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CpuSecond;

    #[test]
    fn a_later_begin_leaves_out_what_was_before_it() {
        let event = |t_ns: u64| Event { t_ns, ..Event::default() };
        let cpu = |host_ns: u64| CpuSecond { host_ns, ..CpuSecond::default() };
        let mut trace = Trace {
            meta: Meta { duration_ns: 5_000_000_000, cpu: (0..5).map(cpu).collect(), ..Meta::default() },
            events: [0, 1_999_999_999, 2_000_000_000, 4_500_000_000].map(event).into(),
            ..Trace::default()
        };
        trace.begin_at(2_000_000_000);
        assert_eq!(trace.events.iter().map(|e| e.t_ns).collect::<Vec<_>>(), [0, 2_500_000_000]);
        assert_eq!((trace.meta.duration_ns, trace.meta.cpu), (3_000_000_000, vec![cpu(2), cpu(3), cpu(4)]));
        trace.meta.cpu = vec![cpu(2)];
        trace.begin_at(60_000_000_000);
        assert!(trace.events.is_empty() && trace.meta.cpu.is_empty() && trace.meta.duration_ns == 0);
    }
}
