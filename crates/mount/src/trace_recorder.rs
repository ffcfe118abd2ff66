//! Records the operations of a mount into a trace. Needs no privilege.
//!
//! The serving threads only queue a copy of each operation; one thread writes events and resolves names. It looks up an
//! object's name once, through the object's parent directory, and then follows it through renames.

mod objects;
mod observer;
mod recorder;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use poolwright_openzfs::Dataset;
use poolwright_trace::{Meta, Summary, Writer, path_text};

use crate::{Caching, Observer, Options};
use observer::QueueObserver;
use recorder::Recorder;

/// Number of operations that may wait to be written. When the queue is full, the serving threads wait.
const QUEUE_LENGTH: usize = 1 << 16;

/// An error of recording a mount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceRecorderError {
    /// The trace cannot be created or written.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// The mount ended before an operation was recorded.
    #[error("nothing was recorded, so no trace was written")]
    Empty,
    /// The thread that writes the trace cannot be started.
    #[error("cannot start the thread that writes the trace: {0}")]
    Thread(#[source] std::io::Error),
    /// The thread that writes the trace panicked.
    #[error("the thread that writes the trace panicked")]
    Panicked,
}

/// A recording in progress.
pub struct TraceRecorder {
    observer: Arc<QueueObserver>,
    thread: JoinHandle<Result<Summary, TraceRecorderError>>,
}

impl TraceRecorder {
    /// Creates the trace and starts the thread that writes it. `dataset` is about to be mounted on `mountpoint` with
    /// `options`, to which the caller adds [`TraceRecorder::observer`].
    ///
    /// # Errors
    /// If the trace cannot be created, or the thread cannot be started.
    pub fn start(
        trace: &Path,
        dataset: &Dataset,
        mountpoint: &Path,
        options: &Options,
    ) -> Result<TraceRecorder, TraceRecorderError> {
        let unseen = match options.caching {
            Caching::Through => Vec::new(),
            Caching::Pages | Caching::Writeback => vec![("what the kernel's page cache answers".into(), 0)],
        };
        let meta = Meta {
            creator: format!("poolwright {}", env!("CARGO_PKG_VERSION")),
            probe_set: "mount".into(),
            subject: format!("dir:{}", path_text::encode(mountpoint)),
            unseen,
            host: host(),
            ..Meta::default()
        };
        let (sender, operations) = sync_channel(QUEUE_LENGTH);
        let mut recorder = Recorder::new(Writer::create(trace, meta)?, mountpoint, dataset.clone());
        let thread = std::thread::Builder::new()
            .name("record".into())
            .spawn(move || {
                recorder.run(&operations)?;
                recorder.finish()
            })
            .map_err(TraceRecorderError::Thread)?;
        Ok(TraceRecorder { observer: Arc::new(QueueObserver(sender)), thread })
    }

    /// The observer for [`Options::observer`].
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.observer) as Arc<dyn Observer>
    }

    /// Writes the rest of the trace and closes it. Waits until the mount and all other holders of the observer have been
    /// dropped.
    ///
    /// # Errors
    /// If writing failed, or no operation was recorded; an empty trace is removed.
    pub fn finish(self) -> Result<Summary, TraceRecorderError> {
        drop(self.observer);
        self.thread.join().map_err(|_| TraceRecorderError::Panicked)?
    }
}

fn host() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}
