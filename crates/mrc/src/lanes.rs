//! Many recordsizes in one reading of a trace: for each a lane and its models, or a sample.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::prelude::*;

use crate::input::Skipped;
use crate::{Curve, Input, Lane, Piece, Result, Run, Sampled};

/// Chunks that are read ahead of the models.
const AHEAD: usize = 2;

/// Lanes with their models, to be shown one trace.
#[derive(Default)]
pub struct Lanes {
    lanes: Vec<Way>,
    read: Progress,
}

/// One recordsize's way from pieces to curves.
enum Way {
    /// Every record is looked at.
    All(Lane, Run),
    /// Some are.
    Some(Sampled),
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
        self.lanes.push(Way::All(lane, run));
    }

    /// Adds a recordsize of which a sample is looked at.
    pub fn sample(&mut self, sampled: Sampled) {
        self.lanes.push(Way::Some(sampled));
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
            self.lanes.par_iter_mut().try_for_each(Way::flush)?;
            Ok(self.read)
        })
    }

    fn feed(&mut self, pieces: &[Piece]) -> Result<()> {
        self.lanes.par_iter_mut().with_max_len(1).try_for_each(|way| way.feed(pieces))?;
        self.read.requests = self.lanes.first().map_or(0, Way::requests);
        Ok(())
    }

    /// The curves of each lane, in the order of the lanes and of their models.
    pub fn curves(&self) -> Vec<Curve> {
        self.lanes.iter().flat_map(Way::curves).collect()
    }

    /// What was left out so far; of what only some recordsizes cannot hold, the most.
    pub fn skipped(&self) -> Skipped {
        let far = self.lanes.iter().map(Way::skipped).max_by_key(|skipped| skipped.too_far);
        let mut skipped = self.read.skipped;
        skipped += far.unwrap_or_default();
        skipped
    }

    /// Bytes of memory of records, models and chunks now.
    pub fn memory(&self) -> usize {
        self.lanes.iter().map(Way::memory).sum()
    }
}

impl Way {
    fn feed(&mut self, pieces: &[Piece]) -> Result<()> {
        let (lane, run) = match self {
            Way::Some(sampled) => return sampled.feed(pieces),
            Way::All(lane, run) => (lane, run),
        };
        loop {
            let more = lane.cut(pieces)?;
            run.feed(lane.accesses(), lane.keys());
            if !more {
                return Ok(());
            }
        }
    }

    /// At the end of the trace.
    fn flush(&mut self) -> Result<()> {
        match self {
            Way::All(..) => Ok(()),
            Way::Some(sampled) => sampled.flush(),
        }
    }

    fn requests(&self) -> u64 {
        match self {
            Way::All(lane, _) => lane.requests(),
            Way::Some(sampled) => sampled.requests(),
        }
    }

    fn curves(&self) -> Vec<Curve> {
        match self {
            Way::All(lane, run) => run.curves(lane.recordsize(), lane.records()),
            Way::Some(sampled) => sampled.curves(),
        }
    }

    fn skipped(&self) -> Skipped {
        match self {
            Way::All(lane, _) => lane.skipped(),
            Way::Some(sampled) => sampled.skipped(),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Way::All(lane, run) => lane.memory() + run.memory(),
            Way::Some(sampled) => sampled.memory(),
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
