//! Reads stretches of the files at a limited rate, and detects files that change in the meantime.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use crate::input::{self, Entry, Input, Skipped};

/// Limits the rate to a number of bytes per second.
#[derive(Debug)]
struct Rate {
    bytes_s: Option<u64>,
    free_at: Mutex<Instant>,
}

impl Rate {
    fn wait(&self, bytes: u64) {
        let Some(bytes_s) = self.bytes_s else { return };
        let until = {
            let mut free_at = self.free_at.lock().unwrap_or_else(|broken| broken.into_inner());
            let begin = (*free_at).max(Instant::now());
            *free_at = begin + Duration::from_secs_f64(bytes as f64 / bytes_s.max(1) as f64);
            begin
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    }
}

/// All files, shared by all threads.
pub(crate) struct Source<'a> {
    pub input: &'a Input,
    rate: Rate,
    changed: Vec<AtomicBool>,
    /// The files that could not be read any more. No figure includes them.
    lost: Vec<AtomicBool>,
    failed: Mutex<Vec<Skipped>>,
    read: AtomicU64,
}

impl<'a> Source<'a> {
    pub(crate) fn new(input: &'a Input, bytes_s: Option<u64>) -> Source<'a> {
        Source {
            input,
            rate: Rate { bytes_s, free_at: Mutex::new(Instant::now()) },
            changed: input.files.iter().map(|_| AtomicBool::new(false)).collect(),
            lost: input.files.iter().map(|_| AtomicBool::new(false)).collect(),
            failed: Mutex::default(),
            read: AtomicU64::new(0),
        }
    }

    /// Whether a file could not be read.
    pub(crate) fn is_lost(&self, file: usize) -> bool {
        self.lost[file].load(Ordering::SeqCst)
    }

    /// The files that have not been lost, with their numbers.
    pub(crate) fn files(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.input.files.iter().enumerate().filter(|(file, _)| !self.is_lost(*file))
    }

    /// The number of lost files.
    pub(crate) fn lost(&self) -> usize {
        self.lost.iter().filter(|lost| lost.load(Ordering::SeqCst)).count()
    }

    /// Loses the files whose names are gone, and returns the number of all lost files. A database removes temporary files in
    /// groups.
    pub(crate) fn lose_missing(&self) -> usize {
        let missing =
            self.files().filter_map(|(file, entry)| Some((file, std::fs::metadata(&entry.path).err()?)));
        for (file, why) in missing.collect::<Vec<_>>() {
            self.fail(file, &why);
        }
        self.lost()
    }

    /// The sum of the files' lengths, without lost files.
    pub(crate) fn logical_bytes(&self) -> u64 {
        self.files().map(|(_, file)| file.len).sum()
    }

    /// The bytes of data, without holes and lost files.
    pub(crate) fn data_bytes(&self) -> u64 {
        self.files().map(|(_, file)| file.data.bytes()).sum()
    }

    /// Opens a file. Returns `None`, and reports the file as skipped, if that is no longer possible.
    pub(crate) fn open(&self, file: usize) -> Option<File> {
        let entry = &self.input.files[file];
        input::open(&entry.path).map_err(|why| self.fail(file, &why)).ok()
    }

    fn fail(&self, file: usize, why: &std::io::Error) {
        self.lost[file].store(true, Ordering::SeqCst);
        let skipped = Skipped { path: self.input.files[file].path.clone(), why: why.to_string() };
        let mut failed = self.failed.lock().unwrap_or_else(|broken| broken.into_inner());
        if !failed.contains(&skipped) {
            failed.push(skipped);
        }
    }

    /// Asks the kernel to read these bytes ahead.
    pub(crate) fn announce(&self, open: &File, start: u64, len: u64) {
        if let Some(len) = NonZeroU64::new(len) {
            let _ = fadvise(open, start, Some(len), Advice::WillNeed);
        }
    }

    /// Fills `buf` from `start`. Bytes of holes and beyond the end of the file are zero. Returns false, and reports the file
    /// as skipped, if it cannot be read.
    pub(crate) fn read(&self, file: usize, open: &File, start: u64, buf: &mut [u8]) -> bool {
        let (mut filled, mut is_short) = (0, false);
        for range in self.input.files[file].data.within(start, start + buf.len() as u64) {
            let (from, to) = ((range.start - start) as usize, (range.end - start) as usize);
            buf[filled..from].fill(0);
            match self.read_data(open, range.start, &mut buf[from..to]) {
                Ok(n) => {
                    buf[from + n..to].fill(0);
                    is_short |= n < to - from;
                }
                Err(why) => {
                    self.fail(file, &why);
                    return false;
                }
            }
            filled = to;
        }
        buf[filled..].fill(0);
        if is_short || self.input.files[file].changed(open) {
            self.changed[file].store(true, Ordering::Relaxed);
        }
        true
    }

    /// Returns the number of bytes before the end of the file.
    fn read_data(&self, open: &File, start: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        self.rate.wait(buf.len() as u64);
        let mut done = 0;
        while done < buf.len() {
            match open.read_at(&mut buf[done..], start + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        self.read.fetch_add(done as u64, Ordering::Relaxed);
        Ok(done)
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(crate) fn changed(&self) -> u64 {
        self.changed.iter().filter(|c| c.load(Ordering::Relaxed)).count() as u64
    }

    /// Returns the files that could not be read, when they were listed or later.
    pub(crate) fn skipped(&self) -> Vec<Skipped> {
        let later = self.failed.lock().unwrap_or_else(|broken| broken.into_inner());
        self.input.skipped.iter().chain(later.iter()).cloned().collect()
    }
}

/// A page-aligned buffer, like the engine's own buffers: the result of lzjb depends on the address of a record modulo
/// 1K, because its table of earlier positions is initialized with zeros.
pub(crate) struct Pages {
    bytes: Vec<u8>,
    from: usize,
    len: usize,
}

const PAGE: usize = 4096;

impl Pages {
    pub(crate) fn new(len: usize) -> Pages {
        let bytes = vec![0; len + PAGE];
        let from = bytes.as_ptr().align_offset(PAGE);
        Pages { bytes, from, len }
    }
}

impl std::ops::Deref for Pages {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.from..self.from + self.len]
    }
}

impl std::ops::DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + self.len]
    }
}

/// Returns the order-0 entropy of a histogram in bits per byte.
pub(crate) fn entropy(histogram: &[u64; 256]) -> f64 {
    let total: u64 = histogram.iter().sum();
    let part = |n: &u64| -> f64 {
        let p = *n as f64 / total as f64;
        -p * p.log2()
    };
    if total == 0 { 0.0 } else { histogram.iter().filter(|n| **n > 0).map(part).sum::<f64>().max(0.0) }
}

/// Counts bytes, in four tables because successive increments of one counter depend on each other.
pub(crate) fn count(bytes: &[u8], into: &mut [u64; 256]) {
    let mut tables = [[0u32; 256]; 4];
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        for (table, byte) in tables.iter_mut().zip(chunk) {
            table[usize::from(*byte)] += 1;
        }
    }
    for byte in chunks.remainder() {
        tables[0][usize::from(*byte)] += 1;
    }
    for (i, n) in into.iter_mut().enumerate() {
        *n += tables.iter().map(|t| u64::from(t[i])).sum::<u64>();
    }
}
