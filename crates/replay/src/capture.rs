//! The data that a trace touches, copied once from the real files, so that every trial fills its pool with the same
//! data while the database continues to run.
//!
//! A capture is a directory with `image` (extents one after another, each at a multiple of 4096) and `index.json`. Data is taken in regions
//! (1 MiB by default): if an operation touches any byte of a region, the capture takes all of it, so that no record is padded with zeros.
//! If the touched regions exceed the limit, regions of the large roles are selected by a hash of file and position (SHARDS, Waldspurger et
//! al., FAST 2015), and operations elsewhere are left out; the cache must then be scaled by [`Capture::rate`]. Operations on logs are never
//! left out: beyond a log's share of the limit, they reuse data taken from that log before.

use std::fs;
use std::os::unix::fs::{FileExt, FileTypeExt as _};
use std::path::Path;

use poolwright_base::extents::next_data;
use poolwright_base::{private, regular, room};
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Trace};
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
use alike::{Alike, StandIn};
use begin::initial_sizes;
use holes::Holes;
use image::{Image, made_up};

const IMAGE: &str = "image";
const INDEX: &str = "index.json";
const ALIGN: u64 = 4096;
/// The size of the pieces in which data is copied, in bytes.
const PIECE: u64 = 1 << 20;
/// Space that a trial needs besides the image and twice the pool's data, in bytes.
const SPARE: u64 = 256 << 20;
/// Small or sequential roles, whose operations are never sampled.
const WHOLE_ROLES: [Role; 3] = [Role::Wal, Role::Binlog, Role::Temp];

/// Whether all operations of a role are replayed, even in a sample.
pub fn is_whole(role: Role) -> bool {
    WHOLE_ROLES.contains(&role)
}

/// The input of [`Capture::take`].
#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a region in bytes; at least the largest record that is tried.
    pub region: u64,
    /// The maximum number of bytes to take.
    pub max_bytes: u64,
    /// The number of trials that run at the same time and need a pool each.
    pub side_by_side: usize,
    /// The seed for the selection of regions and for synthetic data.
    pub seed: u64,
    /// The roles whose files are taken; all roles if empty.
    pub roles: Vec<Role>,
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
    /// The length of the file in bytes at the start of the replay, as far as the trace shows: when the recording began,
    /// unless [`Capture::begin_at`] sets a later time.
    pub initial_size: u64,
    /// Whether the file existed at the start of the replay.
    pub initial: bool,
    /// The captured extents, sorted by offset.
    pub extents: Vec<Extent>,
    /// The holes of the file: when it was captured, and after [`Capture::begin_at`] at the start of the replay.
    #[serde(default)]
    holes: Holes,
}

impl CapturedFile {
    /// Returns the captured ranges that contain data at the start of the replay, in order: start and end (exclusive), in
    /// bytes.
    fn filled(&self) -> impl Iterator<Item = (u64, u64)> {
        let data = |e: &Extent| self.holes.data(e.offset, (e.offset + e.len).min(self.initial_size));
        self.extents.iter().flat_map(data)
    }
}

/// A capture, with its data in a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Capture {
    /// The captured data, by the trace's file number; empty for files without operations.
    pub files: Vec<CapturedFile>,
    /// The roles, by the trace's file number.
    pub roles: Vec<Role>,
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
    fn empty(trace: &Trace, options: &Options) -> Capture {
        let roles: Vec<Role> = trace.files.iter().map(File::known_role).collect();
        let wanted = |role: &Role| options.roles.is_empty() || options.roles.contains(role);
        Capture {
            files: vec![CapturedFile::default(); trace.files.len()],
            taken: roles.iter().map(wanted).collect(),
            roles,
            rate: 1.0,
            region: options.region,
            seed: options.seed,
            real_bytes: 0,
            synthetic_bytes: 0,
            image: Image::default(),
        }
    }

    /// Captures the data that `trace` touches, from `source`, into the new directory `dir`.
    ///
    /// # Errors
    ///
    /// Returns an error if the trace has no read or write on the wanted files, if the sample would be empty, if the
    /// logs are too large, if `dir` has too little free space for the image and a trial's pool, or if it cannot be
    /// written. Files that cannot be read get synthetic data.
    pub fn take(trace: &Trace, options: &Options, source: &SourceFiles, dir: &Path) -> Result<Capture> {
        let mut capture = Capture::empty(trace, options);
        let len = capture.lay_out(trace, options.max_bytes)?;
        if len == 0 {
            return Err(Error::Nothing(
                "the trace has no read or write on the wanted files: nothing to replay".into(),
            ));
        }
        private::make_dirs(dir).map_err(host("create", dir))?;
        check_room(dir, room_for(len, capture.pool_bytes(), options.side_by_side))?;
        capture.image = Image::create(&dir.join(IMAGE), len)?;
        for (file, initial) in initial_sizes(trace).into_iter().enumerate() {
            (capture.files[file].initial, capture.files[file].initial_size) = initial;
        }
        capture.read_files(trace, source)?;
        capture.make_up_the_rest(trace, source)?;
        let index = dir.join(INDEX);
        let text = serde_json::to_vec(&capture).expect("a capture has no map keys that JSON lacks");
        private::write(&index, &text).map_err(host("write", &index))?;
        Ok(capture)
    }

    /// Whether a replay of this capture includes the event.
    pub fn keeps(&self, event: &Event) -> bool {
        let file = event.file as usize;
        self.taken[file]
            && (self.rate >= 1.0
                || !event.moves_bytes()
                || is_whole(self.roles[file])
                || mix(self.seed, event.file, event.offset / self.region) < self.rate)
    }

    fn read_files(&mut self, trace: &Trace, source: &SourceFiles) -> Result<()> {
        let mut buf = vec![0; PIECE as usize];
        for (number, file) in self.files.iter_mut().enumerate() {
            if file.extents.is_empty() {
                continue;
            }
            let Some(source) = source.open(&trace.files[number]) else { continue };
            let len = regular::length(&source).unwrap_or(0);
            // A device does not report what was never written, which reads as zeros.
            let is_device = source.metadata().is_ok_and(|meta| meta.file_type().is_block_device());
            for extent in file.extents.iter_mut().filter(|extent| !extent.borrowed) {
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
                    let part = &mut buf[..(to - start).min(PIECE) as usize];
                    match source.read_at(part, start) {
                        Ok(0) | Err(_) => break,
                        Ok(n) => {
                            if is_device {
                                zeros(&part[..n])
                                    .for_each(|(from, to)| file.holes.add(start + from, start + to));
                            }
                            self.image.write(extent.at + extent.real, &part[..n])?;
                            extent.real += n as u64;
                        }
                    }
                }
                self.real_bytes += extent.real;
            }
        }
        Ok(())
    }

    /// Fills the extents that could not be read. Data of a removed file is taken from a similar file in the same
    /// directory ([`Alike`]), otherwise from captured data of the same role, in pieces of up to 64K, so that it
    /// compresses similarly. If nothing of that role was captured, it is taken from the whole capture, or generated as
    /// numbered lines of text.
    fn make_up_the_rest(&mut self, trace: &Trace, source: &SourceFiles) -> Result<()> {
        let mut alike = Alike::default();
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let pool = |files: &[CapturedFile], roles: &[Role], role: Option<Role>| -> Vec<(u64, u64)> {
            let of = files.iter().zip(roles).filter(|(_, r)| role.is_none_or(|role| role == **r));
            of.flat_map(|(f, _)| f.extents.iter().filter(|e| e.real > 0).map(|e| (e.at, e.real))).collect()
        };
        for number in 0..self.files.len() {
            let mut sources = pool(&self.files, &self.roles, Some(self.roles[number]));
            if sources.is_empty() {
                sources = pool(&self.files, &self.roles, None);
            }
            let extents = self.files[number].extents.clone();
            let size = extents.last().map_or(0, |e| e.offset + e.len);
            let is_gone = extents.iter().any(|e| !e.borrowed) && extents.iter().all(|e| e.real == 0);
            let stand_in =
                is_gone.then(|| alike.stand_in(&source.locate(&trace.files[number]), size, number)).flatten();
            for extent in extents {
                let mut done = if extent.borrowed { extent.len } else { extent.real };
                if let Some(stand_in) = stand_in.as_ref().filter(|_| !extent.borrowed) {
                    done = self.copy_from(stand_in, &extent)?;
                }
                while done < extent.len {
                    let piece = made_up(&mut rng, &sources, &self.image, (extent.len - done).min(65536))?;
                    self.image.write(extent.at + done, &piece)?;
                    done += piece.len() as u64;
                }
                self.synthetic_bytes += extent.len - extent.real;
            }
        }
        Ok(())
    }

    /// Copies a similar file's data into an extent. Returns how much of it could be read, in bytes.
    fn copy_from(&self, stand_in: &StandIn, extent: &Extent) -> Result<u64> {
        let mut buf = vec![0; extent.len.min(PIECE) as usize];
        let mut done = 0;
        while done < extent.len {
            let part = &mut buf[..(extent.len - done).min(PIECE) as usize];
            if !stand_in.read(part, extent.offset + done) {
                break;
            }
            self.image.write(extent.at + done, part)?;
            done += part.len() as u64;
        }
        Ok(done)
    }

    /// Returns the captured data of a file at `offset`, at most `len` bytes and as much as `buf` has room for, and the
    /// number of these bytes that are real. Returns an empty slice if that place was not captured.
    ///
    /// # Errors
    ///
    /// Returns an error if the image cannot be read.
    pub fn read<'b>(&self, file: u32, offset: u64, len: u64, buf: &'b mut [u8]) -> Result<(&'b [u8], u64)> {
        let extents = &self.files[file as usize].extents;
        let i = extents.partition_point(|e| e.offset + e.len <= offset);
        let Some(extent) = extents.get(i).filter(|e| e.offset <= offset) else { return Ok((&[], 0)) };
        let inside = offset - extent.offset;
        let n = len.min(extent.len - inside).min(buf.len() as u64);
        let into = &mut buf[..n as usize];
        self.image.read(extent.at + inside, into)?;
        Ok((into, extent.real.saturating_sub(inside).min(n)))
    }

    /// Writes each file as it was at the start of the replay, in file order. Returns the number of bytes written.
    ///
    /// # Errors
    ///
    /// Returns an error if the target fails, and [`Error::Interrupted`] if `stop` returns true.
    pub fn fill(&self, target: &dyn Target, stop: &dyn Fn() -> bool) -> Result<u64> {
        let mut written = 0;
        let mut buf = vec![0; PIECE as usize];
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
                    let (bytes, _) = self.read(number, at, end - at, &mut buf)?;
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

    /// Returns the maximum number of bytes of file data in a trial's pool.
    pub fn pool_bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.extents).map(|extent| extent.len).sum()
    }

    /// Returns the size of the image in bytes.
    pub fn image_bytes(&self) -> u64 {
        self.image.len()
    }

    /// Reads a capture from a directory.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, or if the index is invalid.
    pub fn load(dir: &Path) -> Result<Capture> {
        let index = dir.join(INDEX);
        let text = fs::read(&index).map_err(host("read", &index))?;
        let malformed = |why: String| Error::Malformed { what: "capture index", path: index.clone(), why };
        let mut capture: Capture = serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?;
        capture.image = Image::open(&dir.join(IMAGE))?;
        let len = capture.image.len();
        let end = |e: &Extent| e.at.saturating_add(e.len);
        let needed = capture.files.iter().flat_map(|f| &f.extents).map(end).max().unwrap_or(0);
        if len < needed {
            return Err(malformed(format!("the image has {len} bytes, but the index refers to {needed}")));
        }
        Ok(capture)
    }
}

/// The parts of `bytes` that are zeros, in units of [`ALIGN`]: start and end (exclusive).
fn zeros(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let units = bytes.chunks(ALIGN as usize).enumerate();
    let empty = units.filter(|(_, unit)| unit.iter().all(|byte| *byte == 0));
    empty.map(|(n, unit)| (n as u64 * ALIGN, n as u64 * ALIGN + unit.len() as u64))
}

/// Returns the bytes that a trace touches in regions of `options.region` bytes, which a capture takes unless they exceed its limit.
pub fn touched_bytes(trace: &Trace, options: &Options) -> u64 {
    Capture::empty(trace, options).layout(trace, u64::MAX).image
}

/// Returns the free space in bytes that a directory needs for an image and the pools of trials, which contain `pool` bytes
/// of file data and overwritten data until it is freed.
pub fn room_for(image: u64, pool: u64, side_by_side: usize) -> u64 {
    image.saturating_add(pool.saturating_mul(2 * side_by_side as u64)).saturating_add(SPARE)
}

/// Returns the largest capture whose image and pools fit into `room` bytes.
pub fn most_for(room: u64, side_by_side: usize) -> u64 {
    room.saturating_sub(SPARE) / (1 + 2 * side_by_side as u64)
}

/// Checks the free space of a file system. A file system in memory (tmpfs) has at most as much as the available memory.
///
/// # Errors
///
/// Returns an error if the file system of `dir` has less than `needed` bytes free.
fn check_room(dir: &Path, needed: u64) -> Result<()> {
    let free = room::available(dir).map_err(host("inspect", dir))?;
    if free < needed { Err(Error::NoRoom { path: dir.to_owned(), free, needed }) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
