//! Many recordsizes in one reading are what each of them is alone.

mod common;

use common::piece;
use poolwright_mrc::input::{Skipped, Unit, live};
use poolwright_mrc::{Curve, Error, Input, Kind, Lane, Lanes, Lru, Piece, Result, Run, arc};

const SIZES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];

fn lane(recordsize: u64) -> (Lane, Run) {
    let mut run = Run::new();
    run.add("lru", vec![Box::new(Lru::new(&SIZES))]);
    run.add("arc", SIZES.iter().map(|size| Box::new(arc::Arc::new(*size)) as _).collect());
    (Lane::new(Unit::Bytes { recordsize: 512 }, Some(recordsize)).unwrap(), run)
}

/// A table of 8 MiB, read and written in pages of 8K in no order, by steps of a linear congruential generator.
fn pieces() -> Vec<Piece> {
    let mut at = 1u64;
    let next = |n: u64| {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let page = (at >> 33) % 1024 * ((at >> 50) % 1024) / 1024;
        let kind = if n.is_multiple_of(5) { Kind::Write } else { Kind::Read };
        Piece { kind, ..piece(n * 1_000_000, 0, page * 8192, 8192) }
    };
    (0..300_000).map(next).collect()
}

/// Hands the pieces over in chunks, and fails after them if it is to.
struct Made {
    left: std::vec::IntoIter<Piece>,
    fails: bool,
}

impl Input for Made {
    fn format(&self) -> &'static str {
        "made"
    }
    fn unit(&self) -> Unit {
        Unit::Bytes { recordsize: 512 }
    }
    fn read(&mut self, pieces: &mut Vec<Piece>) -> Result<()> {
        pieces.clear();
        pieces.extend(self.left.by_ref().take(10_000));
        if self.fails && pieces.is_empty() { Err(Error::Recordsize(7)) } else { Ok(()) }
    }
    fn skipped(&self) -> Skipped {
        Skipped { zero_length: 3, ..Skipped::default() }
    }
    fn duration_ns(&self) -> u64 {
        9
    }
    fn progress(&self) -> Option<f64> {
        None
    }
}

fn curves(recordsizes: &[u64]) -> Vec<Curve> {
    let mut lanes = Lanes::new();
    recordsizes.iter().for_each(|size| {
        let (lane, run) = lane(*size);
        lanes.add(lane, run);
    });
    let mut input = Made { left: pieces().into_iter(), fails: false };
    let read = lanes.show(&mut input, |_| true).unwrap();
    assert!(read.ended && read.requests >= 300_000 && read.duration_ns == 9);
    assert_eq!(lanes.skipped().zero_length, 3);
    assert!(lanes.memory() > 0);
    lanes.curves()
}

#[test]
fn together_is_as_alone() {
    let sizes = [4096, 8192, 131_072];
    let together = curves(&sizes);
    let alone: Vec<Curve> = sizes.iter().flat_map(|size| curves(&[*size])).collect();
    assert_eq!(together, alone);
    assert_eq!(
        together.iter().map(|c| c.model.as_str()).collect::<Vec<_>>(),
        ["lru", "arc", "lru", "arc", "lru", "arc"]
    );
    // An 8K page is two records of 4K; one of 128K is read to write a part of it.
    assert_eq!(together[0].requests, 600_000);
    assert_eq!(together[2].requests, 300_000);
    assert_eq!(together[2].points[0].update_miss_ratio, 0.0);
    assert!(together[4].points[0].update_miss_ratio > 0.0);
}

#[test]
fn it_stops_when_it_is_told_to_and_fails_with_the_input() {
    let (lane_, run) = lane(8192);
    let mut lanes = Lanes::new();
    lanes.add(lane_, run);
    let mut input = Made { left: pieces().into_iter(), fails: true };
    let read = lanes.show(&mut input, |read| read.requests < 50_000).unwrap();
    assert_eq!((read.requests, read.ended), (50_000, false));
    assert!(lanes.show(&mut input, |_| true).is_err());
    assert!(lanes.curves()[0].requests > 50_000, "what was read before the error counts");
}

#[test]
fn a_live_recording_is_shown_while_it_runs() {
    let (lane_, run) = lane(8192);
    let mut lanes = Lanes::new();
    lanes.add(lane_, run);
    let (mut feed, mut input) = live(Default::default());
    let done = std::thread::scope(|scope| {
        let shown = scope.spawn(|| lanes.show(&mut input, |_| true));
        feed.file(&poolwright_trace::File { size: 8 << 20, ..Default::default() });
        for piece in pieces() {
            let op = if piece.kind == Kind::Write {
                poolwright_trace::Op::Write
            } else {
                poolwright_trace::Op::Read
            };
            feed.event(common::event(piece.t_ns, op, 0, piece.offset, piece.len)).unwrap();
        }
        feed.end().unwrap();
        shown.join().unwrap().unwrap()
    });
    assert!(done.ended);
    assert_eq!(lanes.curves(), curves(&[8192]));
}
