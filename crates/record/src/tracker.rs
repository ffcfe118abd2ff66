//! Converts the programs' records to events, and tracks the current name and size of each file.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use poolwright_base::mountinfo::MountEntry;
use poolwright_trace::layout::{self, Layout};
use poolwright_trace::{Event, File, Flags, Op, path_text};

use crate::error::Result;
use crate::mounts;
use crate::names::{NamedFile, Names};
use crate::roots;
use crate::sink::Sink;
use crate::wire::{EntryPath, Io, Name, Naming, NewFile, Record};

/// [`Event::offset`] of a rename onto a name that did not exist: the largest offset that a trace can store.
pub const NO_FILE: u64 = i64::MAX as u64;
/// `RENAME_EXCHANGE` (`renameat2(2)`).
const EXCHANGE: u64 = 2;

/// Receives records in the order of the ring buffer, and writes events.
pub(crate) struct Tracker {
    sink: Sink,
    layout: Option<&'static Layout>,
    start_ns: u64,
    roots: Vec<PathBuf>,
    mounts: Vec<MountEntry>,
    names: Names,
    /// The id of the recorded block device, which is the only file then.
    device: Option<u32>,
    /// Paths that may lead out of the followed directories: links made since they were last taken.
    leads: Vec<PathBuf>,
    /// Records that arrived before the followed directories were known.
    waiting: Vec<Record>,
    ready: bool,
    bytes: u64,
    /// The processes with an event, and the process of the last event.
    pids: BTreeSet<u32>,
    last_pid: u32,
    undecodable: u64,
    unresolved: u64,
    truncated: u64,
}

impl Tracker {
    pub fn new(sink: Sink) -> Tracker {
        Tracker {
            sink,
            layout: None,
            start_ns: 0,
            roots: Vec::new(),
            mounts: Vec::new(),
            names: Names::default(),
            device: None,
            leads: Vec::new(),
            waiting: Vec::new(),
            ready: false,
            bytes: 0,
            pids: BTreeSet::new(),
            last_pid: 0,
            undecodable: 0,
            unresolved: 0,
            truncated: 0,
        }
    }

    /// Sets the recorded block device, before the first record.
    pub fn set_device(&mut self, device: File) {
        self.device = Some(self.sink.file(device));
    }

    /// Sets the followed directories, and processes the records that have waited for them.
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

    /// Adds a directory or file that is followed from now on. Its number is that of its position.
    pub fn add_root(&mut self, path: PathBuf) {
        self.roots.push(path);
    }

    /// Replaces the table of mounts.
    pub fn set_mounts(&mut self, mounts: Vec<MountEntry>) {
        self.mounts = mounts;
    }

    /// Takes the paths that may lead out of the followed directories.
    pub fn take_leads(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.leads)
    }

    /// Processes the next record.
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

    /// Whether the process has an event.
    pub fn used_by(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
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

    /// Updates paths and sizes, and returns the sink and the tracker's entries of `unseen`.
    pub fn end(mut self) -> Result<(Sink, Vec<(String, u64)>)> {
        let mut astray = 0;
        let layout = self.layout.or_else(|| {
            // The database did not exist yet when the recording began.
            layout::detect_paths(self.sink.files().iter().map(|file| file.path.as_str()))
        });
        for known in self.names.files() {
            let Some(id) = known.id else { continue };
            let now = if known.unlinked() { None } else { known.now() };
            astray += u64::from(!known.unlinked() && now.is_none());
            let file = self.sink.file_mut(id)?;
            file.size = now.flatten().unwrap_or(known.size);
            file.path = path_text::encode(&known.path);
            // A log that was renamed may have a different purpose now; its role is that of the name under which it was
            // used.
            if self.layout.is_none() {
                file.role = layout.and_then(|layout| layout.role_of(&known.path));
            }
        }
        let counts = [
            ("records that could not be decoded", self.undecodable),
            ("renames, links, unlinks or truncates of names that could not be resolved", self.unresolved),
            ("files whose path is too long to be recorded", self.truncated),
            ("files whose last name is not known (renamed or removed out of the recorder's sight)", astray),
        ];
        let unseen =
            counts.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (what.to_owned(), n)).collect();
        Ok((self.sink, unseen))
    }

    fn new_file(&mut self, file: NewFile) {
        let mut path = self.location(&file.location);
        if file.location.truncated {
            self.truncated += 1;
            path = Path::new("…").join(path.strip_prefix("/").unwrap_or(&path));
        }
        let leads = path.extension().is_some_and(|extension| extension == roots::LINK_FILE);
        if leads && !self.roots.is_empty() {
            self.leads.push(path.clone());
        }
        self.names.add(
            file.file,
            NamedFile {
                path,
                others: Vec::new(),
                links: file.links,
                id: None,
                dev: file.location.dev,
                ino: file.ino,
                size: file.size,
                leads,
            },
        );
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
        if self.device.is_some() {
            return self.device;
        }
        let known = self.names.get_mut(number)?;
        if let Some(id) = known.id {
            return Some(id);
        }
        let id = self.sink.file(File {
            path: path_text::encode(&known.path),
            size: known.size,
            role: self.layout.and_then(|layout| layout.role_of(&known.path)),
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
        if let Some(known) = self.names.get_mut(io.file) {
            match io.op {
                Op::Write => {
                    known.size = known.size.max(io.off.saturating_add(io.len));
                    if known.leads && !self.roots.is_empty() {
                        self.leads.push(known.path.clone());
                    }
                }
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
        if name.cut {
            self.unresolved += 1;
            return Ok(());
        }
        let Some(from) = self.resolve(&name.from_dir, &name.from) else { return Ok(()) };
        let to = match name.what {
            Naming::Op(Op::Rename) | Naming::Link => self.resolve(&name.to_dir, &name.to).unwrap_or_default(),
            _ => PathBuf::new(),
        };
        match name.what {
            Naming::Symlink => self.leads.push(from),
            Naming::Link => {
                if let Some(number) = self.names.at(&from).or_else(|| self.names.same_file(&to)) {
                    self.names.link(number, to);
                }
            }
            Naming::Op(Op::Rename) => return self.rename(name, &from, to),
            Naming::Op(Op::Unlink) => {
                if let Some(number) = self.names.unlink(&from) {
                    return self.io(event_of(name, Op::Unlink, number, 0));
                }
            }
            Naming::Op(op) => {
                if let Some(number) = self.names.at(&from).or_else(|| self.names.same_file(&from)) {
                    return self.io(event_of(name, op, number, name.arg));
                }
            }
        }
        Ok(())
    }

    fn rename(&mut self, name: &Name, from: &Path, to: PathBuf) -> Result<()> {
        if from == to {
            return Ok(());
        }
        let Some(number) = self.names.at(from) else {
            if name.arg & EXCHANGE == 0
                && let Some(replaced) = self.names.unlink(&to)
            {
                self.io(event_of(name, Op::Unlink, replaced, 0))?;
            }
            self.names.rename_directory(from, &to);
            if self.roots.iter().any(|root| to.starts_with(root)) && to.is_symlink() {
                self.leads.push(to);
            }
            return Ok(());
        };
        let replaced = self.names.at(&to).filter(|replaced| *replaced != number);
        let offset = replaced.and_then(|number| self.id(number)).map_or(NO_FILE, u64::from);
        if name.arg & EXCHANGE != 0 {
            self.names.exchange(from, &to);
        } else {
            self.names.unlink(&to);
            self.names.rename(number, from, to);
        }
        self.io(event_of(name, Op::Rename, number, offset))
    }

    /// Returns the absolute path of a name passed to a call, with links in its directories resolved, or `None` if it
    /// cannot be determined.
    fn resolve(&mut self, dir: &EntryPath, name: &OsStr) -> Option<PathBuf> {
        if dir.truncated && !Path::new(name).is_absolute() {
            self.unresolved += 1;
            return None;
        }
        let path = normal(&self.location(dir).join(name));
        if self.names.at(&path).is_some() {
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

fn event_of(name: &Name, op: Op, file: u32, off: u64) -> Io {
    let Name { pid, tid, t, dur, gap, .. } = *name;
    Io { op, flags: Flags::default(), file, t, dur, off, len: 0, pid, tid, gap }
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
