//! A whole trace in memory, for replays and tests.

use std::path::Path;

use crate::{Event, File, Meta, Reader, Result, Summary, Writer};

/// A trace read into memory: 56 bytes an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// What the trace says of itself.
    pub meta: Meta,
    /// The file table.
    pub files: Vec<File>,
    /// All events, sorted by time.
    pub events: Vec<Event>,
}

impl Trace {
    /// Reads a trace from disk.
    pub fn load(path: impl AsRef<Path>) -> Result<Trace> {
        let reader = Reader::open(path)?;
        let mut events = reader.events().collect::<Result<Vec<_>>>()?;
        events.sort_by_key(|event| event.t_ns);
        Ok(Trace { meta: reader.meta().clone(), files: reader.files().to_vec(), events })
    }

    /// Writes it to disk.
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
