//! The data that a trace touches, copied once from the real files, so that every trial fills its pool with the same
//! data while the database continues to run.
//!
//! On disk, a capture is a directory with `image` (extents one after another, each at a multiple of 4096) and
//! `index.json`. Data is taken in regions (1 MiB by default): if an operation touches any byte of a region, the capture
//! takes all of it, so that no record is padded with zeros. If the touched regions exceed the limit, regions of the
//! large roles are selected by a hash of file and position (SHARDS, Waldspurger et al., FAST 2015), and operations
//! elsewhere are left out; the cache must then be scaled by [`Capture::rate`]. Operations on logs are never left out:
//! beyond a log's share of the limit, they reuse data taken from that log before.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use poolwright_host::extents::next_data;
use poolwright_host::{memory, private, room};
use poolwright_trace::{Event, Trace};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::host;
use crate::{Error, Result, SourceFiles, Target};

mod alike;
mod begin;
mod holes;
mod image;
mod layout;
use alike::Alike;
use begin::initial_sizes;
use holes::Holes;
use image::{Image, made_up};

const ALIGN: u64 = 4096;
/// Small or sequential roles, whose operations are never sampled.
const WHOLE_ROLES: [&str; 3] = ["wal", "binlog", "temp"];

/// Whether all operations of a role are replayed, even in a sample.
pub fn is_whole(role: &str) -> bool {
    WHOLE_ROLES.contains(&role)
}

/// The input of [`Capture::take`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a region in bytes; at least the largest record that is tried.
    pub region: u64,
    /// The maximum number of bytes to take.
    pub max_bytes: u64,
    /// The seed for the selection of regions and for synthetic data.
    pub seed: u64,
    /// The roles whose files are taken; all roles if empty.
    pub roles: Vec<String>,
}

/// A contiguous range of captured bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The length in bytes.
    pub len: u64,
    /// The offset in the image, in bytes.
    pub at: u64,
    /// The number of bytes, from the start of the extent, that were read from the file. The rest is synthetic, because
    /// the file was shorter or had been removed.
    pub real: u64,
    /// Whether the extent reuses the image bytes of another extent of the same log.
    #[serde(default)]
    pub borrowed: bool,
}

/// The captured data of one file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CapturedFile {
    /// The length of the file in bytes at the begin of the replay, as far as the trace shows it: when the recording began,
    /// unless [`Capture::begin_at`] sets a later time.
    pub initial_size: u64,
    /// Whether the file existed at the begin of the replay.
    pub initial: bool,
    /// The captured extents, sorted by offset.
    pub extents: Vec<Extent>,
    /// The holes of the file: when it was captured, and after [`Capture::begin_at`] at the begin of the replay.
    #[serde(default)]
    holes: Holes,
}

impl CapturedFile {
    /// Returns the captured ranges that contain data at the begin of the replay, in order: begin and end (exclusive), in
    /// bytes.
    fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let data = |e: &Extent| self.holes.data(e.offset, (e.offset + e.len).min(self.initial_size));
        self.extents.iter().flat_map(data)
    }
}

/// A capture, with its data in memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Capture {
    /// The captured data, by the trace's file number; empty for files without operations.
    pub files: Vec<CapturedFile>,
    /// The roles, by the trace's file number.
    pub roles: Vec<String>,
    /// Whether operations on the file are replayed at all, by the trace's file number.
    pub taken: Vec<bool>,
    /// The share of regions taken, 0 to 1, of the roles that are sampled.
    pub rate: f64,
    /// The size of a region in bytes.
    pub region: u64,
    /// The seed of [`Options`].
    pub seed: u64,
    /// Bytes of the image that were read from the files.
    pub real_bytes: u64,
    /// Synthetic bytes of the image.
    pub synthetic_bytes: u64,
    #[serde(skip)]
    image: Image,
}

fn mix(seed: u64, file: u32, region: u64) -> f64 {
    let mut x = seed ^ (u64::from(file) << 40) ^ region.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Capture {
    /// Captures the data that `trace` touches, from `source`.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace has no read or write on the wanted files, if the sample would be empty, if the
    /// logs are too large, or if the image does not fit into memory. Files that cannot be read get synthetic data.
    pub fn take(trace: &Trace, options: &Options, source: &SourceFiles) -> Result<Capture> {
        let roles: Vec<String> = trace.files.iter().map(|f| f.role.clone()).collect();
        let wanted = |role: &String| options.roles.is_empty() || options.roles.contains(role);
        let mut capture = Capture {
            files: vec![CapturedFile::default(); trace.files.len()],
            taken: roles.iter().map(wanted).collect(),
            roles,
            rate: 1.0,
            region: options.region,
            seed: options.seed,
            real_bytes: 0,
            synthetic_bytes: 0,
            image: Image::default(),
        };
        let len = capture.lay_out(trace, options.max_bytes)?;
        if len == 0 {
            return Err(Error::Nothing(
                "the trace has no read or write on the wanted files: nothing to replay".into(),
            ));
        }
        capture.image = Image::new(len as usize);
        for (file, initial) in initial_sizes(trace).into_iter().enumerate() {
            (capture.files[file].initial, capture.files[file].initial_size) = initial;
        }
        capture.read_files(trace, source);
        capture.make_up_the_rest(trace, source);
        Ok(capture)
    }

    /// Whether a replay of this capture includes the event.
    pub fn keeps(&self, event: &Event) -> bool {
        let file = event.file as usize;
        self.taken[file]
            && (self.rate >= 1.0
                || !event.moves_bytes()
                || is_whole(&self.roles[file])
                || mix(self.seed, event.file, event.offset / self.region) < self.rate)
    }

    fn read_files(&mut self, trace: &Trace, source: &SourceFiles) {
        for (number, file) in self.files.iter_mut().enumerate() {
            if file.extents.is_empty() {
                continue;
            }
            let Some(source) = source.open(&trace.files[number]) else { continue };
            let len = source.metadata().map_or(0, |meta| meta.len());
            for extent in file.extents.iter_mut().filter(|extent| !extent.borrowed) {
                let into = self.image.slice_mut(extent.at, extent.len);
                while extent.real < extent.len {
                    let at = extent.offset + extent.real;
                    let end = (extent.offset + extent.len).min(len).max(at);
                    // The bytes of a hole, which the image has already, are as real as those of data.
                    let (start, to) = next_data(&source, at, end).ok().flatten().unwrap_or((end, end));
                    file.holes.add(at, start);
                    extent.real += start - at;
                    if start == to {
                        break;
                    }
                    let part = &mut into[extent.real as usize..][..(to - start) as usize];
                    match source.read_at(part, start) {
                        Ok(0) | Err(_) => break,
                        Ok(n) => extent.real += n as u64,
                    }
                }
                self.real_bytes += extent.real;
            }
        }
    }

    /// Fills the extents that could not be read. Data of a removed file is taken from a similar file in the same
    /// directory ([`Alike`]), otherwise from captured data of the same role, in pieces of up to 64K, so that it
    /// compresses similarly. If nothing of that role was captured, it is taken from the whole capture, or generated as
    /// numbered lines of text.
    fn make_up_the_rest(&mut self, trace: &Trace, source: &SourceFiles) {
        let mut alike = Alike::default();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let pool = |files: &[CapturedFile], roles: &[String], role: Option<&str>| -> Vec<(u64, u64)> {
            let of = files.iter().zip(roles).filter(|(_, r)| role.is_none_or(|role| role == r.as_str()));
            of.flat_map(|(f, _)| f.extents.iter().filter(|e| e.real > 0).map(|e| (e.at, e.real))).collect()
        };
        for number in 0..self.files.len() {
            let mut sources = pool(&self.files, &self.roles, Some(&self.roles[number]));
            if sources.is_empty() {
                sources = pool(&self.files, &self.roles, None);
            }
            let extents = self.files[number].extents.clone();
            let size = extents.last().map_or(0, |e| e.offset + e.len);
            let is_gone = extents.iter().any(|e| !e.borrowed) && extents.iter().all(|e| e.real == 0);
            let stand_in =
                is_gone.then(|| alike.stand_in(&source.locate(&trace.files[number]), size, number)).flatten();
            for extent in extents {
                if let Some(stand_in) = stand_in.as_ref().filter(|_| !extent.borrowed)
                    && stand_in.read(self.image.slice_mut(extent.at, extent.len), extent.offset)
                {
                    self.synthetic_bytes += extent.len;
                    continue;
                }
                let mut done = if extent.borrowed { extent.len } else { extent.real };
                while done < extent.len {
                    let piece = made_up(&mut rng, &sources, &self.image, (extent.len - done).min(65536));
                    let n = piece.len() as u64;
                    self.image.slice_mut(extent.at + done, n).copy_from_slice(&piece);
                    done += n;
                }
                self.synthetic_bytes += extent.len - extent.real;
            }
        }
    }

    /// Returns the captured data of a file at `offset`, at most `len` bytes, and the number of these bytes that are
    /// real. Returns an empty slice if that place was not captured.
    pub fn bytes(&self, file: u32, offset: u64, len: u64) -> (&[u8], u64) {
        let extents = &self.files[file as usize].extents;
        let i = extents.partition_point(|e| e.offset + e.len <= offset);
        match extents.get(i) {
            Some(e) if e.offset <= offset => {
                let inside = offset - e.offset;
                let n = len.min(e.len - inside);
                (self.image.slice(e.at + inside, n), e.real.saturating_sub(inside).min(n))
            }
            _ => (&[], 0),
        }
    }

    /// Writes each file as it was at the begin of the replay, in file order. Returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// Returns an error if the target fails, and [`Error::Interrupted`] if `stop` returns true.
    pub fn fill(&self, target: &dyn Target, stop: &dyn Fn() -> bool) -> Result<u64> {
        const PIECE: u64 = 1 << 20;
        let mut written = 0;
        for (number, file) in self.files.iter().enumerate() {
            let number = number as u32;
            if !self.taken[number as usize] || !file.initial || file.extents.is_empty() {
                continue;
            }
            target.create(number)?;
            for (mut at, end) in file.filled() {
                while at < end {
                    if stop() {
                        return Err(Error::Interrupted);
                    }
                    let (bytes, _) = self.bytes(number, at, PIECE.min(end - at));
                    target.write(number, at, bytes, false, false)?;
                    at += bytes.len() as u64;
                    written += bytes.len() as u64;
                }
            }
            target.truncate(number, file.initial_size)?;
        }
        target.settle()?;
        Ok(written)
    }

    /// Returns the free space in bytes that a scratch directory needs: for the image, for a pool and its
    /// copies-on-write, and `more`.
    pub fn room(&self, more: u64) -> u64 {
        self.image_bytes().saturating_add(self.pool_bytes().saturating_mul(2)).saturating_add(more)
    }

    /// Returns the maximum number of bytes of file data in a trial's pool.
    pub fn pool_bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.extents).map(|extent| extent.len).sum()
    }

    /// Returns the size of the image in bytes.
    pub fn image_bytes(&self) -> u64 {
        self.image.all().len() as u64
    }

    /// Writes the capture to a directory.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory has too little free space or cannot be written.
    pub fn save(&self, dir: &Path) -> Result<()> {
        private::make_dirs(dir).map_err(host("create", dir))?;
        check_room(dir, self.image_bytes() + (16 << 20))?;
        let image = dir.join("image");
        let mut out = private::create(&image).map_err(host("create", &image))?;
        out.write_all(self.image.all()).map_err(host("write", &image))?;
        let index = dir.join("index.json");
        let text = serde_json::to_vec(self).expect("a capture has no map keys that JSON lacks");
        private::write(&index, &text).map_err(host("write", &index))
    }

    /// Reads a capture from a directory.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, if the index is invalid, or if the image does not fit into memory.
    pub fn load(dir: &Path) -> Result<Capture> {
        let index = dir.join("index.json");
        let text = fs::read(&index).map_err(host("read", &index))?;
        let malformed = |why: String| Error::Malformed { what: "capture index", path: index.clone(), why };
        let mut capture: Capture = serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?;
        let path = dir.join("image");
        let file = fs::File::open(&path).map_err(host("open", &path))?;
        let len = file.metadata().map_err(host("inspect", &path))?.len();
        let end = |e: &Extent| e.at.saturating_add(e.len);
        let needed = capture.files.iter().flat_map(|f| &f.extents).map(end).max().unwrap_or(0);
        layout::check_memory(len, memory::available())?;
        if len < needed {
            return Err(malformed(format!("the image has {len} bytes, but the index refers to {needed}")));
        }
        capture.image = Image::new(len as usize);
        file.read_exact_at(capture.image.slice_mut(0, len), 0).map_err(host("read", &path))?;
        Ok(capture)
    }
}

/// Checks the free space of a file system. A file system in memory (tmpfs) has at most as much as the available memory.
///
/// # Errors
///
/// Returns an error if the file system of `dir` has less than `needed` bytes free.
pub fn check_room(dir: &Path, needed: u64) -> Result<()> {
    let free = room::available(dir).map_err(host("inspect", dir))?;
    if free < needed { Err(Error::NoRoom { path: dir.to_owned(), free, needed }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
