//! The file system: serves the kernel's requests with the engine.
//!
//! The thread that received a request serves it, from the request's buffer to the answer's without a copy in between. Any
//! number of threads can do so at once. The kernel checks permissions (`default_permissions`) and handles locks.

mod attr;
mod data;
mod dir;
mod handles;
mod lookup_count;
mod names;
mod node_id;
mod operation;
mod rollback;
mod snapshots;
mod xattr;

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant, SystemTime};

use poolwright_openzfs::node::Attr;
use poolwright_openzfs::{Dataset, Errno, Node, NodeResult, Pool};
use zerocopy::FromBytes;

use crate::counters::Tally;
use crate::options::Options;
use crate::proto::wire::{EntryOut, InHeader, OpenOut};
use crate::proto::{Malformed, Op, Opcode, Request, put};
use handles::Handles;
use lookup_count::LookupCounts;
pub(crate) use node_id::SNAPSHOTS_ID;
use node_id::{HEAD, NodeId};
pub(crate) use rollback::{RolledBack, Stale};
use snapshots::Snapshots;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The request has no answer.
    None,
    /// Success; this many bytes of the answer's buffer follow the header.
    Bytes(usize),
    /// Failure with this errno.
    Error(i32),
}

/// A mounted dataset.
pub(crate) struct FileSystem {
    head: Dataset,
    /// Its root directory, which many requests use.
    root: Node,
    root_object: u64,
    options: Options,
    lookup_counts: LookupCounts,
    handles: Handles,
    snapshots: Snapshots,
    /// How often `security.capability` was set, see [`handles::Handle`].
    capabilities: AtomicU64,
    /// Number of rollbacks after which the kernel sees all files as new, see [`FileSystem::reported_generation`].
    replaced: u32,
    /// Whether a rollback has ended but the kernel is not notified yet: pages that it writes back belong to the old tree.
    fenced: AtomicBool,
}

/// The thread that serves a request.
pub(crate) struct Worker<'a> {
    /// Its number, from 0.
    pub(crate) number: usize,
    pub(crate) tally: &'a Tally,
}

impl FileSystem {
    pub(crate) fn new(pool: &Pool, dataset: &Dataset, options: &Options) -> NodeResult<FileSystem> {
        let root = dataset.root()?;
        Ok(FileSystem {
            head: dataset.clone(),
            root_object: root.object(),
            root,
            options: options.clone(),
            lookup_counts: LookupCounts::new(),
            handles: Handles::new(),
            snapshots: Snapshots::new(pool.clone(), dataset),
            capabilities: AtomicU64::new(0),
            replaced: 0,
            fenced: AtomicBool::new(false),
        })
    }

    /// Serves one request. Writes the answer to `out`, which must be at least as long as the largest READ.
    pub(crate) fn serve(&self, request: &Request<'_>, out: &mut [u8], worker: &Worker<'_>) -> Answer {
        let start = self.options.observer.is_some().then(Instant::now);
        let answer = match self.dispatch(request, out, worker) {
            Ok(Some(len)) => Answer::Bytes(len),
            Ok(None) => Answer::None,
            Err(Errno(errno)) => Answer::Error(errno),
        };
        worker.tally.count(request.opcode, matches!(answer, Answer::Error(_)));
        if let (Some(observer), Some(start)) = (&self.options.observer, start)
            && let Some(operation) = self.operation(request, answer, out, start, worker.number)
        {
            observer.operation(&operation);
        }
        answer
    }

    /// The answer to a malformed request.
    pub(crate) fn refuse(malformed: &Malformed, worker: &Worker<'_>) -> Answer {
        worker.tally.count(Some(malformed.opcode), true);
        match malformed.opcode {
            Opcode::Forget | Opcode::BatchForget => Answer::None,
            _ => Answer::Error(libc::EIO),
        }
    }

    /// The answer to a request after the file system was lost.
    pub(crate) fn lost(request: &Request<'_>, worker: &Worker<'_>) -> Answer {
        worker.tally.count(request.opcode, true);
        match request.op {
            Op::Forget(_) | Op::BatchForget(_) | Op::Interrupt(_) => Answer::None,
            _ => Answer::Error(libc::EIO),
        }
    }

    fn dispatch(&self, r: &Request<'_>, out: &mut [u8], w: &Worker<'_>) -> NodeResult<Option<usize>> {
        let header = &r.header;
        let node = header.nodeid;
        let done = match r.op {
            // The most frequent operations first; the order does not affect speed.
            Op::Read(read) => self.read(&read, out).inspect(|len| w.tally.read(*len)),
            Op::Write(write, data) => self.write(&write, data, out).inspect(|_| w.tally.written(data.len())),
            Op::Lookup(name) => self.lookup(node, name, out),
            Op::Getattr(get) => self.getattr(node, &get, out),
            Op::Statx(get) => self.statx(node, &get, out),
            Op::Setattr(set) => self.setattr(node, &set, out),
            Op::Forget(times) => {
                self.forget(node, times);
                return Ok(None);
            }
            Op::BatchForget(bytes) => {
                Op::forgets(bytes).for_each(|one| self.forget(one.nodeid, one.nlookup));
                return Ok(None);
            }
            Op::Readlink => self.readlink(node, out),
            Op::Symlink { name, target } => self.symlink(header, name, target, out),
            Op::Mknod(new, name) => self.mknod(header, &new, name, out),
            Op::Mkdir(new, name) => self.mkdir(header, new.mode, name, out),
            Op::Unlink(name) => self.unlink(node, name, false),
            Op::Rmdir(name) => self.unlink(node, name, true),
            Op::Rename { to, flags, name, new_name } => self.rename((node, name), (to, new_name), flags),
            Op::Link { node: existing, name } => self.link(existing, node, name, out),
            Op::Open(open) => self.open(node, &open, out),
            Op::Create(create, name) => self.create(header, &create, name, out),
            Op::Tmpfile(create) => self.tmpfile(header, &create, out),
            Op::Release(release) | Op::Releasedir(release) => {
                self.handles.close(release.fh);
                Ok(0)
            }
            Op::Fsync(sync) | Op::Fsyncdir(sync) => self.fsync(node, sync.fh),
            Op::Fallocate(fallocate) => self.fallocate(node, &fallocate),
            Op::Lseek(seek) => self.lseek(&seek, out),
            Op::CopyFileRange(copy) => self.copy(header, &copy, out),
            Op::Opendir(_) => self.opendir(node, out),
            Op::Readdir(read) => self.readdir(node, &read, false, out),
            Op::Readdirplus(read) => self.readdir(node, &read, true, out),
            Op::Getxattr { room, name } => self.getxattr(node, name, room, out),
            Op::Listxattr { room } => self.listxattr(header, room, out),
            Op::Setxattr(set) => self.setxattr(node, &set),
            Op::Removexattr(name) => self.removexattr(node, name),
            Op::Statfs => self.statfs(out),
            Op::Syncfs => self.head.commit().map(|()| 0),
            Op::Destroy => Ok(0),
            // No operation takes long enough to be worth interrupting, and INTERRUPT has no answer.
            Op::Interrupt(_) => return Ok(None),
            // A write is in the engine when it is answered, so closing has nothing to do. After ENOSYS, the kernel sends no
            // more FLUSH requests.
            Op::Flush(_) | Op::Init(..) | Op::Unserved => Err(Errno(libc::ENOSYS)),
        };
        done.map(Some)
    }

    /// Whether a request changes the file system or makes changes durable.
    pub(crate) fn is_change(request: &Request<'_>) -> bool {
        match &request.op {
            Op::Open(open) => open.flags & libc::O_TRUNC as u32 != 0,
            Op::Write(..)
            | Op::Setattr(_)
            | Op::Symlink { .. }
            | Op::Mknod(..)
            | Op::Mkdir(..)
            | Op::Unlink(_)
            | Op::Rmdir(_)
            | Op::Rename { .. }
            | Op::Link { .. }
            | Op::Create(..)
            | Op::Tmpfile(_)
            | Op::Fsync(_)
            | Op::Fsyncdir(_)
            | Op::Fallocate(_)
            | Op::CopyFileRange(_)
            | Op::Setxattr(_)
            | Op::Removexattr(_)
            | Op::Syncfs => true,
            _ => false,
        }
    }

    /// Undoes the lookup counts and handles of an answer that could not be delivered.
    pub(crate) fn undelivered(&self, request: &Request<'_>, bytes: &[u8]) {
        let entry = || EntryOut::read_from_prefix(bytes).ok().map(|(entry, rest)| (entry.nodeid, rest));
        let close = |bytes: &[u8]| {
            if let Ok((open, _)) = OpenOut::read_from_prefix(bytes) {
                self.handles.close(open.fh);
            }
        };
        match request.op {
            Op::Lookup(_) | Op::Symlink { .. } | Op::Mknod(..) | Op::Mkdir(..) | Op::Link { .. } => {
                if let Some((nodeid, _)) = entry() {
                    self.forget(nodeid, 1);
                }
            }
            Op::Create(..) | Op::Tmpfile(_) => {
                if let Some((nodeid, rest)) = entry() {
                    close(rest);
                    self.forget(nodeid, 1);
                }
            }
            Op::Open(_) | Op::Opendir(_) => close(bytes),
            _ => {}
        }
    }

    /// Releases everything held for the kernel after the mount is gone, and makes all acknowledged changes durable.
    pub(crate) fn finish(&self) -> NodeResult<()> {
        self.handles.clear();
        self.lookup_counts.clear();
        self.snapshots.clear();
        if self.options.readonly { Ok(()) } else { self.head.commit() }
    }

    /// The dataset.
    pub(crate) fn head(&self) -> &Dataset {
        &self.head
    }

    /// Mode of the root directory, its type included.
    pub(crate) fn root_mode(&self) -> u32 {
        self.root.mode()
    }

    /// The node ID of an object of the dataset.
    pub(crate) fn id_of(&self, object: u64) -> u64 {
        node_id::id(HEAD, object, self.root_object)
    }

    // ---- shared by the submodules ----

    fn decode(&self, nodeid: u64) -> NodeId {
        NodeId::of(nodeid, self.root_object)
    }

    /// The node of an ID, with its tree. Fails with `EPERM` for the directories of `.zfs`, which are not nodes.
    fn node(&self, nodeid: u64) -> NodeResult<(u16, Node)> {
        match self.decode(nodeid) {
            NodeId::Object { tree: HEAD, object } if object == self.root_object => {
                Ok((HEAD, self.root.clone()))
            }
            NodeId::Object { tree, object } => {
                let (told, held) = self.lookup_counts.get(nodeid).unzip();
                let node = held.flatten().map_or_else(
                    || if tree == HEAD { self.head.node(object) } else { self.snapshots.node(tree, object) },
                    Ok,
                )?;
                // After a rollback, another object may have this number.
                if told.is_some_and(|told| {
                    told != self.reported_generation(tree, node.generation(), node.mode())
                }) {
                    return Err(Errno(libc::ESTALE));
                }
                Ok((tree, node))
            }
            NodeId::Control | NodeId::Snapshots => Err(Errno(libc::EPERM)),
        }
    }

    /// A node of the dataset that may be changed. Fails with `EROFS` in a snapshot or a read-only mount.
    fn writable(&self, nodeid: u64) -> NodeResult<Node> {
        self.changeable(nodeid)?;
        Ok(self.node(nodeid)?.1)
    }

    fn changeable(&self, nodeid: u64) -> NodeResult<()> {
        let snapshot = !matches!(self.decode(nodeid), NodeId::Object { tree: HEAD, .. });
        if snapshot || self.options.readonly { Err(Errno(libc::EROFS)) } else { Ok(()) }
    }

    /// Counts a lookup of a node by the kernel, which may cache its attributes for `trust`. Returns the node's ID.
    fn learn(&self, tree: u16, object: u64, generation: u32, trust: Duration) -> u64 {
        let nodeid = node_id::id(tree, object, self.root_object);
        if self.lookup_counts.add(nodeid, generation, trust) && tree != HEAD {
            self.snapshots.more(tree);
        }
        nodeid
    }

    /// Subtracts from the kernel's lookup count of a node.
    fn forget(&self, nodeid: u64, times: u64) {
        if self.lookup_counts.forget(nodeid, times) && node_id::tree(nodeid) != HEAD {
            self.snapshots.leave(node_id::tree(nodeid));
        }
    }

    /// The answer that reports a node to the kernel, and counts as a lookup.
    fn entry(&self, tree: u16, node: &Node) -> NodeResult<EntryOut> {
        let attr = node.attr()?;
        Ok(self.entry_of(tree, &attr))
    }

    fn entry_of(&self, tree: u16, attr: &Attr) -> EntryOut {
        let valid = self.attr_trust(tree, attr, SystemTime::now());
        let generation = self.reported_generation(tree, attr.generation, attr.mode);
        let nodeid = self.learn(tree, attr.object, generation, valid);
        EntryOut {
            nodeid,
            generation: u64::from(generation),
            entry_valid: self.options.trust.as_secs(),
            entry_valid_nsec: self.options.trust.subsec_nanos(),
            attr_valid: valid.as_secs(),
            attr_valid_nsec: valid.subsec_nanos(),
            attr: attr::wire_attr(tree, attr),
        }
    }
}

/// Writes an answer's structure. It always fits, because the buffer is longer than every structure.
fn answer<T: zerocopy::IntoBytes + zerocopy::Immutable>(out: &mut [u8], value: &T) -> NodeResult<usize> {
    put(out, value).ok_or(Errno(libc::EIO))
}

/// Writes bytes of variable length.
fn answer_bytes(out: &mut [u8], bytes: &[u8]) -> NodeResult<usize> {
    out.get_mut(..bytes.len()).ok_or(Errno(libc::ERANGE))?.copy_from_slice(bytes);
    Ok(bytes.len())
}

/// The user and group of the process that creates a node.
fn owner(header: &InHeader) -> (u32, u32) {
    (header.uid, header.gid)
}

/// Whether a name is `.` or `..`.
fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}
