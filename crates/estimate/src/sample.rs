//! Samples offsets with probability proportional to bytes, pass by pass, until the intervals are narrow enough.
//!
//! The data of all files lies end to end on a line, without holes and rounded up to 4K. A pass divides the line into equal
//! parts and draws one point in each, so that every pass covers the whole input. No pass is larger than half of all previous
//! passes together. Around a point, each recordsize has its window: the record at the point, or the surrounding 64K if records
//! are smaller. `asize` of the window divided by its length on the line is then an unbiased estimate of the ratio of
//! the whole (Hansen and Hurwitz, 1943), for every setting at the same points.
//!
//! The costs of codecs differ by a factor of a hundred, and a 1M record costs 16 times a 64K window. Therefore, each
//! pair of recordsize and codec runs at only one of 2ⁿ points, and is linked by regression to something that runs at
//! more of them: other recordsizes to the codec's own 64K records, a slow codec to a faster one, and all of them to the
//! covariates, which are measured on 64K at every point: the compressed length under lz4, and the entropy.
//! [`crate::statistics`] computes the intervals.

use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use poolwright_openzfs::codec::Codec;
use poolwright_openzfs::{Compression, Engine, Geometry};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::concatenation::Concatenation;
use crate::draws::Draws;
use crate::full;
use crate::indirect::KnownRecords;
use crate::measurement::{Measurement, PointShares};
use crate::options::{Grid, Options, nominal_speed};
use crate::record::{CodecRunner, Packed, Speed, Stretch};
use crate::result::{self, Cell, Ended, Method, Progress, Space};
use crate::source::{self, Pages, Source};
use crate::{Error, Result};

/// The number of points of the first pass; every pass is a multiple of it. A pair that runs at one point in [`RAREST`]
/// then still has an even number of points.
const POINTS: usize = 2 * RAREST;
/// Each pair runs at least at one point in this many.
const RAREST: usize = 64;
/// The number of points between two checks of the time.
const BATCH: usize = 32;
/// The minimum window in bytes, and the data on which covariates are measured.
pub(crate) const WINDOW: u64 = 64 << 10;
/// The unit of the line in bytes. Otherwise, the tail of a tiny file could get more weight than its share.
const LINE_UNIT: u64 = 4 << 10;
/// The nominal speed of measuring the covariates of 64K, and of reading, in MiB/s.
const SCOUT_SPEED: f64 = 150.0;
const READ_SPEED: f64 = 600.0;

/// A drawn point. Its file is open, and readahead of its bytes has been requested.
struct SamplePoint {
    /// The pairs that run at one point in this many, or at more, run here.
    rank: usize,
    file: usize,
    offset: u64,
    open: File,
}

struct Worker {
    codecs: CodecRunner,
    scout: Codec,
    buf: Pages,
}

struct Sampler<'a> {
    source: &'a Source<'a>,
    grid: &'a Grid,
    options: &'a Options,
    line: Concatenation,
    rng: ChaCha8Rng,
    deadline: Option<Instant>,
    /// For each pair, n if it runs at one of n points.
    every: Vec<usize>,
}

/// Returns n, where the pair of this codec and record size runs at one of n points. The best n grows with the square root of the cost,
/// and with how well something cheaper predicts the pair: a codec's record of one window runs wherever it is
/// affordable, and explains three quarters of the variance of the same codec with other recordsizes.
fn every(recordsize: u64, codec: &str) -> usize {
    let window = recordsize.max(WINDOW) as f64 / WINDOW as f64;
    let cost = window * (1.0 / nominal_speed(codec) + 1.0 / READ_SPEED) * SCOUT_SPEED;
    let told = if recordsize == WINDOW { 1.0 } else { 4.0 };
    1 << ((cost.sqrt() * told).log2().round().clamp(0.0, f64::from(RAREST.ilog2())) as u32)
}

/// Returns the seconds that a codec takes in the first pass of a sample with these record sizes, on one core, by its nominal speed. A
/// sample takes at least so long; a small input is estimated in full instead.
pub fn first_pass_s(recordsizes: &[u64], codec: &str) -> f64 {
    let points = |recordsize| (POINTS / every(recordsize, codec)) as f64;
    let bytes: f64 = recordsizes.iter().map(|r| points(*r) * (*r).max(WINDOW) as f64).sum();
    bytes / f64::from(1 << 20) / nominal_speed(codec)
}

/// Returns the number of points of the next pass: those that seem to be missing, but at most half of those so far,
/// because the number is an estimate.
fn next_pass(points: usize, cells: &[Cell], within: f64) -> usize {
    let achieved = cells.iter().map(Cell::error).fold(0.0, f64::max);
    let missing = points as f64 * ((achieved / within).powi(2) * 1.05 - 1.0);
    (missing.min(points as f64 / 2.0) as usize).next_multiple_of(POINTS).max(POINTS)
}

/// Draws until all intervals are narrow enough or a limit is reached.
pub(crate) fn run(
    engine: Engine,
    source: &Source<'_>,
    grid: &Grid,
    options: &Options,
    began: Instant,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Outcome> {
    let mut every_pair = vec![1; grid.pairs()];
    for r in 0..grid.recordsizes.len() {
        for c in 0..grid.codecs.len() {
            every_pair[grid.pair(r, c)] = every(grid.recordsizes[r], grid.codecs[c].name());
        }
    }
    let mut sampler = Sampler {
        source,
        grid,
        options,
        line: Concatenation::new(source, LINE_UNIT),
        rng: ChaCha8Rng::seed_from_u64(options.seed),
        deadline: options.time_limit.map(|limit| began + limit),
        every: every_pair,
    };
    let lz4 = Compression::parse("lz4")?;
    let space = grid.max_recordsize().max(WINDOW) as usize;
    let worker = |_| Worker {
        codecs: CodecRunner::new(engine, grid),
        scout: Codec::new(engine, &lz4, WINDOW as usize),
        buf: Pages::new(space),
    };
    let mut workers: Vec<Worker> = (0..options.threads()).map(worker).collect();
    sampler.passes(&mut workers, began, progress)
}

/// The outcome of a sample: figures, or the decision that a full estimate is cheaper.
pub(crate) enum Outcome {
    Measurement(Box<Measurement>),
    TakeAll,
}

impl Sampler<'_> {
    fn passes(
        &mut self,
        workers: &mut [Worker],
        began: Instant,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<Outcome> {
        let mut draws = self.no_draws();
        let mut off = full::off_spaces(self.source, self.grid);
        let mut kept = (vec![Vec::new(); self.grid.pairs()], [0u64; 256]);
        let mut cells: Vec<Cell> = Vec::new();
        let mut spaces: Vec<Space> = Vec::new();
        let mut lost = 0;
        let ended = loop {
            let points = next_pass(draws.points(), &cells, self.options.within);
            let wanted = self.wanted(&cells);
            let mut report = |own: &Self| progress(&own.progress(began, &cells));
            let pass = self.pass(workers, points, &wanted, !cells.is_empty(), &mut report)?;
            if self.source.lost() > lost {
                // Some files are gone, or cannot be read. Begin again with the others, which keeps every pass a sample of all.
                lost = self.source.lose_missing();
                self.line = Concatenation::new(self.source, LINE_UNIT);
                if self.line.len() == 0 {
                    return Err(self.source.input.nothing(&self.source.skipped()));
                }
                off = full::off_spaces(self.source, self.grid);
                draws = self.no_draws();
                kept = (vec![Vec::new(); self.grid.pairs()], [0; 256]);
                (cells, spaces) = (Vec::new(), Vec::new());
                continue;
            }
            let Some(pass) = pass else {
                break if self.options.cancelled() { Ended::Interrupted } else { Ended::Limit };
            };
            keep(&pass, &mut kept);
            draws.push(pass);
            spaces = draws.spaces(self.grid, &off, self.line.len());
            cells = result::cells(self.grid, self.source.logical_bytes(), &spaces, &speeds(workers));
            progress(&self.progress(began, &cells));
            let achieved = cells.iter().map(Cell::error).fold(0.0, f64::max);
            if achieved <= self.options.within {
                break Ended::Done;
            }
            if self.options.byte_limit.is_some_and(|b| self.source.bytes_read() >= b) {
                break Ended::Limit;
            }
            if self.all_is_cheaper(&cells, achieved, began) {
                return Ok(Outcome::TakeAll);
            }
        };
        if cells.is_empty() {
            return Err(Error::Interrupted);
        }
        let (packed, histogram) = kept;
        let records =
            packed.into_iter().map(|some| KnownRecords { some, ..KnownRecords::default() }).collect();
        let places = draws.points() as u64;
        let speed = speeds(workers);
        Ok(Outcome::Measurement(Box::new(Measurement { spaces, speed, records, histogram, places, ended })))
    }

    fn no_draws(&self) -> Draws {
        // An incompressible record takes its block. Where holes part the data, records contain more than the data.
        let most = |r: usize, g: usize| {
            let (block, geometry) = (self.grid.recordsizes[r], &self.grid.geometries[g].1);
            let of_all = full::off(self.source, self.grid, r, g) as f64 / self.line.len().max(1) as f64;
            of_all.max(geometry.asize(block) as f64 / block as f64)
        };
        let geometries = 0..self.grid.geometries.len();
        let of_pair = |pair: usize| geometries.clone().map(move |g| most(pair / self.grid.codecs.len(), g));
        Draws::new(self.grid, self.every.clone(), (0..self.grid.pairs()).flat_map(of_pair).collect())
    }

    /// Whether reading and compressing everything would take less time than the missing draws, and is within the
    /// limits. Without a limit of time, the answer must not depend on the speed of this machine, and is no.
    fn all_is_cheaper(&self, cells: &[Cell], achieved: f64, began: Instant) -> bool {
        let (options, data) = (self.options, self.source.data_bytes());
        let Some(limit) = options.time_limit else { return false };
        if options.exact_below == 0 || options.byte_limit.is_some_and(|b| b < data) {
            return false;
        }
        let codecs: f64 = cells
            .iter()
            .step_by(self.grid.geometries.len())
            .filter_map(|c| c.compress_mib_s)
            .map(|speed| data as f64 / (1 << 20) as f64 / speed / options.threads() as f64)
            .sum();
        let reading = options.rate.map_or(0.0, |rate| data as f64 / rate as f64);
        let all = codecs.max(reading);
        let spent = began.elapsed().as_secs_f64();
        let missing = spent * ((achieved / options.within).powi(2) - 1.0);
        all < missing.min(limit.as_secs_f64() - spent)
    }

    /// Runs one pass. Returns `None` if it was interrupted, or if a file can no longer be read.
    fn pass(
        &mut self,
        workers: &mut [Worker],
        points: usize,
        wanted: &[bool],
        may_stop: bool,
        report: &mut dyn FnMut(&Self),
    ) -> Result<Option<Vec<PointShares>>> {
        let ranks = ranks(points, &mut self.rng);
        let drawn: Vec<u64> = (0..points).map(|i| self.point(i, points)).collect();
        let mut out = Vec::with_capacity(points);
        let Some(mut next) = self.open(&drawn, &ranks, 0, wanted) else { return Ok(None) };
        for at in (0..points).step_by(BATCH) {
            let Some(after) = self.open(&drawn, &ranks, at + BATCH, wanted) else { return Ok(None) };
            let places = std::mem::replace(&mut next, after);
            let Some(seen) = self.look(workers, &places, wanted, may_stop)? else { return Ok(None) };
            out.extend(seen);
            report(self);
        }
        Ok(Some(out))
    }

    /// Draws a point in the `i`th of `points` equal parts of the line.
    fn point(&mut self, i: usize, points: usize) -> u64 {
        let cut = |i: usize| (u128::from(self.line.len()) * i as u128 / points as u128) as u64;
        let (low, high) = (cut(i), cut(i + 1));
        self.rng.random_range(low..high.max(low + 1))
    }

    /// Opens the files of a batch and requests readahead of their bytes. Returns `None` if a file can no longer be opened.
    fn open(&self, drawn: &[u64], ranks: &[usize], at: usize, wanted: &[bool]) -> Option<Vec<SamplePoint>> {
        let mut out = Vec::new();
        for i in at..drawn.len().min(at + BATCH) {
            let (file, offset) = self.line.locate(drawn[i]);
            let point = SamplePoint { rank: ranks[i], file, offset, open: self.source.open(file)? };
            let size = self.widest(wanted, point.rank);
            if self.options.rate.is_none() {
                self.source.announce(&point.open, point.offset / size * size, size);
            }
            out.push(point);
        }
        Some(out)
    }

    fn progress<'c>(&self, began: Instant, cells: &'c [Cell]) -> Progress<'c> {
        let widest = cells.iter().map(Cell::error).fold(0.0, f64::max);
        Progress {
            read_bytes: self.source.bytes_read(),
            data_bytes: self.source.data_bytes(),
            method: Method::Sampled,
            achieved: if cells.is_empty() { f64::INFINITY } else { widest },
            seconds: began.elapsed().as_secs_f64(),
            cells,
        }
    }

    /// Returns the pairs that still run: those whose interval is too wide, and the more frequent ones of the same
    /// recordsize or codec as a pair that runs. Thus, everything to which a pair may be linked has run at all points of
    /// the pair.
    fn wanted(&self, cells: &[Cell]) -> Vec<bool> {
        let (geometries, codecs) = (self.grid.geometries.len(), self.grid.codecs.len());
        let error = |c: &Cell| c.error() > 0.8 * self.options.within;
        let wide = |pair: usize| {
            cells.is_empty() || cells[pair * geometries..(pair + 1) * geometries].iter().any(error)
        };
        let carries = |pair: usize, other: usize| {
            self.every[pair] < self.every[other]
                && (pair / codecs == other / codecs || pair % codecs == other % codecs)
        };
        let mut rarest_first: Vec<usize> =
            (0..self.grid.pairs()).filter(|p| !self.grid.is_off(p % codecs)).collect();
        rarest_first.sort_by_key(|pair| std::cmp::Reverse(self.every[*pair]));
        let mut wanted = vec![false; self.grid.pairs()];
        for &pair in &rarest_first {
            wanted[pair] =
                wide(pair) || rarest_first.iter().any(|other| wanted[*other] && carries(pair, *other));
        }
        wanted
    }

    /// Measures a batch of points on all threads. Returns `None` if it was interrupted, or if a file can no longer be read.
    fn look(
        &self,
        workers: &mut [Worker],
        places: &[SamplePoint],
        wanted: &[bool],
        may_stop: bool,
    ) -> Result<Option<Vec<PointShares>>> {
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let late = || {
            let late = may_stop && self.deadline.is_some_and(|d| Instant::now() >= d);
            if late || self.options.cancelled() {
                stop.store(true, Ordering::Relaxed);
            }
            stop.load(Ordering::Relaxed)
        };
        let thread = |worker: &mut Worker| -> Result<Vec<(usize, PointShares)>> {
            let mut out = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= places.len() || late() {
                    return Ok(out);
                }
                match self.place(worker, &places[i], wanted, &late) {
                    Ok(Some(seen)) => out.push((i, seen)),
                    Ok(None) => return Ok(out),
                    Err(error) => {
                        stop.store(true, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
        };
        let mut seen = Vec::new();
        std::thread::scope(|scope| {
            let thread = &thread;
            let handles: Vec<_> = workers.iter_mut().map(|w| scope.spawn(move || thread(w))).collect();
            for handle in handles {
                seen.extend(handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
            }
            Ok::<(), Error>(())
        })?;
        seen.sort_by_key(|(i, _)| *i);
        Ok((seen.len() == places.len()).then(|| seen.into_iter().map(|(_, s)| s).collect()))
    }

    fn runs(&self, pair: usize, wanted: &[bool], rank: usize) -> bool {
        wanted[pair] && self.every[pair] <= rank
    }

    /// Returns the largest window in bytes that a point of this rank needs.
    fn widest(&self, wanted: &[bool], rank: usize) -> u64 {
        let sizes = self.grid.recordsizes.iter().enumerate();
        let of = |(r, size): (usize, &u64)| {
            (0..self.grid.codecs.len())
                .any(|c| self.runs(self.grid.pair(r, c), wanted, rank))
                .then_some(*size)
        };
        sizes.filter_map(of).max().unwrap_or(0).max(WINDOW)
    }

    /// Measures the covariates of a point and runs the selected pairs on it. Returns `None` if it is late, or if the file can no
    /// longer be read.
    fn place(
        &self,
        worker: &mut Worker,
        point: &SamplePoint,
        wanted: &[bool],
        late: &dyn Fn() -> bool,
    ) -> Result<Option<PointShares>> {
        let file = &self.source.input.files[point.file];
        let size = self.widest(wanted, point.rank);
        let (base, len, _) = self.line.window(point.file, file.len, point.offset, size);
        let buf = &mut worker.buf[..size as usize];
        buf[len as usize..].fill(0);
        if !self.source.read(point.file, &point.open, base, &mut buf[..len as usize]) {
            return Ok(None);
        }
        let (at, n, _) = self.line.window(point.file, file.len, point.offset, WINDOW);
        let data = file.data.within(at, at + n).map(|range| range.end - range.start).sum::<u64>();
        let at = (at - base) as usize;
        let bytes = &buf[at..at + n.next_multiple_of(512) as usize];
        let mut seen = scout(&mut worker.scout, point.file, bytes, n - data)?;
        for (r, recordsize) in self.grid.recordsizes.iter().copied().enumerate() {
            if recordsize > size {
                continue; // not wanted; only the bytes of the widest wanted window have been read
            }
            let (start, len, on_line) =
                self.line.window(point.file, file.len, point.offset, recordsize.max(WINDOW));
            let bytes = &worker.buf[(start - base) as usize..size as usize];
            let stretch = Stretch { file, start, bytes, len: len as usize };
            for c in
                (0..self.grid.codecs.len()).filter(|c| self.runs(self.grid.pair(r, *c), wanted, point.rank))
            {
                if late() {
                    return Ok(None);
                }
                let mut asize = vec![0; self.grid.geometries.len()];
                let mut packed = Vec::new();
                worker.codecs.run((r, recordsize), c, stretch, &mut asize, |_, n| packed.push(n))?;
                let pair = self.grid.pair(r, c);
                seen.shares.push((pair, asize.iter().map(|a| *a as f64 / on_line as f64).collect()));
                seen.packed.push((pair, packed));
            }
        }
        Ok(Some(seen))
    }
}

/// Returns the rank of each point. Of any 2ⁿ consecutive points that start at a multiple of 2ⁿ, exactly one, each with
/// the same probability, has a rank of at least 2ⁿ. The points of each rank are therefore also a stratified sample,
/// within those of the lower ranks.
fn ranks(points: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
    let mut ranks = vec![1; points];
    let mut chosen: Vec<usize> = (0..points).collect();
    let mut rank = 2;
    while rank <= RAREST {
        chosen = chosen.chunks(2).map(|pair| pair[rng.random_range(0..pair.len())]).collect();
        chosen.iter().for_each(|i| ranks[*i] = rank);
        rank *= 2;
    }
    ranks
}

/// Measures the covariates: the compressed length under lz4 and the entropy, both as fractions. `holes` is the number of bytes
/// that belong to holes.
fn scout(codec: &mut Codec, file: usize, bytes: &[u8], holes: u64) -> Result<PointShares> {
    let mut histogram = [0; 256];
    source::count(bytes, &mut histogram);
    histogram[0] -= holes;
    codec.store(bytes, &Geometry::plain(9))?;
    let entropy = source::entropy(&histogram) / 8.0;
    let packed = match codec.compressed().len() {
        0 if entropy == 0.0 => 0.0,
        0 => 1.0,
        n => (n as f64 / (bytes.len() as u64 - holes) as f64).min(1.0),
    };
    Ok(PointShares { file, scout: [packed, entropy], shares: Vec::new(), packed: Vec::new(), histogram })
}

fn keep(seen: &[PointShares], kept: &mut (Vec<Vec<Packed>>, [u64; 256])) {
    for one in seen {
        kept.1.iter_mut().zip(&one.histogram).for_each(|(sum, own)| *sum += own);
        for (pair, packed) in &one.packed {
            if kept.0[*pair].len() < full::KEEP {
                kept.0[*pair].extend(packed);
            }
        }
    }
}

fn speeds(workers: &[Worker]) -> Vec<Speed> {
    let mut sum = workers[0].codecs.speed.clone();
    for worker in &workers[1..] {
        sum.iter_mut().zip(&worker.codecs.speed).for_each(|(sum, own)| sum.add(own));
    }
    sum
}
