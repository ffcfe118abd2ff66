//! Converts the programs' records to events, and tracks the current name and size of each file.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use poolwright_host::mountinfo::MountEntry;
use poolwright_trace::layout::{self, Layout};
use poolwright_trace::{Event, File, Flags, Op, path_text};

use crate::error::Result;
use crate::mounts;
use crate::sink::Sink;
use crate::wire::{EntryPath, Io, Name, NewFile, Record};

/// [`Event::offset`] of a rename onto a name that did not exist: the largest offset that a trace can store.
pub const NO_FILE: u64 = i64::MAX as u64;
/// `RENAME_EXCHANGE` (`renameat2(2)`).
const EXCHANGE: u64 = 2;

struct TrackedFile {
    path: PathBuf,
    /// The file's id in the trace, assigned with its first event.
    id: Option<u32>,
    dev: u32,
    ino: u64,
    size: u64,
    unlinked: bool,
}

/// Receives records in the order of the ring buffer, and writes events.
pub(crate) struct Tracker {
    sink: Sink,
    layout: Option<&'static Layout>,
    start_ns: u64,
    roots: Vec<PathBuf>,
    mounts: Vec<MountEntry>,
    /// Indexed by the number that the BPF programs assign.
    known: Vec<Option<TrackedFile>>,
    by_path: HashMap<PathBuf, u32>,
    /// Records that arrived before the followed directories were known.
    waiting: Vec<Record>,
    ready: bool,
    bytes: u64,
    /// The processes with an event, and the process of the last event.
    pids: BTreeSet<u32>,
    last_pid: u32,
    undecodable: u64,
    unresolved: u64,
}

impl Tracker {
    pub fn new(sink: Sink) -> Tracker {
        Tracker {
            sink,
            layout: None,
            start_ns: 0,
            roots: Vec::new(),
            mounts: Vec::new(),
            known: Vec::new(),
            by_path: HashMap::new(),
            waiting: Vec::new(),
            ready: false,
            bytes: 0,
            pids: BTreeSet::new(),
            last_pid: 0,
            undecodable: 0,
            unresolved: 0,
        }
    }

    /// Sets the followed directories, and processes the records that have waited for them.
    ///
    /// # Errors
    /// [`Error::Trace`](crate::Error::Trace) if an event of a waiting record cannot be written.
    pub fn begin(
        &mut self,
        roots: Vec<PathBuf>,
        mounts: Vec<MountEntry>,
        layout: Option<&'static Layout>,
        start_ns: u64,
    ) -> Result<()> {
        self.roots = roots;
        self.mounts = mounts;
        self.layout = layout;
        self.start_ns = start_ns;
        self.ready = true;
        for record in std::mem::take(&mut self.waiting) {
            self.take(record)?;
        }
        Ok(())
    }

    /// Processes the next record.
    ///
    /// # Errors
    /// [`Error::Trace`](crate::Error::Trace) if an event of the record cannot be written.
    pub fn take(&mut self, record: Record) -> Result<()> {
        if !self.ready {
            self.waiting.push(record);
            return Ok(());
        }
        match record {
            Record::File(file) => {
                self.new_file(file);
                Ok(())
            }
            Record::Io(io) => self.io(io),
            Record::Name(name) => self.name(&name),
        }
    }

    /// Counts a record that could not be decoded.
    pub fn undecodable(&mut self) {
        self.undecodable += 1;
    }

    /// Returns the bytes transferred so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the processes with an event. The caller may remove those that have ended.
    pub fn pids(&mut self) -> &mut BTreeSet<u32> {
        self.last_pid = 0;
        &mut self.pids
    }

    /// Returns the destination of the events.
    pub fn sink(&mut self) -> &mut Sink {
        &mut self.sink
    }

    /// Returns the tracker's entries of `unseen`.
    pub fn unseen(&self) -> Vec<(String, u64)> {
        let counts = [
            ("records that could not be decoded", self.undecodable),
            ("renames, unlinks or truncates of names that could not be resolved", self.unresolved),
        ];
        counts.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (what.to_owned(), n)).collect()
    }

    /// Updates paths and sizes, and returns the sink.
    ///
    /// # Errors
    /// [`Error::Trace`](crate::Error::Trace) if the trace lacks a file that the tracker knows.
    pub fn end(mut self) -> Result<Sink> {
        let layout = self.layout.or_else(|| {
            // The database did not exist yet when the recording began.
            layout::detect_paths(self.sink.files().iter().map(|file| file.path.as_str()))
        });
        for known in self.known.iter().flatten() {
            let Some(id) = known.id else { continue };
            let size = if known.unlinked { known.size } else { size_now(known).unwrap_or(known.size) };
            let file = self.sink.file_mut(id)?;
            file.size = size;
            file.path = path_text::encode(&known.path);
            // A log that was renamed may have a different purpose now; its role is that of the name under which it was
            // used.
            if self.layout.is_none() {
                file.role = layout::role(layout, &known.path).name().to_owned();
            }
        }
        Ok(self.sink)
    }

    fn new_file(&mut self, file: NewFile) {
        let path = self.location(&file.location);
        let path = if file.location.truncated { Path::new("…").join(path) } else { path };
        let index = file.file as usize;
        if self.known.len() <= index {
            self.known.resize_with(index + 1, || None);
        }
        self.by_path.insert(path.clone(), file.file);
        self.known[index] = Some(TrackedFile {
            path,
            id: None,
            dev: file.location.dev,
            ino: file.ino,
            size: file.size,
            unlinked: false,
        });
    }

    /// Returns the absolute path of an entry.
    fn location(&self, location: &EntryPath) -> PathBuf {
        let inner: PathBuf = location.names.iter().collect();
        match location.root.and_then(|root| self.roots.get(usize::from(root))) {
            Some(root) => root.join(inner),
            None => {
                let inner = Path::new("/").join(inner);
                mounts::outside(&self.mounts, location.dev, &inner).unwrap_or(inner)
            }
        }
    }

    /// Returns the file's id in the trace, assigning it on the first event.
    fn id(&mut self, number: u32) -> Option<u32> {
        let known = self.known.get_mut(number as usize)?.as_mut()?;
        if let Some(id) = known.id {
            return Some(id);
        }
        let id = self.sink.file(File {
            path: path_text::encode(&known.path),
            size: known.size,
            role: layout::role(self.layout, &known.path).name().to_owned(),
            device: format!("{}:{}", known.dev >> 20, known.dev & 0xf_ffff),
            ino: known.ino,
        });
        known.id = Some(id);
        Some(id)
    }

    fn io(&mut self, io: Io) -> Result<()> {
        let Some(id) = self.id(io.file) else {
            self.undecodable += 1;
            return Ok(());
        };
        if matches!(io.op, Op::Read | Op::Write) {
            self.bytes += io.len;
        }
        if io.pid != self.last_pid {
            self.last_pid = io.pid;
            self.pids.insert(io.pid);
        }
        if let Some(Some(known)) = self.known.get_mut(io.file as usize) {
            match io.op {
                Op::Write => known.size = known.size.max(io.off.saturating_add(io.len)),
                Op::Truncate => known.size = io.off,
                Op::Open => known.size = io.len,
                _ => {}
            }
        }
        let event = Event {
            t_ns: io.t.saturating_sub(self.start_ns),
            dur_ns: io.dur,
            op: io.op,
            file: id,
            offset: io.off,
            len: io.len,
            pid: io.pid,
            tid: io.tid,
            flags: io.flags,
            gap: io.gap,
        };
        self.sink.push(event)
    }

    fn name(&mut self, name: &Name) -> Result<()> {
        let Some(from) = self.resolve(&name.from_dir, &name.from) else { return Ok(()) };
        if name.op == Op::Rename {
            let to = self.resolve(&name.to_dir, &name.to);
            return self.rename(name, &from, to);
        }
        let Some(&number) = self.by_path.get(&from) else { return Ok(()) };
        let offset = if name.op == Op::Truncate { name.arg } else { 0 };
        if name.op == Op::Unlink {
            self.by_path.remove(&from);
            if let Some(Some(known)) = self.known.get_mut(number as usize) {
                known.unlinked = true;
            }
        }
        self.io(event_of(name, number, offset))
    }

    fn rename(&mut self, name: &Name, from: &Path, to: Option<PathBuf>) -> Result<()> {
        let to = to.unwrap_or_default();
        if from == to {
            return Ok(());
        }
        let Some(number) = self.by_path.remove(from) else {
            self.rename_dir(from, &to);
            return Ok(());
        };
        let replaced = self.by_path.remove(&to);
        let offset = replaced.and_then(|number| self.id(number)).map_or(NO_FILE, u64::from);
        self.moved(number, to);
        match replaced {
            Some(other) if name.arg & EXCHANGE != 0 => self.moved(other, from.to_owned()),
            Some(other) => {
                if let Some(Some(known)) = self.known.get_mut(other as usize) {
                    known.unlinked = true;
                }
            }
            None => {}
        }
        self.io(event_of(name, number, offset))
    }

    fn moved(&mut self, number: u32, to: PathBuf) {
        if let Some(Some(known)) = self.known.get_mut(number as usize) {
            known.path.clone_from(&to);
        }
        self.by_path.insert(to, number);
    }

    /// Updates the paths of the files in a renamed directory.
    fn rename_dir(&mut self, from: &Path, to: &Path) {
        let inside: Vec<(u32, PathBuf)> = self
            .by_path
            .iter()
            .filter_map(|(path, &number)| Some((number, path.strip_prefix(from).ok()?.to_owned())))
            .collect();
        for (number, rest) in inside {
            self.by_path.remove(&from.join(&rest));
            self.moved(number, to.join(rest));
        }
    }

    /// Returns the absolute path of a name passed to a call, with links in its directories resolved, or `None` if it
    /// cannot be determined.
    fn resolve(&mut self, dir: &EntryPath, name: &OsStr) -> Option<PathBuf> {
        if dir.truncated && !Path::new(name).is_absolute() {
            self.unresolved += 1;
            return None;
        }
        let path = normal(&self.location(dir).join(name));
        if self.by_path.contains_key(&path) {
            return Some(path);
        }
        // The path may contain a link. The directory still exists, although the name may be gone.
        let real = path.parent().and_then(|parent| parent.canonicalize().ok());
        match (real, path.file_name()) {
            (Some(real), Some(last)) => Some(real.join(last)),
            _ => Some(path),
        }
    }
}

fn event_of(name: &Name, file: u32, off: u64) -> Io {
    let Name { op, pid, tid, t, dur, gap, .. } = *name;
    Io { op, flags: Flags::default(), file, t, dur, off, len: 0, pid, tid, gap }
}

fn size_now(known: &TrackedFile) -> Option<u64> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::symlink_metadata(&known.path).ok()?;
    (found.ino() == known.ino).then_some(found.len())
}

/// Removes `.` and `..` components.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}
