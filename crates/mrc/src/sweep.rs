//! Many recordsizes in one pass over a trace: a pipeline for each, exact or sampled.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::prelude::*;

use crate::input::Skipped;
use crate::{Curve, Extent, Input, RecordStream, Result, Run, Sampled};

/// Chunks that are read before the models need them.
const AHEAD: usize = 2;

/// The pipelines of one pass over a trace.
#[derive(Default)]
pub struct Sweep {
    pipelines: Vec<Pipeline>,
    read: Progress,
}

/// One recordsize's pipeline from extents to curves.
enum Pipeline {
    /// All records.
    All(RecordStream, Run),
    /// A sample of the records.
    Some(Sampled),
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
    /// A sweep without pipelines.
    pub fn new() -> Sweep {
        Sweep::default()
    }

    /// Adds a recordsize and the models that receive all of its accesses.
    pub fn add(&mut self, stream: RecordStream, run: Run) {
        self.pipelines.push(Pipeline::All(stream, run));
    }

    /// Adds a recordsize of which the models receive a sample.
    pub fn sample(&mut self, sampled: Sampled) {
        self.pipelines.push(Pipeline::Some(sampled));
    }

    /// Passes the rest of the trace to every pipeline, while a thread reads ahead. Calls `go_on` after each chunk, and
    /// stops early if it returns false.
    ///
    /// # Errors
    /// An error of the input; [`Error::TooManyRecords`](crate::Error::TooManyRecords) if the trace has too many different
    /// records.
    pub fn show(
        &mut self,
        input: &mut dyn Input,
        mut go_on: impl FnMut(&Progress) -> bool,
    ) -> Result<Progress> {
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
            self.pipelines.par_iter_mut().try_for_each(Pipeline::flush)?;
            Ok(self.read)
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
        let far = self.pipelines.iter().map(Pipeline::skipped).max_by_key(|skipped| skipped.too_far);
        let mut skipped = self.read.skipped;
        skipped += far.unwrap_or_default();
        skipped
    }

    /// Bytes of memory that records, models and chunks use now.
    pub fn memory(&self) -> usize {
        self.pipelines.iter().map(Pipeline::memory).sum()
    }
}

impl Pipeline {
    fn feed(&mut self, extents: &[Extent]) -> Result<()> {
        let (stream, run) = match self {
            Pipeline::Some(sampled) => return sampled.feed(extents),
            Pipeline::All(stream, run) => (stream, run),
        };
        loop {
            let more = stream.cut(extents)?;
            run.feed(stream.accesses(), stream.keys());
            if !more {
                return Ok(());
            }
        }
    }

    /// Processes what is buffered, at the end of the trace.
    fn flush(&mut self) -> Result<()> {
        match self {
            Pipeline::All(..) => Ok(()),
            Pipeline::Some(sampled) => sampled.flush(),
        }
    }

    fn requests(&self) -> u64 {
        match self {
            Pipeline::All(stream, _) => stream.requests(),
            Pipeline::Some(sampled) => sampled.requests(),
        }
    }

    fn curves(&self) -> Vec<Curve> {
        match self {
            Pipeline::All(stream, run) => run.curves(stream.recordsize(), stream.records()),
            Pipeline::Some(sampled) => sampled.curves(),
        }
    }

    fn skipped(&self) -> Skipped {
        match self {
            Pipeline::All(stream, _) => stream.skipped(),
            Pipeline::Some(sampled) => sampled.skipped(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Pipeline::All(stream, run) => stream.memory() + run.memory(),
            Pipeline::Some(sampled) => sampled.memory(),
        }
    }
}

/// Reads to the end, or until the receiver is gone. Reuses the chunks that come back.
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
