//! Directories: opening and listing, including the virtual directories of `.zfs`.

use std::ffi::CStr;
use std::time::Duration;

use poolwright_openzfs::{Errno, NodeResult};

use super::node_id::{self, CONTROL_ID, HEAD, NodeId, SNAPSHOTS_ID};
use super::{FileSystem, answer};
use crate::options::Caching;
use crate::proto::Dirents;
use crate::proto::wire::{self, EntryOut, OpenOut, ROOT_ID, ReadIn, fopen};

/// Name of the control directory, in the root directory.
pub(super) const CONTROL_NAME: &CStr = c".zfs";
const SNAPSHOTS_NAME: &CStr = c"snapshot";

/// The position after `.zfs`, which is the last entry of a listing.
const END: u64 = i64::MAX as u64 - 1;

/// Handle of the directories of `.zfs`, which need no state.
const CONTROL_HANDLE: u64 = u64::MAX;

/// How long the kernel may cache entries of `.zfs`: snapshots are created and destroyed without notifying it.
const CONTROL_TRUST: Duration = Duration::from_secs(1);

/// Entries of a listing, gathered before their attributes are read.
#[derive(Default)]
struct Gathered {
    names: Vec<u8>,
    entries: Vec<One>,
}

struct One {
    end: usize,
    object: u64,
    kind: u8,
    next: u64,
}

impl FileSystem {
    pub(super) fn opendir(&self, nodeid: u64, out: &mut [u8]) -> NodeResult<usize> {
        if !matches!(self.decode(nodeid), NodeId::Object { .. }) {
            return answer(out, &OpenOut { fh: CONTROL_HANDLE, ..OpenOut::default() });
        }
        let (tree, node) = self.node(nodeid)?;
        let cached = self.options.caching != Caching::Through && !self.shows_control(nodeid);
        let open_flags = if cached { fopen::CACHE_DIR | fopen::KEEP_CACHE } else { 0 };
        answer(out, &OpenOut { fh: self.handles.open(tree, node, 0), open_flags, padding: 0 })
    }

    /// Lists a directory from a position on, as many entries as fit.
    pub(super) fn readdir(
        &self,
        nodeid: u64,
        read: &ReadIn,
        plus: bool,
        out: &mut [u8],
    ) -> NodeResult<usize> {
        let room = out.len().min(read.size as usize);
        let mut list = Dirents::new(&mut out[..room]);
        let NodeId::Object { tree, .. } = self.decode(nodeid) else {
            self.list_control(nodeid, read.offset, plus, &mut list)?;
            return Ok(list.used());
        };
        if read.offset != END {
            let ended = if plus {
                self.list_plus(tree, read, &mut list)?
            } else {
                self.list_plain(tree, read, &mut list)?
            };
            if ended && self.shows_control(nodeid) {
                let entry = self.control_entry(CONTROL_ID);
                let name = CONTROL_NAME.to_bytes();
                list.push(name, CONTROL_ID, libc::DT_DIR, END, plus.then_some(&entry));
            }
        }
        Ok(list.used())
    }

    /// Whether `.zfs` is listed in this directory. Reads the property each time, because it may change while mounted; the root
    /// directory is not listed often.
    fn shows_control(&self, nodeid: u64) -> bool {
        nodeid == ROOT_ID && self.head.get("snapdir").is_ok_and(|value| value == "visible")
    }

    /// Lists names. Returns true if the listing is complete.
    fn list_plain(&self, tree: u16, read: &ReadIn, list: &mut Dirents<'_>) -> NodeResult<bool> {
        let handle = self.handles.get(read.fh)?;
        let mut ended = true;
        handle.node.read_dir(read.offset, &mut |e| {
            let ino = node_id::inode(tree, e.object);
            ended = list.push(e.name.to_bytes(), ino, e.kind, e.next, None);
            ended
        })?;
        Ok(ended)
    }

    fn list_plus(&self, tree: u16, read: &ReadIn, list: &mut Dirents<'_>) -> NodeResult<bool> {
        let handle = self.handles.get(read.fh)?;
        let (mut all, mut used, mut ended) = (Gathered::default(), 0, true);
        handle.node.read_dir(read.offset, &mut |e| {
            used += Dirents::length(e.name.count_bytes(), true);
            ended = used <= list.room();
            if ended {
                all.names.extend_from_slice(e.name.to_bytes());
                let end = all.names.len();
                all.entries.push(One { end, object: e.object, kind: e.kind, next: e.next });
            }
            ended
        })?;
        let mut start = 0;
        for one in &all.entries {
            let name = &all.names[start..one.end];
            start = one.end;
            // An entry may lack attributes; the kernel then requests them when it needs them. `.` and `..` must lack them.
            // Attributes that the kernel has cached are omitted too, because reading them is the main cost of a listing.
            let without = matches!(name, b"." | b"..")
                || self.lookup_counts.is_fresh(node_id::id(tree, one.object, self.root_object));
            let entry = match without {
                true => EntryOut::default(),
                false => self.known_entry(tree, one.object).unwrap_or_default(),
            };
            list.push(name, node_id::inode(tree, one.object), one.kind, one.next, Some(&entry));
        }
        Ok(ended)
    }

    fn known_entry(&self, tree: u16, object: u64) -> NodeResult<EntryOut> {
        let (_, node) = self.node(node_id::id(tree, object, self.root_object))?;
        self.entry(tree, &node)
    }

    // ---- .zfs ----

    /// Attributes of a directory of `.zfs`; `None` for all others.
    pub(super) fn control_attr(&self, nodeid: u64) -> NodeResult<Option<wire::Attr>> {
        if matches!(self.decode(nodeid), NodeId::Object { .. }) {
            return Ok(None);
        }
        let root = self.root.attr()?;
        let time = root.crtime.seconds.max(0) as u64;
        Ok(Some(wire::Attr {
            ino: nodeid,
            size: 2,
            atime: time,
            mtime: time,
            ctime: time,
            mode: libc::S_IFDIR | 0o555,
            nlink: 2,
            blksize: 4096,
            ..wire::Attr::default()
        }))
    }

    /// The kernel's entry for a directory of `.zfs`. It has no lookup count.
    pub(super) fn control_entry(&self, nodeid: u64) -> EntryOut {
        EntryOut {
            nodeid,
            entry_valid: CONTROL_TRUST.as_secs(), // `snapdir` may be set at any time
            attr_valid: CONTROL_TRUST.as_secs(),
            attr: self.control_attr(nodeid).ok().flatten().unwrap_or_default(),
            ..EntryOut::default()
        }
    }

    pub(super) fn lookup_control(&self, parent: u64, name: &CStr, out: &mut [u8]) -> NodeResult<usize> {
        let up = name == c"..";
        match self.decode(parent) {
            NodeId::Control if up => answer(out, &self.entry(HEAD, &self.root)?),
            NodeId::Control if name == c"." => answer(out, &self.control_entry(CONTROL_ID)),
            NodeId::Control if name == SNAPSHOTS_NAME => answer(out, &self.control_entry(SNAPSHOTS_ID)),
            NodeId::Snapshots if up => answer(out, &self.control_entry(CONTROL_ID)),
            NodeId::Snapshots if name == c"." => answer(out, &self.control_entry(SNAPSHOTS_ID)),
            NodeId::Snapshots => {
                let name = name.to_str().map_err(|_| Errno(libc::ENOENT))?;
                let (tree, root) = self.snapshots.enter(name)?;
                let entry = self.entry(tree, &root);
                self.snapshots.leave(tree); // if `entry` succeeded, its lookup count keeps the snapshot open
                let trust = CONTROL_TRUST.as_secs();
                answer(out, &EntryOut { entry_valid: trust, entry_valid_nsec: 0, ..entry? })
            }
            _ => Err(Errno(libc::ENOENT)),
        }
    }

    fn list_control(&self, nodeid: u64, from: u64, plus: bool, list: &mut Dirents<'_>) -> NodeResult<()> {
        let mut all = vec![(".".to_owned(), nodeid)];
        match self.decode(nodeid) {
            NodeId::Control => {
                all.push(("..".into(), node_id::inode(HEAD, self.root_object)));
                all.push((SNAPSHOTS_NAME.to_string_lossy().into_owned(), SNAPSHOTS_ID));
            }
            _ => {
                all.push(("..".into(), CONTROL_ID));
                // A snapshot gets its inode number when it is entered; until then, use one that no file has.
                all.extend(self.snapshots.names()?.into_iter().map(|name| (name, SNAPSHOTS_ID - 1)));
            }
        }
        let none = EntryOut::default();
        for (at, (name, ino)) in all.iter().enumerate().skip(from as usize) {
            let next = at as u64 + 1;
            if !list.push(name.as_bytes(), *ino, libc::DT_DIR, next, plus.then_some(&none)) {
                break;
            }
        }
        Ok(())
    }
}
