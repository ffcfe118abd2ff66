//! Turns queued operations into the events and the table of files of a trace.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use poolwright_openzfs::Dataset;
use poolwright_trace::layout::{self, Layout};
use poolwright_trace::{Event, File, Flags, Op, Summary, Writer, path_text};
use rustix::fs::{FallocateFlags, OFlags, RenameFlags};

use super::TraceRecorderError;
use super::objects::{DirEntry, ObjectTable, TrackedObject};
use super::observer::RecordedOperation;
use crate::proto::Opcode;

/// [`Event::offset`] of a rename that replaced no recorded file: the largest offset of a trace.
const NO_FILE: u64 = i64::MAX as u64;
/// `FUSE_FSYNC_FDATASYNC` of linux/fuse.h.
const DATA_ONLY: u32 = 1;
/// Number of files whose paths are compared with the layouts of databases while recording.
const LAYOUT_FILES: usize = 200;
/// The deepest path that is resolved, in case the parents of a damaged dataset form a cycle.
const DEEPEST: usize = 256;

type Result<T> = std::result::Result<T, TraceRecorderError>;

/// The state of the thread that writes a trace.
pub(super) struct Recorder {
    writer: Writer,
    mountpoint: PathBuf,
    dataset: Dataset,
    root: u64,
    start: Instant,
    layout: Option<&'static Layout>,
    objects: ObjectTable,
    /// Process IDs by thread ID.
    processes: HashMap<u32, u32>,
}

impl Recorder {
    pub(super) fn new(writer: Writer, mountpoint: &Path, dataset: Dataset) -> Recorder {
        let root = dataset.root().map_or(0, |root| root.object());
        Recorder {
            writer,
            mountpoint: mountpoint.to_owned(),
            dataset,
            root,
            start: Instant::now(),
            layout: layout::detect(mountpoint),
            objects: ObjectTable::default(),
            processes: HashMap::new(),
        }
    }

    /// Records operations until the queue ends.
    pub(super) fn run(&mut self, operations: &Receiver<RecordedOperation>) -> Result<()> {
        loop {
            match operations.recv_timeout(Duration::from_secs(1)) {
                Ok(operation) => self.record(&operation)?,
                Err(RecvTimeoutError::Timeout) => self.writer.tick()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    }

    /// Completes the table of files and closes the trace. Dropping the writer of an empty trace removes the file.
    pub(super) fn finish(mut self) -> Result<Summary> {
        if self.writer.is_empty() {
            return Err(TraceRecorderError::Empty);
        }
        for tracked in self.objects.iter() {
            if let Some(file) = tracked.file {
                self.writer.file_mut(file)?.size = tracked.size;
            }
        }
        let paths: Vec<String> = self.writer.files().iter().map(|file| file.path.clone()).collect();
        let layout = self.layout.or_else(|| layout::detect_paths(paths.iter().map(String::as_str)));
        for (id, path) in paths.iter().enumerate() {
            self.writer.file_mut(id as u32)?.role = layout.and_then(|layout| layout.role_of(Path::new(path)));
        }
        self.writer.meta_mut().duration_ns = self.start.elapsed().as_nanos() as u64;
        Ok(self.writer.finish()?)
    }

    fn record(&mut self, o: &RecordedOperation) -> Result<()> {
        use Opcode as O;
        match o.op {
            O::Read => self.event(o, Op::Read, o.object, o.offset, o.length),
            O::Write => self.event(o, Op::Write, o.object, o.offset, o.length),
            // Like the eBPF recorder: a read of the source and a write to the destination.
            O::CopyFileRange => {
                self.event(o, Op::Read, o.object, o.offset, o.length)?;
                self.event(o, Op::Write, o.result, o.to_offset, o.length)
            }
            O::Fsync if o.flags & DATA_ONLY != 0 => self.event(o, Op::Fdatasync, o.object, 0, 0),
            O::Fsync => self.event(o, Op::Fsync, o.object, 0, 0),
            O::Open => self.open(o),
            O::Release => self.event(o, Op::Close, o.object, 0, 0),
            O::Fallocate => self.fallocate(o),
            O::Setattr => self.set_length(o),
            O::Create | O::Mknod => {
                self.note_name(o);
                self.event(o, Op::Create, o.result, 0, 0)
            }
            O::Tmpfile => self.event(o, Op::Create, o.result, 0, 0),
            O::Unlink => self.unlink(o),
            O::Rename | O::Rename2 => self.rename(o),
            _ => {
                self.note_name(o);
                Ok(())
            }
        }
    }

    /// Notes the name of the object that the operation created or found.
    fn note_name(&mut self, o: &RecordedOperation) {
        if let (Some(name), true) = (&o.name, o.result != 0) {
            self.objects.add_entry(o.result, entry(o.object, name));
        }
    }

    fn open(&mut self, o: &RecordedOperation) -> Result<()> {
        let size = self.current_size(o.object);
        self.event(o, Op::Open, o.object, 0, size)?;
        if o.flags & OFlags::TRUNC.bits() != 0 {
            self.event(o, Op::Truncate, o.object, 0, 0)?;
        }
        Ok(())
    }

    fn fallocate(&mut self, o: &RecordedOperation) -> Result<()> {
        let frees = FallocateFlags::PUNCH_HOLE | FallocateFlags::ZERO_RANGE;
        let op = if o.flags & frees.bits() != 0 { Op::Punch } else { Op::Allocate };
        self.event(o, op, o.object, o.offset, o.length)
    }

    /// Records a SETATTR that changed the length. The operation's length is 0 if it was set to 0 and if it was not set; the
    /// file's current length distinguishes the two.
    fn set_length(&mut self, o: &RecordedOperation) -> Result<()> {
        let before = self.objects.get(o.object).filter(|t| t.file.is_some()).map_or(0, |t| t.size);
        if o.length > 0 || before > 0 && self.current_size(o.object) == 0 {
            self.event(o, Op::Truncate, o.object, o.length, 0)?;
        }
        Ok(())
    }

    fn current_size(&self, object: u64) -> u64 {
        self.dataset.node(object).map_or(0, |node| node.size())
    }

    fn unlink(&mut self, o: &RecordedOperation) -> Result<()> {
        let name = o.name.as_deref().map(CStr::to_bytes);
        let Some(object) = name.and_then(|name| self.objects.named(o.object, name)) else { return Ok(()) };
        if self.objects.file(object).is_some() {
            self.event(o, Op::Unlink, object, 0, 0)?;
        }
        match self.dataset.node(object) {
            // Another hard link is left.
            Ok(node) if node.attr().is_ok_and(|attr| attr.links > 0) => {
                self.objects.clear_entry(object);
                Ok(())
            }
            _ => self.forget(object),
        }
    }

    /// Stops tracking an object, whose number the file system may give to another file.
    fn forget(&mut self, object: u64) -> Result<()> {
        if let Some(TrackedObject { file: Some(file), size, .. }) = self.objects.remove(object) {
            self.writer.file_mut(file)?.size = size;
        }
        Ok(())
    }

    fn rename(&mut self, o: &RecordedOperation) -> Result<()> {
        let (Some(name), Some((directory, new_name))) = (&o.name, &o.new_name) else { return Ok(()) };
        let moved = self.objects.named(o.object, name.to_bytes());
        let replaced = self.objects.named(*directory, new_name.to_bytes());
        let replaced_file = replaced.and_then(|object| self.objects.file(object));
        if let Some(object) = moved {
            if self.objects.file(object).is_some() {
                self.event(o, Op::Rename, object, replaced_file.map_or(NO_FILE, u64::from), 0)?;
            }
            self.move_to(object, entry(*directory, new_name))?;
        }
        match replaced {
            Some(other) if o.flags & RenameFlags::EXCHANGE.bits() != 0 => {
                self.move_to(other, entry(o.object, name))
            }
            Some(other) if moved != Some(other) => self.forget(other),
            _ => Ok(()),
        }
    }

    fn move_to(&mut self, object: u64, entry: DirEntry) -> Result<()> {
        self.objects.set_entry(object, entry);
        if let Some(file) = self.objects.file(object) {
            let path = self.path(object).to_string_lossy().into_owned();
            self.writer.file_mut(file)?.path = path;
        }
        Ok(())
    }

    /// The object's path, from the names that the recorder has seen and otherwise from its parent directories.
    fn path(&mut self, object: u64) -> PathBuf {
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut at = object;
        while at != self.root && names.len() < DEEPEST {
            let found = match self.objects.entry(at) {
                Some(entry) => Some(entry.clone()),
                None => self.search(at),
            };
            let Some(entry) = found else {
                names.push(format!("(unnamed {at})").into_bytes());
                break;
            };
            self.objects.add_entry(at, entry.clone());
            names.push(entry.name);
            at = entry.directory;
        }
        let mut path = self.mountpoint.clone();
        path.extend(names.iter().rev().map(|name| OsStr::from_bytes(name)));
        path
    }

    /// Searches the object's parent directory for its name.
    fn search(&self, object: u64) -> Option<DirEntry> {
        let directory = self.dataset.node(object).ok()?.attr().ok()?.parent;
        let mut found = None;
        let mut each = |entry: poolwright_openzfs::node::Entry<'_>| {
            let name = entry.name.to_bytes();
            if entry.object == object && !matches!(name, b"." | b"..") {
                found = Some(name.to_vec());
            }
            found.is_none()
        };
        self.dataset.node(directory).ok()?.read_dir(0, &mut each).ok()?;
        Some(DirEntry { directory, name: found? })
    }

    /// The object's ID in the trace's table of files, to which this adds it.
    fn file(&mut self, object: u64) -> u32 {
        if let Some(file) = self.objects.file(object) {
            return file;
        }
        let path = self.path(object);
        let size = self.current_size(object);
        if self.layout.is_none() && self.writer.files().len() < LAYOUT_FILES {
            let own = path_text::encode(&path);
            let paths = self.writer.files().iter().map(|file| file.path.as_str()).chain([&*own]);
            self.layout = layout::detect_paths(paths);
        }
        let file = self.writer.file(File {
            path: path_text::encode(&path),
            size,
            role: self.layout.and_then(|layout| layout.role_of(&path)),
            ino: object,
            ..File::default()
        });
        let tracked = self.objects.get_or_insert(object);
        (tracked.file, tracked.size) = (Some(file), size);
        file
    }

    /// The process of a thread; the thread's own ID if the thread has ended.
    fn process(&mut self, tid: u32) -> u32 {
        *self.processes.entry(tid).or_insert_with(|| {
            let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
            line.and_then(|pid| pid.trim().parse().ok()).unwrap_or(tid)
        })
    }

    fn event(&mut self, o: &RecordedOperation, op: Op, object: u64, offset: u64, len: u64) -> Result<()> {
        if object == self.root {
            return Ok(());
        }
        let file = self.file(object);
        if let Some(tracked) = self.objects.get_mut(object) {
            match op {
                Op::Write => tracked.size = tracked.size.max(offset.saturating_add(len)),
                Op::Truncate => tracked.size = offset,
                _ => {}
            }
        }
        let flags = event_flags(op, o.flags);
        let pid = self.process(o.tid);
        let t_ns = o.start.saturating_duration_since(self.start).as_nanos() as u64;
        let event =
            Event { t_ns, dur_ns: o.latency, op, file, offset, len, pid, tid: o.tid, flags, gap: None };
        Ok(self.writer.push(event)?)
    }
}

fn entry(directory: u64, name: &CStr) -> DirEntry {
    DirEntry { directory, name: name.to_bytes().to_vec() }
}

/// The flags of an event, from the `O_…` flags of the operation.
fn event_flags(op: Op, open_flags: u32) -> Flags {
    let mut flags = Flags::default();
    if !matches!(op, Op::Read | Op::Write | Op::Open | Op::Create) {
        return flags;
    }
    for (bits, flag) in
        [(OFlags::DIRECT, Flags::DIRECT), (OFlags::DSYNC, Flags::SYNC), (OFlags::APPEND, Flags::APPEND)]
    {
        if open_flags & bits.bits() != 0 {
            flags = flags | flag;
        }
    }
    flags
}
