//! The destination of recorded events: a trace on disk, or a watcher.

use std::path::PathBuf;

use poolwright_trace::{Event, File, Meta, Summary, Writer};

use crate::error::Result;

/// Receives events during a recording. The methods are called on the recorder's thread, which empties the kernel's
/// buffer, so they must return quickly.
pub trait Watcher {
    /// Receives the next file of the table, with its current size. Ids count from 0. Later changes of names and sizes
    /// are not reported.
    fn file(&mut self, file: &File);

    /// Receives an event on a file of the table, approximately in the order in which the events ended.
    fn event(&mut self, event: &Event);

    /// Called twice a second.
    fn tick(&mut self) {}
}

/// The destination of events.
pub(crate) enum Sink {
    Trace(Box<Writer>),
    Watched(Box<Watched>),
}

/// The data of a trace without its events, for a watcher.
pub(crate) struct Watched {
    watcher: Box<dyn Watcher>,
    files: Vec<File>,
    meta: Meta,
    events: u64,
}

impl Sink {
    pub fn trace(writer: Writer) -> Sink {
        Sink::Trace(Box::new(writer))
    }

    pub fn watched(watcher: Box<dyn Watcher>, meta: Meta) -> Sink {
        Sink::Watched(Box::new(Watched { watcher, files: Vec::new(), meta, events: 0 }))
    }

    /// Adds a file to the table and returns its id.
    pub fn file(&mut self, file: File) -> u32 {
        match self {
            Sink::Trace(writer) => writer.file(file),
            Sink::Watched(watched) => {
                watched.watcher.file(&file);
                watched.files.push(file);
                (watched.files.len() - 1) as u32
            }
        }
    }

    /// Returns a file's table entry for modification. Ids come from the tracker, so they are valid.
    pub fn file_mut(&mut self, id: u32) -> Result<&mut File> {
        match self {
            Sink::Trace(writer) => Ok(writer.file_mut(id)?),
            Sink::Watched(watched) => Ok(&mut watched.files[id as usize]),
        }
    }

    pub fn files(&self) -> &[File] {
        match self {
            Sink::Trace(writer) => writer.files(),
            Sink::Watched(watched) => &watched.files,
        }
    }

    pub fn meta_mut(&mut self) -> &mut Meta {
        match self {
            Sink::Trace(writer) => writer.meta_mut(),
            Sink::Watched(watched) => &mut watched.meta,
        }
    }

    pub fn len(&self) -> u64 {
        match self {
            Sink::Trace(writer) => writer.len(),
            Sink::Watched(watched) => watched.events,
        }
    }

    /// Adds an event.
    pub fn push(&mut self, event: Event) -> Result<()> {
        match self {
            Sink::Trace(writer) => Ok(writer.push(event)?),
            Sink::Watched(watched) => {
                watched.events += 1;
                watched.watcher.event(&event);
                Ok(())
            }
        }
    }

    /// Writes a checkpoint of the trace if one is due, or calls the watcher.
    pub fn tick(&mut self) -> Result<()> {
        match self {
            Sink::Trace(writer) => Ok(writer.tick()?),
            Sink::Watched(watched) => {
                watched.watcher.tick();
                Ok(())
            }
        }
    }

    /// Writes all events so far to the trace.
    pub fn checkpoint(&mut self) -> Result<()> {
        match self {
            Sink::Trace(writer) => Ok(writer.checkpoint()?),
            Sink::Watched(_) => Ok(()),
        }
    }

    /// Finishes the recording. Without a trace, or without an event (which leaves no trace), the summary has no path
    /// and no length.
    pub fn finish(self) -> Result<Summary> {
        match self {
            Sink::Trace(mut writer) if writer.is_empty() => Ok(Summary {
                path: PathBuf::new(),
                events: 0,
                files: writer.files().len(),
                bytes: 0,
                duration_ns: writer.meta_mut().duration_ns,
            }),
            Sink::Trace(writer) => Ok(writer.finish()?),
            Sink::Watched(watched) => Ok(Summary {
                path: PathBuf::new(),
                events: watched.events,
                files: watched.files.len(),
                bytes: 0,
                duration_ns: watched.meta.duration_ns,
            }),
        }
    }
}
