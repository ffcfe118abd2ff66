//! The bytes that a trace touches, taken once from the real files, so that every trial fills its pool with the same
//! data while the database goes on.
//!
//! On disk a capture is a directory with `image` (extents one after another, each at a multiple of 4096) and
//! `index.json`. A region (1 MiB unless said) is the unit: if an operation touches a byte of it, all of it is taken, so
//! that no record is filled with zeros at its edges. Where the files hold more than the limit, regions of the large
//! roles are drawn by a hash of their place (SHARDS-style), and operations elsewhere are left out; the cache has to be
//! scaled by [`Capture::rate`] then. Operations on logs are never left out: beyond a log's share of the limit they use bytes
//! that were taken of it before.

use std::fs;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{FsType, TMPFS_MAGIC};
use poolwright_host::{memory, private, regular};
use poolwright_trace::{Event, Op, Trace};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::error::host;
use crate::{Error, Result, Target};

mod image;
mod layout;
use image::{Image, made_up};

const ALIGN: u64 = 4096;
/// Not in nix's list.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);
/// Roles that are small or sequential; their operations are never sampled.
const WHOLE_ROLES: [&str; 3] = ["wal", "binlog", "temp"];

/// Whether a role's operations are never sampled.
pub fn is_whole(role: &str) -> bool {
    WHOLE_ROLES.contains(&role)
}

/// What to take.
#[derive(Clone, Debug)]
pub struct Options {
    /// Unit of taking in bytes; at least the largest record tried.
    pub region: u64,
    /// The most bytes to take.
    pub max_bytes: u64,
    /// For the choice of regions and for made-up bytes.
    pub seed: u64,
    /// Take only files of these roles; empty for all.
    pub roles: Vec<String>,
}

/// A run of captured bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Extent {
    /// Where in the file.
    pub offset: u64,
    /// How long.
    pub len: u64,
    /// Where in the image.
    pub at: u64,
    /// From here on the bytes are made up: the file ended, or was gone, when it was taken. Relative to `offset`.
    pub real: u64,
    /// Whether the bytes in the image are another extent's, which is of the same log.
    #[serde(default)]
    pub borrowed: bool,
}

/// One file of the trace.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CapturedFile {
    /// Its length when the recording began, as far as the trace tells.
    pub initial_size: u64,
    /// Whether it was there when the recording began.
    pub initial: bool,
    /// What was taken, by offset.
    pub extents: Vec<Extent>,
}

/// A capture with its bytes in memory.
#[derive(Debug, Serialize, Deserialize)]
pub struct Capture {
    /// By the trace's file number; files without operations hold nothing.
    pub files: Vec<CapturedFile>,
    /// Role by the trace's file number.
    pub roles: Vec<String>,
    /// Whether operations on the file are replayed at all.
    pub taken: Vec<bool>,
    /// Share of regions taken of roles that are sampled.
    pub rate: f64,
    /// As in [`Options`].
    pub region: u64,
    /// As in [`Options`].
    pub seed: u64,
    /// Bytes of the image that came from the files.
    pub real_bytes: u64,
    /// Bytes of the image that were made up.
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
    /// Takes the bytes of `trace`; `locate` gives the real file behind a path of the trace.
    pub fn take(trace: &Trace, options: &Options, locate: impl Fn(&str) -> PathBuf) -> Result<Capture> {
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
        capture.read_files(trace, locate);
        capture.make_up_the_rest();
        Ok(capture)
    }

    /// Whether a replay of this capture does this event.
    pub fn keeps(&self, event: &Event) -> bool {
        let file = event.file as usize;
        self.taken[file]
            && (self.rate >= 1.0
                || !event.moves_bytes()
                || is_whole(&self.roles[file])
                || mix(self.seed, event.file, event.offset / self.region) < self.rate)
    }

    /// Keeps only a part of the regions: `factor` of what was taken, drawn by the same hash, so that a smaller share is
    /// always part of a larger one.
    pub fn thin(&mut self, trace: &Trace, factor: f64) {
        if factor >= 1.0 {
            return;
        }
        self.rate *= factor;
        for (file, regions) in self.touched_regions(trace).into_iter().enumerate() {
            let wanted: Vec<(u64, u64)> =
                regions.iter().map(|(f, l)| (f * self.region, l * self.region)).collect();
            let cut = |e: &Extent| -> Vec<Extent> {
                let inside = |(from, to): &(u64, u64)| {
                    let (start, end) = ((*from).max(e.offset), (*to).min(e.offset + e.len));
                    let skip = start.checked_sub(e.offset)?;
                    (start < end).then(|| Extent {
                        offset: start,
                        len: end - start,
                        at: e.at + skip,
                        real: e.real.saturating_sub(skip).min(end - start),
                        borrowed: e.borrowed,
                    })
                };
                wanted.iter().filter_map(inside).collect()
            };
            self.files[file].extents = self.files[file].extents.iter().flat_map(cut).collect();
        }
    }

    fn read_files(&mut self, trace: &Trace, locate: impl Fn(&str) -> PathBuf) {
        for (number, file) in self.files.iter_mut().enumerate() {
            if file.extents.is_empty() {
                continue;
            }
            let Ok(source) = regular::open(&locate(&trace.files[number].path)) else { continue };
            for extent in file.extents.iter_mut().filter(|extent| !extent.borrowed) {
                let into = self.image.slice_mut(extent.at, extent.len);
                while extent.real < extent.len {
                    match source.read_at(&mut into[extent.real as usize..], extent.offset + extent.real) {
                        Ok(0) | Err(_) => break,
                        Ok(n) => extent.real += n as u64,
                    }
                }
                self.real_bytes += extent.real;
            }
        }
    }

    /// Bytes that no file has any more are drawn from what was taken of the same role, in pieces of up to 64K, so that
    /// they compress alike; without any such, from all that was taken, else from numbered text lines.
    fn make_up_the_rest(&mut self) {
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
            for extent in self.files[number].extents.clone() {
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

    /// The bytes of the file at this place, and how many of them are the file's own. Empty if it was not taken.
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

    /// Writes every file as it was when the recording began, in file order; the bytes written.
    pub fn fill(&self, target: &dyn Target, stop: &dyn Fn() -> bool) -> Result<u64> {
        const PIECE: u64 = 1 << 20;
        let mut written = 0;
        for (number, file) in self.files.iter().enumerate() {
            let number = number as u32;
            if !self.taken[number as usize] || !file.initial || file.extents.is_empty() {
                continue;
            }
            target.create(number)?;
            for extent in &file.extents {
                let end = (extent.offset + extent.len).min(file.initial_size);
                let mut at = extent.offset;
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

    /// Bytes that [`Capture::fill`] writes for files of a role.
    pub fn filled_bytes(&self, role: &str) -> u64 {
        let of = |(f, r): (&CapturedFile, &String)| -> u64 {
            if r != role || !f.initial {
                return 0;
            }
            f.extents.iter().map(|e| (e.offset + e.len).min(f.initial_size).saturating_sub(e.offset)).sum()
        };
        self.files.iter().zip(&self.roles).map(of).sum()
    }

    /// Bytes that a scratch directory has to have: the image, a pool and its copies-on-write, and `more`.
    pub fn room(&self, more: u64) -> u64 {
        self.image_bytes().saturating_add(self.pool_bytes().saturating_mul(2)).saturating_add(more)
    }

    /// Bytes that a trial's pool is written with at most.
    pub fn pool_bytes(&self) -> u64 {
        self.files.iter().flat_map(|file| &file.extents).map(|extent| extent.len).sum()
    }

    /// Bytes in memory.
    pub fn image_bytes(&self) -> u64 {
        self.image.all().len() as u64
    }

    /// Writes it to a directory.
    pub fn save(&self, dir: &Path) -> Result<()> {
        private::make_dirs(dir).map_err(host("making", dir))?;
        check_room(dir, self.image_bytes() + (16 << 20))?;
        let image = dir.join("image");
        let mut out = private::create(&image).map_err(host("creating", &image))?;
        out.write_all(self.image.all()).map_err(host("writing", &image))?;
        let index = dir.join("index.json");
        let text = serde_json::to_vec(self).expect("a capture has no map keys that JSON lacks");
        private::write(&index, &text).map_err(host("writing", &index))
    }

    /// Reads it back.
    pub fn load(dir: &Path) -> Result<Capture> {
        let index = dir.join("index.json");
        let text = fs::read(&index).map_err(host("reading", &index))?;
        let malformed = |why: String| Error::Malformed { what: "capture index", path: index.clone(), why };
        let mut capture: Capture = serde_json::from_slice(&text).map_err(|e| malformed(e.to_string()))?;
        let path = dir.join("image");
        let file = fs::File::open(&path).map_err(host("opening", &path))?;
        let len = file.metadata().map_err(host("looking at", &path))?.len();
        let end = |e: &Extent| e.at.saturating_add(e.len);
        let needed = capture.files.iter().flat_map(|f| &f.extents).map(end).max().unwrap_or(0);
        layout::check_memory(len, memory::available())?;
        if len < needed {
            return Err(malformed(format!("the image has {len} bytes and the index speaks of {needed}")));
        }
        capture.image = Image::new(len as usize);
        file.read_exact_at(capture.image.slice_mut(0, len), 0).map_err(host("reading", &path))?;
        Ok(capture)
    }
}

/// Fails if `dir`'s file system has less than `needed` bytes free. A file system in memory has no more than the memory.
pub fn check_room(dir: &Path, needed: u64) -> Result<()> {
    let stat = nix::sys::statvfs::statvfs(dir).map_err(|e| host("looking at", dir)(e.into()))?;
    let kind =
        nix::sys::statfs::statfs(dir).map_err(|e| host("looking at", dir)(e.into()))?.filesystem_type();
    let free = (stat.blocks_available() as u64).saturating_mul(stat.fragment_size() as u64);
    let in_memory = matches!(kind, TMPFS_MAGIC | RAMFS_MAGIC);
    let free = if in_memory { free.min(memory::available().unwrap_or(free)) } else { free };
    if free < needed { Err(Error::NoRoom { path: dir.to_owned(), free, needed }) } else { Ok(()) }
}

/// Per file: whether it was there when the recording began, and how long it was. A file that ends where a chain of
/// appending writes ends began where that chain began.
fn initial_sizes(trace: &Trace) -> Vec<(bool, u64)> {
    let mut sizes: Vec<(bool, u64)> = trace.files.iter().map(|f| (true, f.size)).collect();
    let mut reach = vec![0u64; sizes.len()];
    for event in trace.events.iter().filter(|e| e.moves_bytes()) {
        let end: &mut u64 = &mut reach[event.file as usize];
        *end = (*end).max(event.offset.saturating_add(event.len));
    }
    for (size, reach) in sizes.iter_mut().zip(reach) {
        size.1 = size.1.max(reach);
    }
    for event in trace.events.iter().rev() {
        let (initial, size) = &mut sizes[event.file as usize];
        match event.op {
            Op::Write if event.offset + event.len == *size && event.len > 0 => *size = event.offset,
            Op::Create => *initial = false,
            _ => {}
        }
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_trace::{File, Flags};

    fn event(op: Op, file: u32, offset: u64, len: u64) -> Event {
        Event {
            t_ns: 0,
            dur_ns: 1,
            op,
            file,
            offset,
            len,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        }
    }

    fn file(path: &Path, role: &str, size: u64) -> File {
        File { path: path.display().to_string(), size, role: role.into(), ..File::default() }
    }

    fn options() -> Options {
        Options { region: 1 << 16, max_bytes: 1 << 30, seed: 1, roles: vec![] }
    }

    #[test]
    fn takes_what_is_touched_and_survives_the_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("table");
        let content: Vec<u8> = (0..1_000_000u32).map(|i| (i / 100) as u8).collect();
        fs::write(&path, &content).unwrap();
        let gone = dir.path().join("gone");
        let trace = Trace {
            files: vec![file(&path, "data", 1_000_000), file(&gone, "data", 100_000)],
            events: vec![
                event(Op::Read, 0, 10, 100),
                event(Op::Write, 0, 70_000, 70_000),
                event(Op::Read, 0, 990_000, 10_000),
                event(Op::Write, 1, 0, 5000),
            ],
            ..Trace::default()
        };
        let taken = Capture::take(&trace, &options(), |p| p.into()).unwrap();
        taken.save(&dir.path().join("c")).unwrap();
        let back = Capture::load(&dir.path().join("c")).unwrap();
        assert_eq!(back.files[0].extents.len(), 2, "{:?}", back.files[0]);
        let (bytes, real) = back.bytes(0, 70_000, 70_000);
        assert_eq!((bytes, real), (&content[70_000..140_000], 70_000));
        assert_eq!(back.bytes(0, 999_990, 100).0, &content[999_990..]);
        assert!(back.bytes(0, 500_000, 10).0.is_empty());
        let (bytes, real) = back.bytes(1, 0, 5000);
        assert_eq!((bytes.len(), real), (5000, 0));
        assert!(bytes.iter().any(|b| *b != 0), "made up from the data role");
        assert_eq!(back.synthetic_bytes, 65_536);
        fs::write(dir.path().join("c/image"), b"short").unwrap();
        assert!(Capture::load(&dir.path().join("c")).unwrap_err().to_string().contains("5 bytes"));
    }

    /// Operations on logs are all replayed, whatever they touch, and the image stays small.
    #[test]
    fn logs_beyond_their_share_use_bytes_of_the_log() {
        const LEN: u64 = 300 << 10;
        let dir = tempfile::tempdir().unwrap();
        let wal = dir.path().join("wal");
        fs::write(&wal, vec![7; 3 << 20]).unwrap();
        let (wal, gone) = (file(&wal, "wal", 3 << 20), file(Path::new("/nowhere/temp"), "temp", 0));
        let data = file(Path::new("/nowhere/data"), "data", 0);
        // 1200 MiB of log written through, and as much of temporary data in places far apart.
        let events: Vec<Event> = (0..4096)
            .flat_map(|i| {
                let apart = (i % 64) << 34;
                [
                    event(Op::Write, 0, i * LEN, LEN),
                    event(Op::Write, 1, apart, LEN),
                    event(Op::Read, 2, i << 20, 4096),
                ]
            })
            .collect();
        let trace = Trace { files: vec![wal, gone, data], events, ..Trace::default() };
        let max_bytes = 16 << 20;
        let mut c = Capture::take(&trace, &Options { max_bytes, ..options() }, |p| p.into()).unwrap();
        assert!(c.image_bytes() <= max_bytes * 5 / 4 + 3 * (1 << 16), "{} in memory", c.image_bytes());
        assert!(c.pool_bytes() > 1 << 30 && c.real_bytes > 1 << 20, "{} {}", c.pool_bytes(), c.real_bytes);
        for thinned in [false, true] {
            if thinned {
                c.thin(&trace, 0.5);
            }
            for e in trace.events.iter().filter(|e| e.file < 2) {
                assert!(c.keeps(e));
                let mut done = 0;
                while done < e.len {
                    let (bytes, _) = c.bytes(e.file, e.offset + done, e.len - done);
                    assert!(!bytes.is_empty() && bytes[0] != 0, "file {} at {}", e.file, e.offset + done);
                    done += bytes.len() as u64;
                }
            }
        }
    }

    #[test]
    fn memory_that_is_not_there_is_not_asked_for() {
        let why = layout::check_memory(4 << 30, Some(1 << 30)).unwrap_err().to_string();
        assert!(why.contains("4G") && why.contains("1G") && why.contains("--sample-bytes"), "{why}");
        layout::check_memory(1 << 30, Some(4 << 30)).unwrap();
        layout::check_memory(1 << 30, None).unwrap();
        // Places at the far end of what offsets can name.
        let far = file(Path::new("/nowhere/wal"), "wal", u64::MAX);
        let events = vec![event(Op::Write, 0, i64::MAX as u64, 1 << 31), event(Op::Write, 0, 0, 1 << 31)];
        let trace = Trace { files: vec![far], events, ..Trace::default() };
        let c = Capture::take(&trace, &Options { max_bytes: 1 << 20, ..options() }, |p| p.into()).unwrap();
        assert!(c.image_bytes() <= 2 << 20, "{}", c.image_bytes());
    }

    #[test]
    fn a_pipe_in_a_files_place_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let events = vec![event(Op::Read, 0, 0, 4096), event(Op::Read, 1, 0, 4096)];
        let files = vec![file(&pipe, "data", 4096), file(Path::new("/dev/zero"), "data", 4096)];
        let trace = Trace { files, events, ..Trace::default() };
        let c = Capture::take(&trace, &options(), |p| p.into()).unwrap();
        assert_eq!(c.real_bytes, 0);
    }

    #[test]
    fn appended_files_begin_where_the_appends_began() {
        let p = Path::new("/nowhere");
        let trace = Trace {
            files: vec![file(p, "binlog", 1000), file(p, "data", 5000), file(p, "temp", 300)],
            events: vec![
                event(Op::Write, 0, 400, 300),
                event(Op::Write, 0, 700, 300),
                event(Op::Write, 1, 1000, 500),
                event(Op::Create, 2, 0, 0),
                event(Op::Write, 2, 0, 300),
            ],
            ..Trace::default()
        };
        assert_eq!(initial_sizes(&trace), [(true, 400), (true, 5000), (false, 0)]);
    }

    #[test]
    fn large_captures_are_sampled_by_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        let size = 64 << 20;
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        let events: Vec<Event> = (0..1024).map(|i| event(Op::Read, 0, (i << 16) + 100, 4096)).collect();
        let trace = Trace { files: vec![file(&path, "data", size)], events, ..Trace::default() };
        let c = Capture::take(&trace, &Options { max_bytes: 16 << 20, ..options() }, |p| p.into()).unwrap();
        assert!((c.rate - 0.25).abs() < 1e-9);
        let kept = trace.events.iter().filter(|e| c.keeps(e)).count();
        assert!((180..340).contains(&kept), "{kept} of 1024 kept at a quarter");
        let all_there = |c: &Capture| {
            let mut kept = 0;
            for e in trace.events.iter().filter(|e| c.keeps(e)) {
                assert_eq!(c.bytes(0, e.offset, e.len).0.len() as u64, e.len);
                kept += 1;
            }
            kept
        };
        let before = (all_there(&c), c.filled_bytes("data"));
        let mut c = c;
        c.thin(&trace, 0.5);
        let after = (all_there(&c), c.filled_bytes("data"));
        assert!(after.0 < before.0 * 7 / 10 && after.0 > before.0 * 3 / 10, "{before:?} {after:?}");
        assert!(after.1 < before.1 * 7 / 10, "{before:?} {after:?}");
    }
}
