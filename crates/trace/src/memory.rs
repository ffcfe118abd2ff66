//! A whole trace in memory, for replays and tests.

use std::path::Path;

use poolwright_host::memory;

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
