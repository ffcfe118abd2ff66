//! A sweep of many recordsizes gives the same curves as separate sweeps.

use crate::common::{event, extent, textbook};
use poolwright_mrc::input::{Skipped, Unit, live};
use poolwright_mrc::{Curve, Error, Extent, Input, Kind, Pipeline, RecordMap, Result, Sweep};

const SIZES: [u64; 3] = [64 << 10, 1 << 20, 16 << 20];

fn pipeline(recordsize: u64) -> Pipeline {
    textbook(RecordMap::records(recordsize).unwrap(), &SIZES)
}

/// A table of 8 MiB, read and written in pages of 8K in the order of a linear congruential generator.
fn extents() -> Vec<Extent> {
    let mut at = 1u64;
    let next = |n: u64| {
        at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let page = (at >> 33) % 1024 * ((at >> 50) % 1024) / 1024;
        let kind = if n.is_multiple_of(5) { Kind::Write } else { Kind::Read };
        Extent { kind, ..extent(n * 1_000_000, 0, page * 8192, 8192) }
    };
    (0..300_000).map(next).collect()
}

/// Yields the extents in chunks, and then fails if requested.
struct Made {
    left: std::vec::IntoIter<Extent>,
    fails: bool,
}

impl Input for Made {
    fn format(&self) -> &'static str {
        "made"
    }
    fn unit(&self) -> Unit {
        Unit::Bytes { recordsize: 512 }
    }
    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()> {
        extents.clear();
        extents.extend(self.left.by_ref().take(10_000));
        if self.fails && extents.is_empty() { Err(Error::Recordsize(7)) } else { Ok(()) }
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
    let mut sweep = Sweep::default();
    recordsizes.iter().for_each(|size| sweep.add(pipeline(*size)));
    let mut input = Made { left: extents().into_iter(), fails: false };
    let read = sweep.show(&mut input, |_| true).unwrap();
    assert!(read.ended && read.requests >= 300_000 && read.duration_ns == 9);
    assert_eq!(sweep.skipped().zero_length, 3);
    assert!(sweep.memory() > 0);
    sweep.curves()
}

#[test]
fn a_sweep_equals_separate_runs() {
    let sizes = [4096, 8192, 131_072];
    let together = curves(&sizes);
    let alone: Vec<Curve> = sizes.iter().flat_map(|size| curves(&[*size])).collect();
    assert_eq!(together, alone);
    assert_eq!(
        together.iter().map(|c| c.model.as_str()).collect::<Vec<_>>(),
        ["lru", "arc", "lru", "arc", "lru", "arc"]
    );
    // An 8K page is two records of 4K. A record of 128K is read before a part of it is written.
    assert_eq!(together[0].requests, 600_000);
    assert_eq!(together[2].requests, 300_000);
    assert_eq!(together[2].points[0].update_miss_ratio, 0.0);
    assert!(together[4].points[0].update_miss_ratio > 0.0);
}

#[test]
fn it_stops_on_request_and_fails_with_the_input() {
    let mut sweep = Sweep::default();
    sweep.add(pipeline(8192));
    let mut input = Made { left: extents().into_iter(), fails: true };
    let read = sweep.show(&mut input, |read| read.requests < 50_000).unwrap();
    assert_eq!((read.requests, read.ended), (50_000, false));
    assert!(sweep.show(&mut input, |_| true).is_err());
    assert!(sweep.curves()[0].requests > 50_000, "what was read before the error counts");
}

#[test]
fn a_live_recording_is_modelled_while_it_runs() {
    let mut sweep = Sweep::default();
    sweep.add(pipeline(8192));
    let (mut feed, mut input) = live(Default::default());
    let done = std::thread::scope(|scope| {
        let shown = scope.spawn(|| sweep.show(&mut input, |_| true));
        feed.file(&poolwright_trace::File { size: 8 << 20, ..Default::default() });
        for extent in extents() {
            let op = if extent.kind == Kind::Write {
                poolwright_trace::Op::Write
            } else {
                poolwright_trace::Op::Read
            };
            feed.event(event(extent.t_ns, op, 0, extent.offset, extent.len)).unwrap();
        }
        feed.end().unwrap();
        shown.join().unwrap().unwrap()
    });
    assert!(done.ended);
    assert_eq!(sweep.curves(), curves(&[8192]));
}
