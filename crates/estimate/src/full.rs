//! Runs every codec on all data, on all cores.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use poolwright_openzfs::Engine;

use crate::concatenation::Concatenation;
use crate::indirect::{KnownRecords, LowestBlocks};
use crate::input::Entry;
use crate::measurement::Measurement;
use crate::options::{Grid, Options};
use crate::record::{CodecRunner, Packed, Speed, Stretch, ZEROS, block_len};
use crate::result::{self, Ended, Method, Progress, Space};
use crate::source::{self, Pages, Source};
use crate::{Error, Result};

/// The minimum number of bytes that a thread processes at once: a stretch.
const STRETCH: u64 = 1 << 20;
/// The number of records per pair that are kept for the model of indirect blocks.
pub(crate) const KEEP: usize = 4096;
/// One stretch in this many contributes to the entropy.
const ENTROPY_ONE_IN: usize = 16;

/// The numbers and compressed lengths of records, in the order of the file.
type Records = Vec<(u64, Packed)>;

/// The sums of all threads.
#[derive(Default)]
pub(crate) struct Sums {
    /// Of the files that are done.
    of_files: StretchSums,
    /// Of the others, by file. What was summed for a file is dropped if the rest of it cannot be read.
    of_begun: BTreeMap<usize, BegunFile>,
    /// Codec speeds of each pair.
    speed: Vec<Speed>,
    /// The kept records of each pair, by stretch.
    packed: Vec<BTreeMap<usize, Records>>,
    histogram: Vec<u64>,
}

/// The sums of some stretches.
#[derive(Default)]
struct StretchSums {
    /// Allocated bytes of each cell.
    asize: Vec<u64>,
    /// Bytes of data.
    data: u64,
}

impl StretchSums {
    fn add(&mut self, more: &StretchSums) {
        self.asize.resize(more.asize.len(), 0);
        self.asize.iter_mut().zip(&more.asize).for_each(|(sum, own)| *sum += own);
        self.data += more.data;
    }
}

/// A file of which some stretches are done.
struct BegunFile {
    sums: StretchSums,
    /// The number of stretches that are not.
    left: u64,
}

struct Work<'a> {
    source: &'a Source<'a>,
    grid: &'a Grid,
    engine: Engine,
    stretch: u64,
    /// All stretches that contain data.
    line: Concatenation,
    next: AtomicUsize,
    stop: AtomicBool,
    done: AtomicU64,
    sums: Mutex<Sums>,
    /// For each recordsize: one stretch in this many provides records for the model of indirect blocks.
    keep_one_in: Vec<u64>,
    ahead: u64,
}

/// The lengths of records under `off`.
fn uncompressed(stretch: Stretch<'_>, recordsize: u64) -> Records {
    let one = |(number, record): (u64, &[u8])| match record.iter().all(|byte| *byte == 0) {
        true => (number, ZEROS),
        false => (number, recordsize as Packed),
    };
    stretch.records(recordsize).map(one).collect()
}

/// Returns the exact space under compression `off`: that of every record that contains data.
pub(crate) fn off(source: &Source<'_>, grid: &Grid, r: usize, g: usize) -> u64 {
    let recordsize = grid.recordsizes[r];
    let geometry = &grid.geometries[g].1;
    let of_file = |(_, file): (usize, &Entry)| {
        file.written_records(recordsize) * geometry.asize(block_len(file.len, recordsize))
    };
    source.files().map(of_file).sum()
}

/// Returns the spaces of all cells, computed only for those without a codec.
pub(crate) fn off_spaces(source: &Source<'_>, grid: &Grid) -> Vec<Option<Space>> {
    let mut out = vec![None; grid.cells()];
    for r in 0..grid.recordsizes.len() {
        for c in (0..grid.codecs.len()).filter(|c| grid.is_off(*c)) {
            for g in 0..grid.geometries.len() {
                out[grid.pair(r, c) * grid.geometries.len() + g] =
                    Some(Space::exact(off(source, grid, r, g)));
            }
        }
    }
    out
}

/// Reads all data and compresses it.
pub(crate) fn run(
    engine: Engine,
    source: &Source<'_>,
    grid: &Grid,
    options: &Options,
    began: Instant,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<Measurement> {
    let stretch = grid.max_recordsize().max(STRETCH);
    let line = Concatenation::new(source, stretch);
    let data = source.data_bytes();
    let threads = options.threads();
    let keep = |r: &u64| (data / r / KEEP as u64).max(1);
    let work = Work {
        source,
        grid,
        engine,
        stretch,
        line,
        next: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        done: AtomicU64::new(0),
        sums: Mutex::new(Sums {
            of_files: StretchSums { asize: vec![0; grid.cells()], data: 0 },
            speed: vec![Speed::default(); grid.pairs()],
            packed: vec![BTreeMap::new(); grid.pairs()],
            histogram: vec![0; 256],
            ..Sums::default()
        }),
        keep_one_in: grid.recordsizes.iter().map(keep).collect(),
        ahead: threads as u64,
    };
    let off = off_spaces(source, grid);
    let whole = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.thread())).collect();
        while !threads.iter().all(|t| t.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if options.cancelled() {
                work.stop.store(true, Ordering::Relaxed);
            }
            report(&work, &off, began, progress);
        }
        threads
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    whole?;
    let ended = !work.stop.load(Ordering::Relaxed);
    let sums = work.sums.into_inner().unwrap_or_else(|broken| broken.into_inner());
    if !ended && sums.data_done() == 0 {
        return Err(Error::Interrupted);
    }
    if source.files().next().is_none() {
        return Err(source.input.nothing(&source.skipped()));
    }
    let spaces = sums.spaces(&off_spaces(source, grid), source.data_bytes());
    Ok(sums.found(&work.line, source, spaces, ended))
}

fn report(work: &Work<'_>, off: &[Option<Space>], began: Instant, progress: &mut dyn FnMut(&Progress<'_>)) {
    let (logical, data) = (work.source.logical_bytes(), work.source.data_bytes());
    let cells = {
        let sums = work.sums.lock().unwrap_or_else(|broken| broken.into_inner());
        if sums.data_done() == 0 {
            Vec::new()
        } else {
            result::cells(work.grid, logical, &sums.spaces(off, data), &sums.speed)
        }
    };
    progress(&Progress {
        read_bytes: work.done.load(Ordering::Relaxed),
        data_bytes: data,
        method: Method::Full,
        achieved: f64::INFINITY,
        seconds: began.elapsed().as_secs_f64(),
        cells: &cells,
    });
}

impl Sums {
    fn data_done(&self) -> u64 {
        self.of_files.data + self.of_begun.values().map(|file| file.sums.data).sum::<u64>()
    }

    /// Converts the sums to the result that a sample also has.
    fn found(
        self,
        line: &Concatenation,
        source: &Source<'_>,
        spaces: Vec<Space>,
        whole: bool,
    ) -> Measurement {
        let stretch = line.unit();
        let file_of = |i: usize| line.locate(i as u64 * stretch).0;
        let known = |kept: &BTreeMap<usize, Records>| {
            let mut found = KnownRecords::default();
            let mut stretches: BTreeMap<usize, u64> = BTreeMap::new();
            for (i, records) in kept {
                let file = file_of(*i);
                if source.is_lost(file) {
                    continue;
                }
                *stretches.entry(file).or_default() += stretch;
                found.some.extend(records.iter().map(|(_, packed)| *packed));
                let blocks: &mut LowestBlocks = found.files.entry(file).or_default();
                records.iter().for_each(|(number, packed)| blocks.push(*number, *packed));
            }
            found.files.retain(|file, _| stretches[file] == line.len_of(*file));
            found
        };
        Measurement {
            spaces,
            records: self.packed.iter().map(known).collect(),
            speed: self.speed,
            histogram: self.histogram.try_into().unwrap_or([0; 256]),
            places: 0,
            ended: if whole { Ended::Done } else { Ended::Interrupted },
        }
    }

    /// Returns exact spaces if all `data` bytes are done; otherwise extrapolates from the part that is done.
    fn spaces(&self, off: &[Option<Space>], data: u64) -> Vec<Space> {
        let done = self.data_done();
        let mut asize = self.of_files.asize.clone();
        for file in self.of_begun.values() {
            asize.iter_mut().zip(&file.sums.asize).for_each(|(sum, own)| *sum += own);
        }
        let one = |(asize, off): (&u64, &Option<Space>)| {
            if let Some(off) = off {
                return *off;
            }
            if done == data {
                return Space::exact(*asize);
            }
            // The part that is done has no guaranteed relation to the rest.
            let allocated = *asize as f64 * data as f64 / done.max(1) as f64;
            Space { allocated, low: 0.0, high: f64::INFINITY, draws: 0 }
        };
        asize.iter().zip(off).map(one).collect()
    }

    /// Adds a stretch of a file that consists of `stretches`.
    fn add(&mut self, file: usize, stretches: u64, sums: &StretchSums) {
        let begun = self.of_begun.entry(file);
        let begun = begun.or_insert_with(|| BegunFile { sums: StretchSums::default(), left: stretches });
        begun.sums.add(sums);
        begun.left -= 1;
        if begun.left == 0
            && let Some(done) = self.of_begun.remove(&file)
        {
            self.of_files.add(&done.sums);
        }
    }
}

impl Work<'_> {
    fn thread(&self) -> Result<()> {
        let mut codecs = CodecRunner::new(self.engine, self.grid);
        let mut buf = Pages::new(self.stretch as usize);
        let mut open: Option<(usize, File)> = None;
        let count = (self.line.len() / self.stretch) as usize;
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
        let (file, start) = self.line.locate(i as u64 * self.stretch);
        if self.source.is_lost(file) {
            return Ok(());
        }
        let entry = &self.source.input.files[file];
        let len = (entry.len - start).min(self.stretch) as usize;
        if open.as_ref().is_none_or(|(of, _)| *of != file) {
            *open = self.source.open(file).map(|handle| (file, handle));
        }
        let is_read = open.as_ref().is_some_and(|(_, handle)| {
            self.announce(i, file, handle);
            buf[len..].fill(0);
            self.source.read(file, handle, start, &mut buf[..len])
        });
        if !is_read {
            // What was summed for the file is dropped.
            self.sums.lock().unwrap_or_else(|broken| broken.into_inner()).of_begun.remove(&file);
            return Ok(());
        }
        self.compress(i, file, codecs, Stretch { file: entry, start, bytes: buf, len })
    }

    /// Asks the kernel to read the stretch of the file that this thread will probably take next.
    fn announce(&self, i: usize, file: usize, handle: &File) {
        let next = (i as u64 + self.ahead) * self.stretch;
        if next < self.line.len() {
            let (of, start) = self.line.locate(next);
            if of == file {
                self.source.announce(handle, start, self.stretch);
            }
        }
    }

    fn compress(&self, i: usize, file: usize, codecs: &mut CodecRunner, stretch: Stretch<'_>) -> Result<()> {
        let grid = self.grid;
        let geometries = grid.geometries.len();
        let data: u64 = stretch
            .file
            .data
            .within(stretch.start, stretch.start + stretch.len as u64)
            .map(|r| r.end - r.start)
            .sum();
        let mut own = StretchSums { asize: vec![0; grid.cells()], data };
        let mut packed: Vec<(usize, Records)> = Vec::new();
        for (r, recordsize) in grid.recordsizes.iter().copied().enumerate() {
            let keep = (i as u64).is_multiple_of(self.keep_one_in[r]);
            for c in 0..grid.codecs.len() {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let pair = grid.pair(r, c);
                if grid.is_off(c) {
                    // Only for the indirect blocks.
                    if keep {
                        packed.push((pair, uncompressed(stretch, recordsize)));
                    }
                    continue;
                }
                let cells = &mut own.asize[pair * geometries..(pair + 1) * geometries];
                let mut kept = Vec::new();
                codecs.run((r, recordsize), c, stretch, cells, |number, n| {
                    if keep {
                        kept.push((number, n));
                    }
                })?;
                if keep {
                    packed.push((pair, kept));
                }
            }
        }
        let mut histogram = [0; 256];
        if i.is_multiple_of(ENTROPY_ONE_IN) {
            source::count(&stretch.bytes[..stretch.len], &mut histogram);
            histogram[0] -= stretch.len as u64 - data;
        }
        let mut sums = self.sums.lock().unwrap_or_else(|broken| broken.into_inner());
        if self.source.is_lost(file) {
            return Ok(());
        }
        sums.add(file, self.line.len_of(file) / self.stretch, &own);
        sums.histogram.iter_mut().zip(&histogram).for_each(|(sum, own)| *sum += own);
        for (pair, kept) in packed {
            sums.packed[pair].insert(i, kept);
        }
        self.done.fetch_add(data, Ordering::Relaxed);
        Ok(())
    }
}
