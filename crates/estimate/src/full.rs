//! Runs every codec on all data, on all cores.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use poolwright_openzfs::Engine;

use crate::indirect::KnownRecords;
use crate::input::{Entry, Input};
use crate::measurement::Measurement;
use crate::options::{Grid, Options};
use crate::record::{CodecRunner, Packed, Speed, ZEROS, block_len};
use crate::result::{self, Ended, Method, Progress, Space};
use crate::source::{self, Pages, Source};
use crate::{Error, Result};

/// The minimum number of bytes that a thread processes at once: a stretch.
const STRETCH: u64 = 1 << 20;
/// The number of records per pair that are kept for the model of indirect blocks.
pub(crate) const KEEP: usize = 4096;
/// One stretch in this many contributes to the entropy.
const ENTROPY_ONE_IN: usize = 16;

/// The sums of all threads.
#[derive(Default)]
pub(crate) struct Sums {
    /// Allocated bytes of each cell.
    pub asize: Vec<u64>,
    /// Codec speeds of each pair.
    pub speed: Vec<Speed>,
    /// Compressed lengths of the kept records of each pair, by stretch.
    pub packed: Vec<BTreeMap<usize, Vec<Packed>>>,
    pub histogram: Vec<u64>,
    /// The number of stretches before each file, and in total.
    pub before: Vec<usize>,
    pub done: u64,
    /// Bytes of files that could no longer be read.
    pub lost: u64,
}

struct Work<'a> {
    source: &'a Source<'a>,
    grid: &'a Grid,
    engine: Engine,
    stretch: u64,
    /// The number of stretches before each file, and in total.
    before: Vec<usize>,
    next: AtomicUsize,
    stop: AtomicBool,
    done: AtomicU64,
    sums: Mutex<Sums>,
    /// For each recordsize: one stretch in this many provides records for the model of indirect blocks.
    keep_one_in: Vec<u64>,
    ahead: u64,
}

/// The lengths of records under `off`.
fn uncompressed(records: &[u8], recordsize: u64) -> Vec<Packed> {
    let one = |record: &[u8]| match record.iter().all(|byte| *byte == 0) {
        true => ZEROS,
        false => recordsize as Packed,
    };
    records.chunks(recordsize as usize).map(one).collect()
}

/// Returns the exact space under compression `off`: that of every record that was ever written.
pub(crate) fn off(input: &Input, grid: &Grid, r: usize, g: usize) -> u64 {
    let recordsize = grid.recordsizes[r];
    let geometry = &grid.geometries[g].1;
    let of_file = |file: &crate::input::Entry| {
        file.written_records(recordsize) * geometry.asize(block_len(file.len, recordsize))
    };
    input.files.iter().map(of_file).sum()
}

/// Returns the spaces of all cells, computed only for those without a codec.
pub(crate) fn off_spaces(input: &Input, grid: &Grid) -> Vec<Option<Space>> {
    let mut out = vec![None; grid.cells()];
    for r in 0..grid.recordsizes.len() {
        for c in (0..grid.codecs.len()).filter(|c| grid.is_off(*c)) {
            for g in 0..grid.geometries.len() {
                out[grid.pair(r, c) * grid.geometries.len() + g] = Some(Space::exact(off(input, grid, r, g)));
            }
        }
    }
    out
}

/// The result of [`run`]: the sums, and whether it completed.
pub(crate) fn run(
    engine: Engine,
    source: &Source<'_>,
    grid: &Grid,
    options: &Options,
    began: Instant,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<(Sums, bool)> {
    let stretch = grid.max_recordsize().max(STRETCH);
    let mut before = vec![0];
    for file in &source.input.files {
        before.push(before[before.len() - 1] + file.len.div_ceil(stretch) as usize);
    }
    let logical = source.input.logical_bytes();
    let threads = options.threads();
    let keep = |r: &u64| (logical / r / KEEP as u64).max(1);
    let work = Work {
        source,
        grid,
        engine,
        stretch,
        before,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        sums: Mutex::new(Sums {
            asize: vec![0; grid.cells()],
            speed: vec![Speed::default(); grid.pairs()],
            packed: vec![BTreeMap::new(); grid.pairs()],
            histogram: vec![0; 256],
            ..Sums::default()
        }),
        keep_one_in: grid.recordsizes.iter().map(keep).collect(),
        ahead: threads as u64,
    };
    let off = off_spaces(source.input, grid);
    let whole = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.thread())).collect();
        while !threads.iter().all(|t| t.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if options.cancelled() {
                work.stop.store(true, Ordering::Relaxed);
            }
            report(&work, grid, logical, &off, began, progress);
        }
        threads
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    whole?;
    let ended = !work.stop.load(Ordering::Relaxed);
    let mut sums = work.sums.into_inner().unwrap_or_else(|broken| broken.into_inner());
    sums.before = work.before;
    if sums.done == 0 {
        return Err(Error::Interrupted);
    }
    Ok((sums, ended))
}

fn report(
    work: &Work<'_>,
    grid: &Grid,
    logical: u64,
    off: &[Option<Space>],
    began: Instant,
    progress: &mut dyn FnMut(&Progress<'_>),
) {
    let cells = {
        let sums = work.sums.lock().unwrap_or_else(|broken| broken.into_inner());
        if sums.done == 0 {
            Vec::new()
        } else {
            result::cells(grid, logical, &sums.spaces(off, logical), &sums.speed)
        }
    };
    progress(&Progress {
        read_bytes: work.done.load(Ordering::Relaxed),
        logical_bytes: logical,
        method: Method::Full,
        achieved: f64::INFINITY,
        seconds: began.elapsed().as_secs_f64(),
        cells: &cells,
    });
}

impl Sums {
    /// Converts the sums to the result that a sample also has.
    pub(crate) fn found(
        self,
        off: &[Option<Space>],
        input: &Input,
        logical: u64,
        whole: bool,
    ) -> Measurement {
        let before = &self.before;
        let file_of = |i: usize| before.partition_point(|b| *b <= i) - 1;
        // The model of indirect blocks counts the written records of a sparse file. Its holes have no pointers.
        let of_model = |(i, kept): (&usize, &Vec<Packed>)| -> Vec<Packed> {
            let sparse = input.files[file_of(*i)].sparse;
            kept.iter().copied().filter(|n| *n > 0 || !sparse).collect()
        };
        let of_files = |stretches: &BTreeMap<usize, Vec<Packed>>| {
            let mut files: BTreeMap<usize, (usize, Vec<Packed>)> = BTreeMap::new();
            for (i, kept) in stretches {
                let (count, all) = files.entry(file_of(*i)).or_default();
                *count += 1;
                all.extend(kept);
            }
            let is_whole = |file: &usize, count: usize| count == before[file + 1] - before[*file];
            files.retain(|file, (count, _)| is_whole(file, *count));
            files.into_iter().map(|(file, (_, all))| (file, all)).collect()
        };
        let known = |kept: &BTreeMap<usize, Vec<Packed>>| KnownRecords {
            some: kept.iter().flat_map(of_model).collect(),
            files: of_files(kept),
        };
        Measurement {
            spaces: self.spaces(off, logical),
            records: self.packed.iter().map(known).collect(),
            speed: self.speed,
            histogram: self.histogram.try_into().unwrap_or([0; 256]),
            places: 0,
            ended: if whole { Ended::Done } else { Ended::Interrupted },
        }
    }

    /// Returns exact spaces if all `logical` bytes are done; otherwise extrapolates from the part that is done.
    pub(crate) fn spaces(&self, off: &[Option<Space>], logical: u64) -> Vec<Space> {
        let one = |(asize, off): (&u64, &Option<Space>)| {
            if let Some(off) = off {
                return *off;
            }
            if self.done == logical {
                return Space::exact(*asize);
            }
            // The part that is done has no guaranteed relation to the rest.
            let allocated = *asize as f64 * logical as f64 / self.done.max(1) as f64;
            Space { allocated, low: 0.0, high: f64::INFINITY, draws: 0 }
        };
        self.asize.iter().zip(off).map(one).collect()
    }
}

impl Work<'_> {
    fn thread(&self) -> Result<()> {
        let mut codecs = CodecRunner::new(self.engine, self.grid);
        let mut buf = Pages::new(self.stretch as usize);
        let mut open: Option<(usize, File)> = None;
        let count = self.before[self.before.len() - 1];
        let result = loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= count || self.stop.load(Ordering::Relaxed) {
                break Ok(());
            }
            if let Err(error) = self.stretch(i, &mut codecs, &mut buf, &mut open) {
                self.stop.store(true, Ordering::Relaxed);
                break Err(error);
            }
        };
        let mut sums = self.sums.lock().unwrap_or_else(|broken| broken.into_inner());
        sums.speed.iter_mut().zip(&codecs.speed).for_each(|(sum, own)| sum.add(own));
        result
    }

    fn stretch(
        &self,
        i: usize,
        codecs: &mut CodecRunner,
        buf: &mut [u8],
        open: &mut Option<(usize, File)>,
    ) -> Result<()> {
        let file = self.before.partition_point(|b| *b <= i) - 1;
        let start = (i - self.before[file]) as u64 * self.stretch;
        let len = (self.source.input.files[file].len - start).min(self.stretch) as usize;
        if open.as_ref().is_none_or(|(of, _)| *of != file) {
            *open = self.source.open(file).map(|handle| (file, handle));
        }
        let found = match open {
            Some((_, handle)) => {
                self.source.announce(handle, start + self.stretch * self.ahead, self.stretch);
                buf[len..].fill(0);
                self.source.read(file, handle, start, &mut buf[..len])
            }
            None => false,
        };
        if !found {
            self.sums.lock().unwrap_or_else(|broken| broken.into_inner()).lost += len as u64;
            return Ok(());
        }
        self.compress(i, file, codecs, buf, len)
    }

    fn compress(
        &self,
        i: usize,
        file: usize,
        codecs: &mut CodecRunner,
        buf: &[u8],
        len: usize,
    ) -> Result<()> {
        let grid = self.grid;
        let geometries = grid.geometries.len();
        let &Entry { len: file_len, sparse, .. } = &self.source.input.files[file];
        let mut asize = vec![0; grid.cells()];
        let mut packed: Vec<(usize, Vec<Packed>)> = Vec::new();
        for (r, recordsize) in grid.recordsizes.iter().copied().enumerate() {
            let keep = (i as u64).is_multiple_of(self.keep_one_in[r]);
            for c in 0..grid.codecs.len() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let pair = grid.pair(r, c);
                if grid.is_off(c) {
                    // Only for the indirect blocks. The holes of a sparse file have no pointers.
                    if keep && !sparse {
                        packed.push((pair, uncompressed(&buf[..len], recordsize)));
                    }
                    continue;
                }
                let cells = &mut asize[pair * geometries..(pair + 1) * geometries];
                let mut kept = Vec::new();
                codecs.run((r, recordsize), c, buf, len, file_len, cells, |n| {
                    if keep {
                        kept.push(n);
                    }
                })?;
                if keep {
                    packed.push((pair, kept));
                }
            }
        }
        let mut histogram = [0; 256];
        if i.is_multiple_of(ENTROPY_ONE_IN) {
            source::count(&buf[..len], &mut histogram);
        }
        let mut sums = self.sums.lock().unwrap_or_else(|broken| broken.into_inner());
        sums.asize.iter_mut().zip(&asize).for_each(|(sum, own)| *sum += own);
        sums.histogram.iter_mut().zip(&histogram).for_each(|(sum, own)| *sum += own);
        for (pair, kept) in packed {
            sums.packed[pair].insert(i, kept);
        }
        sums.done += len as u64;
        self.done.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    }
}
