//! Names: lookup, creation, links, renames, removal.

use std::ffi::CStr;

use poolwright_openzfs::node::New;
use poolwright_openzfs::{Errno, Node, NodeResult};

use super::attr::decode_device;
use super::node_id::{self, HEAD, NodeId};
use super::{FileSystem, answer, answer_bytes, is_dots, owner};
use crate::proto::wire::{CreateIn, EntryOut, InHeader, MknodIn, OpenOut};

const RENAME_EXCHANGE: u32 = libc::RENAME_EXCHANGE;

impl FileSystem {
    pub(super) fn lookup(&self, parent: u64, name: &CStr, out: &mut [u8]) -> NodeResult<usize> {
        match self.decode(parent) {
            NodeId::Control | NodeId::Snapshots => return self.lookup_control(parent, name, out),
            NodeId::Object { tree: HEAD, object } if object == self.root_object => {
                if name == super::dir::CONTROL_NAME {
                    if self.head.get("snapdir").is_ok_and(|value| value == "disabled") {
                        return Err(Errno(libc::ENOENT)); // not cached, because the property may change
                    }
                    return answer(out, &self.control_entry(node_id::CONTROL_ID));
                }
            }
            NodeId::Object { .. } => {}
        }
        let (tree, dir) = self.node(parent)?;
        let found = if name == c"." { Ok(dir) } else { dir.lookup(name) };
        match found {
            Ok(node) => answer(out, &self.entry(tree, &node)?),
            // Names are created only through the kernel, so it may cache that this one does not exist.
            Err(Errno(libc::ENOENT)) => answer(
                out,
                &EntryOut {
                    entry_valid: self.options.trust.as_secs(),
                    entry_valid_nsec: self.options.trust.subsec_nanos(),
                    ..EntryOut::default()
                },
            ),
            Err(why) => Err(why),
        }
    }

    pub(super) fn readlink(&self, nodeid: u64, out: &mut [u8]) -> NodeResult<usize> {
        answer_bytes(out, &self.node(nodeid)?.1.target()?)
    }

    fn make(&self, parent: u64, name: &CStr, new: &New<'_>, out: &mut [u8]) -> NodeResult<usize> {
        let node = self.writable(parent)?.make(name, new)?;
        answer(out, &self.entry(HEAD, &node)?)
    }

    pub(super) fn symlink(
        &self,
        header: &InHeader,
        name: &CStr,
        target: &CStr,
        out: &mut [u8],
    ) -> NodeResult<usize> {
        let (uid, gid) = owner(header);
        let new = New { mode: libc::S_IFLNK | 0o777, uid, gid, device: (0, 0), target: Some(target) };
        self.make(header.nodeid, name, &new, out)
    }

    pub(super) fn mknod(
        &self,
        header: &InHeader,
        new: &MknodIn,
        name: &CStr,
        out: &mut [u8],
    ) -> NodeResult<usize> {
        let (uid, gid) = owner(header);
        let new = New { mode: new.mode, uid, gid, device: decode_device(new.rdev), target: None };
        self.make(header.nodeid, name, &new, out)
    }

    pub(super) fn mkdir(
        &self,
        header: &InHeader,
        mode: u32,
        name: &CStr,
        out: &mut [u8],
    ) -> NodeResult<usize> {
        let (uid, gid) = owner(header);
        let mode = libc::S_IFDIR | mode & 0o7777;
        self.make(header.nodeid, name, &New { mode, uid, gid, ..New::default() }, out)
    }

    pub(super) fn create(
        &self,
        header: &InHeader,
        create: &CreateIn,
        name: &CStr,
        out: &mut [u8],
    ) -> NodeResult<usize> {
        let dir = self.writable(header.nodeid)?;
        let flags = create.flags as i32;
        let node = match dir.make(name, &new_file(header, create)) {
            Err(Errno(libc::EEXIST)) if flags & libc::O_EXCL == 0 => {
                let node = dir.lookup(name)?;
                self.opening(&node, flags, create.open_flags)?;
                node
            }
            made => made?,
        };
        self.entry_and_open(node, flags, out)
    }

    /// Creates a file without a name. It exists for as long as it is open or the kernel knows it, and can be linked.
    pub(super) fn tmpfile(&self, header: &InHeader, create: &CreateIn, out: &mut [u8]) -> NodeResult<usize> {
        let node = self.writable(header.nodeid)?.make_unnamed(&new_file(header, create))?;
        let len = self.entry_and_open(node.clone(), create.flags as i32, out)?;
        self.lookup_counts.hold(self.id_of(node.object()), node);
        Ok(len)
    }

    fn entry_and_open(&self, node: Node, flags: i32, out: &mut [u8]) -> NodeResult<usize> {
        let entry = self.entry(HEAD, &node)?;
        let open_flags = self.open_flags(flags);
        let at = answer(out, &entry)?;
        let open = OpenOut { fh: self.handles.open(HEAD, node, flags), open_flags, padding: 0 };
        Ok(at + answer(&mut out[at..], &open)?)
    }

    pub(super) fn link(&self, existing: u64, parent: u64, name: &CStr, out: &mut [u8]) -> NodeResult<usize> {
        let dir = self.writable(parent)?;
        let node = match self.decode(existing) {
            NodeId::Object { tree: HEAD, .. } => self.node(existing)?.1,
            _ => return Err(Errno(libc::EXDEV)),
        };
        dir.link(name, &node)?;
        let entry = self.entry(HEAD, &node)?;
        self.lookup_counts.release(entry.nodeid);
        answer(out, &entry)
    }

    pub(super) fn unlink(&self, parent: u64, name: &CStr, directory: bool) -> NodeResult<usize> {
        let dir = self.writable(parent)?;
        if is_dots(name) {
            return Err(Errno(if name == c"." { libc::EINVAL } else { libc::ENOTEMPTY }));
        }
        // Hold the victim during the removal: its number must not be reused before its lookup count is checked.
        let victim = dir.lookup(name)?;
        let gone = if directory { dir.rmdir(name)? } else { dir.unlink(name)? };
        self.gone(gone, Some(victim));
        Ok(0)
    }

    pub(super) fn rename(&self, from: (u64, &CStr), to: (u64, &CStr), flags: u32) -> NodeResult<usize> {
        let source = self.writable(from.0)?;
        if from.0 == to.0 {
            return self.rename_in(&source, from.1, &source, to.1, flags);
        }
        if !matches!(self.decode(to.0), NodeId::Object { tree: HEAD, .. }) {
            return Err(Errno(libc::EXDEV));
        }
        self.rename_in(&source, from.1, &self.writable(to.0)?, to.1, flags)
    }

    fn rename_in(
        &self,
        source: &Node,
        name: &CStr,
        target: &Node,
        new: &CStr,
        flags: u32,
    ) -> NodeResult<usize> {
        let victim = match flags & RENAME_EXCHANGE {
            0 => target.lookup(new).ok(),
            _ => None,
        };
        let gone = source.rename(name, target, new, flags)?;
        self.gone(gone, victim);
        Ok(0)
    }

    /// Holds an object that has lost its last name, while the kernel knows it.
    fn gone(&self, object: Option<u64>, node: Option<Node>) {
        if let (Some(object), Some(node)) = (object, node)
            && node.object() == object
        {
            self.lookup_counts.hold(self.id_of(object), node);
        }
    }
}

fn new_file(header: &InHeader, create: &CreateIn) -> New<'static> {
    let (uid, gid) = owner(header);
    New { mode: libc::S_IFREG | create.mode & 0o7777, uid, gid, ..New::default() }
}
