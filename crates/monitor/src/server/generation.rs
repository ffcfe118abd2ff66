//! The readings of one refresh, and the bodies of answers that are made from them while they are sent.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http_body::Frame;

use super::api::JsonPieces;
use crate::exposition::{TextFormat, TextPieces};
use crate::{Readings, SourceReadings};

/// The number of generations that slow clients may keep in memory. The answers from an older one are cut off.
const KEPT: usize = 4;

/// The kinds of answers.
#[derive(Clone, Copy, Debug)]
pub enum AnswerKind {
    /// Metrics as text.
    Text(TextFormat),
    /// The readings as JSON.
    Json,
    /// The alerts as JSON.
    Alerts,
}

/// The readings of one refresh.
#[derive(Debug)]
pub struct Generation {
    sources: Vec<SourceReadings>,
    /// The metrics of the sources and of the exporter itself.
    own: Arc<Readings>,
    /// The alerts as JSON.
    alerts: String,
    /// Set when too many newer generations are in use.
    is_cut: AtomicBool,
}

impl Generation {
    /// The readings of the sources and of the exporter, and the alerts as JSON.
    pub fn new(sources: Vec<SourceReadings>, own: Readings, alerts: String) -> Generation {
        Generation { sources, own: Arc::new(own), alerts, is_cut: AtomicBool::new(false) }
    }

    /// An answer, made while the client reads it.
    pub fn body(self: &Arc<Generation>, kind: AnswerKind) -> Body {
        let pieces: Box<dyn Iterator<Item = String> + Send> = match kind {
            AnswerKind::Text(format) => {
                let read = self.sources.iter().filter_map(|source| source.readings.clone());
                Box::new(TextPieces::new(read.chain([Arc::clone(&self.own)]).collect(), format))
            }
            AnswerKind::Json => Box::new(JsonPieces::new(&self.sources)),
            AnswerKind::Alerts => return Body::from(self.alerts.clone()),
        };
        Body::new(PieceBody { pieces, generation: Arc::clone(self) })
    }
}

/// The generations that are in use.
#[derive(Debug, Default)]
pub struct Generations(Vec<Weak<Generation>>);

impl Generations {
    /// Adds a generation, and cuts off the answers of the oldest if there are too many.
    pub fn add(&mut self, generation: &Arc<Generation>) {
        self.0.retain(|known| known.strong_count() > 0);
        let surplus = (self.0.len() + 1).saturating_sub(KEPT);
        for old in self.0.drain(..surplus).filter_map(|old| old.upgrade()) {
            old.is_cut.store(true, Ordering::Relaxed);
        }
        self.0.push(Arc::downgrade(generation));
    }
}

/// A body whose pieces are made when the connection has sent the previous ones.
struct PieceBody {
    pieces: Box<dyn Iterator<Item = String> + Send>,
    generation: Arc<Generation>,
}

/// The client reads so slowly that its answer would use too much memory.
#[derive(Debug, thiserror::Error)]
#[error("the client reads too slowly")]
struct TooSlow;

impl http_body::Body for PieceBody {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        if self.generation.is_cut.load(Ordering::Relaxed) {
            return Poll::Ready(Some(Err(TooSlow)));
        }
        Poll::Ready(self.pieces.next().map(|piece| Ok(Frame::data(Bytes::from(piece)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_old_generations_are_cut_off() {
        let mut generations = Generations::default();
        let held: Vec<Arc<Generation>> = (0..6)
            .map(|_| {
                let generation = Arc::new(Generation::new(Vec::new(), Readings::default(), String::new()));
                generations.add(&generation);
                generation
            })
            .collect();
        let cut: Vec<bool> = held.iter().map(|of| of.is_cut.load(Ordering::Relaxed)).collect();
        assert_eq!(cut, [true, true, false, false, false, false]);
        drop(held);
        let last = Arc::new(Generation::new(Vec::new(), Readings::default(), String::new()));
        generations.add(&last);
        assert_eq!(generations.0.len(), 1);
    }
}
