//! Many recordsizes in one reading of a trace: a lane and its models for each.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::prelude::*;

use crate::input::Skipped;
use crate::{Curve, Input, Lane, Piece, Result, Run};

/// Chunks that are read ahead of the models.
const AHEAD: usize = 2;

/// Lanes with their models, to be shown one trace.
#[derive(Default)]
pub struct Lanes {
    lanes: Vec<(Lane, Run)>,
    read: Progress,
}

/// How far the trace was read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Share of the source, 0 to 1; `None` where its end is not known.
    pub share: Option<f64>,
    /// Accesses of the first lane.
    pub requests: u64,
    /// Events that were left out.
    pub skipped: Skipped,
    /// Length of the trace so far.
    pub duration_ns: u64,
    /// Whether it was read to its end.
    pub ended: bool,
}

/// What the reading thread hands over.
struct Chunk {
    pieces: Vec<Piece>,
    read: Progress,
}

impl Lanes {
    /// None yet.
    pub fn new() -> Lanes {
        Lanes::default()
    }

    /// Adds a lane and the models that are shown its accesses.
    pub fn add(&mut self, lane: Lane, run: Run) {
        self.lanes.push((lane, run));
    }

    /// Shows every lane what is left of the trace, which is read ahead on a thread of its own. `go_on` is told how far it
    /// is after each chunk, and says whether to go on.
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
                let Chunk { pieces, read } = chunk?;
                self.read = Progress { requests: self.read.requests, ..read };
                self.feed(&pieces)?;
                // Nobody waits for it once all is read.
                let _ = back.send(pieces);
                if !go_on(&self.read) {
                    break;
                }
            }
            Ok(self.read)
        })
    }

    /// Shows every lane these pieces.
    pub fn feed(&mut self, pieces: &[Piece]) -> Result<()> {
        self.lanes.par_iter_mut().with_max_len(1).try_for_each(|(lane, run)| show(lane, run, pieces))?;
        self.read.requests = self.lanes.first().map_or(0, |(lane, _)| lane.requests());
        Ok(())
    }

    /// The curves of each lane, in the order of the lanes and of their models.
    pub fn curves(&self) -> Vec<Curve> {
        self.lanes.iter().flat_map(|(lane, run)| run.curves(lane.recordsize(), lane.records())).collect()
    }

    /// What was left out so far; of what only some recordsizes cannot hold, the most.
    pub fn skipped(&self) -> Skipped {
        let far = self.lanes.iter().map(|(lane, _)| lane.skipped()).max_by_key(|skipped| skipped.too_far);
        let mut skipped = self.read.skipped;
        skipped += far.unwrap_or_default();
        skipped
    }

    /// Bytes of memory of records, models and chunks now.
    pub fn memory(&self) -> usize {
        self.lanes.iter().map(|(lane, run)| lane.memory() + run.memory()).sum()
    }
}

fn show(lane: &mut Lane, run: &mut Run, pieces: &[Piece]) -> Result<()> {
    loop {
        let more = lane.cut(pieces)?;
        run.feed(lane.accesses(), lane.keys());
        if !more {
            return Ok(());
        }
    }
}

/// Reads to the end, or until nobody takes any more. A chunk that was used is filled again.
fn read_ahead(input: &mut dyn Input, to: &SyncSender<Result<Chunk>>, used: &Receiver<Vec<Piece>>) {
    loop {
        let mut pieces = used.try_recv().unwrap_or_default();
        let done = input.read(&mut pieces);
        let ended = pieces.is_empty();
        let read = Progress {
            share: input.progress(),
            requests: 0,
            skipped: input.skipped(),
            duration_ns: input.duration_ns(),
            ended,
        };
        let failed = done.is_err();
        if to.send(done.map(|()| Chunk { pieces, read })).is_err() || failed || ended {
            return;
        }
    }
}
