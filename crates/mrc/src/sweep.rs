//! Many recordsizes in one pass over a trace: a pipeline for each.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::prelude::*;

use crate::input::Skipped;
use crate::{Curve, Extent, Input, Pipeline, Result};

/// Chunks that are read before the models need them.
const AHEAD: usize = 2;

/// The pipelines of one pass over a trace.
#[derive(Default)]
pub struct Sweep {
    pipelines: Vec<Pipeline>,
    read: Progress,
}

/// How far the trace was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Share of the source that was read, 0 to 1; `None` if its end is unknown.
    pub share: Option<f64>,
    /// Accesses to records of the first recordsize.
    pub requests: u64,
    /// Events that were skipped.
    pub skipped: Skipped,
    /// Length of the trace so far.
    pub duration_ns: u64,
    /// Whether the source was read to its end.
    pub ended: bool,
}

/// A chunk from the reading thread.
struct Chunk {
    extents: Vec<Extent>,
    read: Progress,
}

impl Sweep {
    /// Adds the pipeline of a recordsize.
    pub fn add(&mut self, pipeline: Pipeline) {
        self.pipelines.push(pipeline);
    }

    /// Passes the rest of the trace to every pipeline, while a thread reads ahead. Calls `go_on` after each chunk, and
    /// stops early if it returns false.
    ///
    /// # Errors
    /// An error of the input; [`Error::TooManyRecords`](crate::Error::TooManyRecords) if the trace has too many different
    /// records.
    pub fn show(&mut self, input: &mut dyn Input, go_on: impl FnMut(&Progress) -> bool) -> Result<Progress> {
        let shown = self.show_chunks(input, go_on);
        // What was read before an error counts too.
        self.pipelines.par_iter_mut().try_for_each(Pipeline::flush)?;
        shown.map(|()| self.read)
    }

    fn show_chunks(&mut self, input: &mut dyn Input, mut go_on: impl FnMut(&Progress) -> bool) -> Result<()> {
        std::thread::scope(|scope| {
            let (to, chunks) = sync_channel(AHEAD);
            let (back, used) = sync_channel(AHEAD + 1);
            scope.spawn(move || read_ahead(input, &to, &used));
            for chunk in chunks {
                let Chunk { extents, read } = chunk?;
                self.read = Progress { requests: self.read.requests, ..read };
                self.feed(&extents)?;
                // The reading thread may have ended.
                let _ = back.send(extents);
                if !go_on(&self.read) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn feed(&mut self, extents: &[Extent]) -> Result<()> {
        self.pipelines.par_iter_mut().with_max_len(1).try_for_each(|pipeline| pipeline.feed(extents))?;
        self.read.requests = self.pipelines.first().map_or(0, Pipeline::requests);
        Ok(())
    }

    /// The curves of each recordsize, in the order of the pipelines and of their models.
    pub fn curves(&self) -> Vec<Curve> {
        self.pipelines.iter().flat_map(Pipeline::curves).collect()
    }

    /// The events skipped so far. Events that only some recordsizes cannot represent are counted for the recordsize
    /// that skipped the most.
    pub fn skipped(&self) -> Skipped {
        let mut skipped = self.read.skipped;
        skipped.too_far += self.pipelines.iter().map(Pipeline::too_far).max().unwrap_or(0);
        skipped
    }

    /// Bytes of memory that records, models and chunks use now.
    pub fn memory(&self) -> usize {
        self.pipelines.iter().map(Pipeline::memory).sum()
    }
}

/// Reads to the end, or until the receiver is dropped. Reuses the chunks that come back.
fn read_ahead(input: &mut dyn Input, to: &SyncSender<Result<Chunk>>, used: &Receiver<Vec<Extent>>) {
    loop {
        let mut extents = used.try_recv().unwrap_or_default();
        let done = input.read(&mut extents);
        let ended = extents.is_empty();
        let read = Progress {
            share: input.progress(),
            requests: 0,
            skipped: input.skipped(),
            duration_ns: input.duration_ns(),
            ended,
        };
        let failed = done.is_err();
        if to.send(done.map(|()| Chunk { extents, read })).is_err() || failed || ended {
            return;
        }
    }
}
