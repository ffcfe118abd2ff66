//! `--record`: the I/O of a mount as a trace, with no privilege.
//!
//! The threads that serve only note what they did; one thread writes it down and finds the names. A file's name is looked
//! up once, from its object's parent directory, and then followed through renames.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use poolwright_mount::proto::Opcode;
use poolwright_mount::{Caching, Observer, Operation, Options};
use poolwright_openzfs::Dataset;
use poolwright_trace::layout::{self, Layout};
use poolwright_trace::{Event, File, Flags, Meta, Op, Summary, Writer};
use poolwright_userpool::Mounted;

/// Operations that may wait to be written; beyond that the serving threads wait.
const WAITING: usize = 1 << 16;
/// [`Event::offset`] of a rename onto a name that was free: the largest offset a trace holds.
const NO_FILE: u64 = i64::MAX as u64;
/// `RENAME_EXCHANGE` (`renameat2(2)`).
const EXCHANGE: u32 = 2;
/// `FUSE_FSYNC_FDATASYNC` of linux/fuse.h.
const DATA_ONLY: u32 = 1;
/// Files whose names are looked at to find out which database this is.
const LAYOUT_FILES: usize = 200;

/// What is noted of an operation.
struct Noted {
    start: Instant,
    latency: u64,
    op: Opcode,
    object: u64,
    result: u64,
    offset: u64,
    to_offset: u64,
    length: u64,
    flags: u32,
    tid: u32,
    name: Option<CString>,
    new_name: Option<(u64, CString)>,
}

/// The end of a mount that only takes notes. The notes end when the last of these is dropped with the mount.
struct Notes(SyncSender<Noted>);

impl Observer for Notes {
    fn operation(&self, o: &Operation<'_>) {
        if o.errno != 0 || !is_recorded(o.op) {
            return;
        }
        let noted = Noted {
            start: o.start,
            latency: o.latency,
            op: o.op,
            object: o.object,
            result: o.result,
            offset: o.offset,
            to_offset: o.to_offset,
            length: o.length,
            flags: o.flags,
            tid: o.pid,
            name: o.name.map(CStr::to_owned),
            new_name: o.new_name.map(|(dir, name)| (dir, name.to_owned())),
        };
        // The writer is gone only when it failed, which is said at the end.
        let _ = self.0.send(noted);
    }
}

fn is_recorded(op: Opcode) -> bool {
    use Opcode as O;
    matches!(
        op,
        O::Read
            | O::Write
            | O::CopyFileRange
            | O::Fsync
            | O::Open
            | O::Release
            | O::Create
            | O::Tmpfile
            | O::Mknod
            | O::Setattr
            | O::Fallocate
    ) || matches!(op, O::Unlink | O::Rename | O::Rename2 | O::Link | O::Lookup | O::Mkdir)
}

/// A recording under way.
pub struct Recording {
    notes: Arc<Notes>,
    writing: JoinHandle<anyhow::Result<Summary>>,
}

impl Recording {
    /// Starts a trace of what happens in this dataset, which is about to be mounted on `dir`.
    pub fn start(
        trace: &Path,
        mounted: &Mounted,
        options: &Options,
        dataset: &Dataset,
    ) -> anyhow::Result<Recording> {
        let dir = &mounted.dir;
        let cached = options.caching != Caching::Through;
        let meta = Meta {
            creator: format!("poolwright {}", env!("CARGO_PKG_VERSION")),
            probe_set: "mount".into(),
            subject: format!("dir:{}", dir.display()),
            unseen: if cached {
                vec![("what the kernel's page cache answers".into(), 0)]
            } else {
                Vec::new()
            },
            host: host(),
            ..Meta::default()
        };
        let writer = Writer::create(trace, meta)?;
        let (to, from) = sync_channel(WAITING);
        let mut recorder = TraceRecorder::new(writer, dir, dataset.clone());
        let writing = std::thread::Builder::new()
            .name("record".into())
            .spawn(move || {
                recorder.run(&from)?;
                recorder.finish()
            })
            .context("starting the thread that writes the trace")?;
        Ok(Recording { notes: Arc::new(Notes(to)), writing })
    }

    /// For the mount.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.notes) as Arc<dyn Observer>
    }

    /// Writes the rest. The mount must have been dropped, or this waits for that.
    pub fn finish(self) -> anyhow::Result<Summary> {
        drop(self.notes);
        self.writing.join().map_err(|_| anyhow::anyhow!("the thread that writes the trace failed"))?
    }
}

fn host() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {} {}", release.trim(), std::env::consts::ARCH)
}

/// What is known of an object: where it is, and its place in the trace's table once it has an event.
#[derive(Default)]
struct TrackedObject {
    at: Option<(u64, Vec<u8>)>,
    id: Option<u32>,
    size: u64,
}

struct TraceRecorder {
    writer: Writer,
    dir: PathBuf,
    dataset: Dataset,
    root: u64,
    start: Instant,
    layout: Option<&'static Layout>,
    known: HashMap<u64, TrackedObject>,
    processes: HashMap<u32, u32>,
}

impl TraceRecorder {
    fn new(writer: Writer, dir: &Path, dataset: Dataset) -> TraceRecorder {
        let root = dataset.root().map_or(0, |root| root.object());
        TraceRecorder {
            writer,
            dir: dir.to_owned(),
            dataset,
            root,
            start: Instant::now(),
            layout: layout::detect(dir),
            known: HashMap::new(),
            processes: HashMap::new(),
        }
    }

    fn run(&mut self, from: &Receiver<Noted>) -> anyhow::Result<()> {
        loop {
            match from.recv_timeout(Duration::from_secs(1)) {
                Ok(noted) => self.take(&noted)?,
                Err(RecvTimeoutError::Timeout) => self.writer.tick()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// An error where nothing was recorded: then there is no trace.
    fn finish(mut self) -> anyhow::Result<Summary> {
        if self.writer.is_empty() {
            bail!("nothing was recorded, so no trace was written");
        }
        for known in self.known.values() {
            if let Some(id) = known.id {
                self.writer.file_mut(id)?.size = known.size;
            }
        }
        let paths: Vec<String> = self.writer.files().iter().map(|file| file.path.clone()).collect();
        let layout = self.layout.or_else(|| layout::detect_paths(paths.iter().map(String::as_str)));
        for (id, path) in paths.iter().enumerate() {
            self.writer.file_mut(id as u32)?.role = layout::role(layout, Path::new(path)).name().to_owned();
        }
        self.writer.meta_mut().duration_ns = self.start.elapsed().as_nanos() as u64;
        Ok(self.writer.finish()?)
    }

    fn take(&mut self, n: &Noted) -> anyhow::Result<()> {
        use Opcode as O;
        match n.op {
            O::Read => self.event(n, Op::Read, n.object, n.offset, n.length),
            O::Write => self.event(n, Op::Write, n.object, n.offset, n.length),
            // as the other recorder has it: read here, written there
            O::CopyFileRange => {
                self.event(n, Op::Read, n.object, n.offset, n.length)?;
                self.event(n, Op::Write, n.result, n.to_offset, n.length)
            }
            O::Fsync if n.flags & DATA_ONLY != 0 => self.event(n, Op::Fdatasync, n.object, 0, 0),
            O::Fsync => self.event(n, Op::Fsync, n.object, 0, 0),
            O::Open => self.open(n),
            O::Release => self.event(n, Op::Close, n.object, 0, 0),
            O::Fallocate => self.fallocate(n),
            O::Setattr => self.resized(n),
            O::Create | O::Mknod => {
                self.learn(n);
                self.event(n, Op::Create, n.result, 0, 0)
            }
            O::Tmpfile => self.event(n, Op::Create, n.result, 0, 0),
            O::Unlink => self.unlink(n),
            O::Rename | O::Rename2 => self.rename(n),
            _ => {
                self.learn(n);
                Ok(())
            }
        }
    }

    /// A name leads to an object.
    fn learn(&mut self, n: &Noted) {
        if let (Some(name), true) = (&n.name, n.result != 0) {
            let at = (n.object, name.to_bytes().to_vec());
            self.known.entry(n.result).or_default().at.get_or_insert(at);
        }
    }

    fn open(&mut self, n: &Noted) -> anyhow::Result<()> {
        let size = self.size_now(n.object);
        self.event(n, Op::Open, n.object, 0, size)?;
        if n.flags & libc::O_TRUNC as u32 != 0 {
            self.event(n, Op::Truncate, n.object, 0, 0)?;
        }
        Ok(())
    }

    fn fallocate(&mut self, n: &Noted) -> anyhow::Result<()> {
        let frees = n.flags & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) as u32 != 0;
        let op = if frees { Op::Punch } else { Op::Allocate };
        self.event(n, op, n.object, n.offset, n.length)
    }

    /// The observer gives the new length, and 0 also where no length was set: then the file itself tells.
    fn resized(&mut self, n: &Noted) -> anyhow::Result<()> {
        let was = self.known.get(&n.object).filter(|k| k.id.is_some()).map_or(0, |k| k.size);
        if n.length > 0 || was > 0 && self.size_now(n.object) == 0 {
            self.event(n, Op::Truncate, n.object, n.length, 0)?;
        }
        Ok(())
    }

    fn size_now(&self, object: u64) -> u64 {
        self.dataset.node(object).map_or(0, |node| node.size())
    }

    /// The object that a name in a directory led to, as far as it is known.
    fn named(&self, dir: u64, name: &CStr) -> Option<u64> {
        let name = name.to_bytes();
        let found =
            self.known.iter().find(|(_, k)| k.at.as_ref().is_some_and(|(d, n)| *d == dir && n == name));
        found.map(|(object, _)| *object)
    }

    fn unlink(&mut self, n: &Noted) -> anyhow::Result<()> {
        let Some(object) = n.name.as_deref().and_then(|name| self.named(n.object, name)) else {
            return Ok(());
        };
        if self.known.get(&object).is_some_and(|k| k.id.is_some()) {
            self.event(n, Op::Unlink, object, 0, 0)?;
        }
        // The number may be given again to another file.
        match self.dataset.node(object) {
            Ok(node) if node.attr().is_ok_and(|attr| attr.links > 0) => {
                if let Some(known) = self.known.get_mut(&object) {
                    known.at = None;
                }
            }
            _ => self.forget(object)?,
        }
        Ok(())
    }

    fn forget(&mut self, object: u64) -> anyhow::Result<()> {
        if let Some(TrackedObject { id: Some(id), size, .. }) = self.known.remove(&object) {
            self.writer.file_mut(id)?.size = size;
        }
        Ok(())
    }

    fn rename(&mut self, n: &Noted) -> anyhow::Result<()> {
        let (Some(name), Some((dir, new_name))) = (&n.name, &n.new_name) else { return Ok(()) };
        let (from, replaced) = (self.named(n.object, name), self.named(*dir, new_name));
        let replaced_id = replaced.and_then(|object| self.known.get(&object)?.id);
        if let Some(object) = from {
            if self.known.get(&object).is_some_and(|k| k.id.is_some()) {
                self.event(n, Op::Rename, object, replaced_id.map_or(NO_FILE, u64::from), 0)?;
            }
            self.move_to(object, *dir, new_name)?;
        }
        match replaced {
            Some(other) if n.flags & EXCHANGE != 0 => self.move_to(other, n.object, name)?,
            Some(other) if from != Some(other) => self.forget(other)?,
            _ => {}
        }
        Ok(())
    }

    fn move_to(&mut self, object: u64, dir: u64, name: &CStr) -> anyhow::Result<()> {
        let known = self.known.entry(object).or_default();
        known.at = Some((dir, name.to_bytes().to_vec()));
        if let Some(id) = known.id {
            let path = self.path(object).to_string_lossy().into_owned();
            self.writer.file_mut(id)?.path = path;
        }
        Ok(())
    }

    /// Where an object is: as it was learned, else as its parent directory has it.
    fn path(&mut self, object: u64) -> PathBuf {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut at = object;
        while at != self.root && names.len() < 256 {
            let learned = self.known.get(&at).and_then(|k| k.at.clone());
            let Some((dir, name)) = learned.or_else(|| self.search(at)) else {
                names.push(format!("(unnamed {at})").into_bytes());
                break;
            };
            self.known.entry(at).or_default().at = Some((dir, name.clone()));
            names.push(name);
            at = dir;
        }
        let mut path = self.dir.clone();
        path.extend(names.iter().rev().map(|name| OsStr::from_bytes(name)));
        path
    }

    fn search(&self, object: u64) -> Option<(u64, Vec<u8>)> {
        let parent = self.dataset.node(object).ok()?.attr().ok()?.parent;
        let mut found = None;
        let mut each = |entry: poolwright_openzfs::node::Entry<'_>| {
            let name = entry.name.to_bytes();
            if entry.object == object && !matches!(name, b"." | b"..") {
                found = Some(name.to_vec());
            }
            found.is_none()
        };
        self.dataset.node(parent).ok()?.read_dir(0, &mut each).ok()?;
        Some((parent, found?))
    }

    fn id(&mut self, object: u64) -> u32 {
        if let Some(id) = self.known.get(&object).and_then(|k| k.id) {
            return id;
        }
        let path = self.path(object);
        let size = self.size_now(object);
        if self.layout.is_none() && self.writer.files().len() < LAYOUT_FILES {
            let own = path.to_string_lossy();
            let paths = self.writer.files().iter().map(|file| file.path.as_str()).chain([&*own]);
            self.layout = layout::detect_paths(paths);
        }
        let id = self.writer.file(File {
            path: path.to_string_lossy().into_owned(),
            size,
            role: layout::role(self.layout, &path).name().to_owned(),
            ino: object,
            ..File::default()
        });
        let known = self.known.entry(object).or_default();
        (known.id, known.size) = (Some(id), size);
        id
    }

    /// The process of a thread. The kernel tells a file system the thread.
    fn process(&mut self, tid: u32) -> u32 {
        *self.processes.entry(tid).or_insert_with(|| {
            let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
            line.and_then(|pid| pid.trim().parse().ok()).unwrap_or(tid)
        })
    }

    fn event(&mut self, n: &Noted, op: Op, object: u64, offset: u64, len: u64) -> anyhow::Result<()> {
        if object == self.root {
            return Ok(());
        }
        let file = self.id(object);
        if let Some(known) = self.known.get_mut(&object) {
            match op {
                Op::Write => known.size = known.size.max(offset.saturating_add(len)),
                Op::Truncate => known.size = offset,
                _ => {}
            }
        }
        let mut flags = Flags::default();
        for (bits, flag) in
            [(libc::O_DIRECT, Flags::DIRECT), (libc::O_DSYNC, Flags::SYNC), (libc::O_APPEND, Flags::APPEND)]
        {
            if matches!(op, Op::Read | Op::Write | Op::Open | Op::Create) && n.flags & bits as u32 != 0 {
                flags = flags | flag;
            }
        }
        let pid = self.process(n.tid);
        let t_ns = n.start.saturating_duration_since(self.start).as_nanos() as u64;
        let event =
            Event { t_ns, dur_ns: n.latency, op, file, offset, len, pid, tid: n.tid, flags, gap: None };
        Ok(self.writer.push(event)?)
    }
}
