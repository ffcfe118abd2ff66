//! Rollback of the dataset to a snapshot while programs use it. No request is served during the rollback ([`crate::sharded_lock`]).
//!
//! An object that exists before and after, by number and generation, stays open and keeps its lookup count. One that no
//! longer exists is stale: requests on its open files fail with `EIO`, and requests on its node ID with `ESTALE`, after
//! which the kernel looks up the name again.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use poolwright_openzfs::{Dataset, Errno, Error, Node, NodeResult, Result};

use super::handles::Suspended;
use super::node_id::{self, HEAD};
use super::{FileSystem, is_dots};
use crate::options::Caching;

/// How long to wait for other holders of the dataset, for example a command that reads its properties.
const PATIENCE: Duration = Duration::from_secs(10);

/// The names and nodes that the kernel must drop from its caches after a rollback.
#[derive(Default)]
pub(crate) struct Stale {
    /// Directories, and names in them that were added or removed, or refer to another object.
    pub(crate) names: Vec<(u64, CString)>,
    /// All nodes that the kernel knows: it must read their attributes and pages again.
    pub(crate) nodes: Vec<u64>,
}

/// The result of a rollback.
pub(crate) struct RolledBack {
    /// `None`: the dataset could not be opened again.
    pub(crate) fs: Option<FileSystem>,
    pub(crate) result: Result<Stale>,
}

fn engine(doing: &'static str, dataset: &Dataset, Errno(errno): Errno) -> Error {
    Error::Engine { what: doing, on: dataset.name().to_owned(), errno }
}

impl FileSystem {
    /// The generation of an object that is reported to the kernel, which keeps 32 bits of it. If they change, the kernel
    /// treats the object as a different one with the same number.
    ///
    /// With `caching=writeback`, the kernel never asks for the length of a file that it knows. Every rollback therefore
    /// changes the generation of every file.
    pub(super) fn reported_generation(&self, tree: u16, generation: u64, mode: u32) -> u32 {
        let file = tree == HEAD && mode & libc::S_IFMT == libc::S_IFREG;
        (generation as u32).wrapping_add(if file { self.replaced << 24 } else { 0 })
    }

    /// Rolls the dataset back to its latest snapshot. Pages that the kernel writes back afterwards are dropped, until
    /// [`FileSystem::lift_fence`].
    pub(crate) fn roll_back(self, snapshot: &str) -> RolledBack {
        let stale = match self.stale_after(snapshot) {
            Ok(stale) => stale,
            Err(why) => {
                let why = engine("comparing with the snapshot", &self.head, why);
                return RolledBack { fs: Some(self), result: Err(why) };
            }
        };
        let open = self.handles.suspend(HEAD);
        self.lookup_counts.let_go(|nodeid| node_id::tree(nodeid) == HEAD);
        let FileSystem {
            head, root, root_object, options, lookup_counts, handles, snapshots, replaced, ..
        } = self;
        drop(root);
        let (head, done) = match close(head) {
            Err(head) => (Ok(head), Err(Error::Busy(format!("{} (beside its mount)", snapshots.dataset())))),
            Ok(()) => {
                let done = snapshots.pool().rollback(snapshots.dataset(), snapshot);
                (snapshots.pool().open_dataset(snapshots.dataset()), done)
            }
        };
        let opened = head.and_then(|head| {
            let root = head.root().map_err(|why| engine("opening the root directory of", &head, why))?;
            Ok((head, root))
        });
        let (head, root) = match opened {
            Ok(opened) => opened,
            Err(why) => return RolledBack { fs: None, result: Err(why) },
        };
        let files_are_replaced = options.caching == Caching::Writeback && done.is_ok();
        let fs = FileSystem {
            head,
            root,
            root_object,
            options,
            lookup_counts,
            handles,
            snapshots,
            capabilities: 0.into(),
            replaced: replaced.wrapping_add(u32::from(files_are_replaced)),
            fenced: AtomicBool::new(done.is_ok()),
        };
        fs.resume(&open, files_are_replaced);
        RolledBack { fs: Some(fs), result: done.map(|()| stale) }
    }

    /// Accepts pages that the kernel writes back, because it has been notified and has dropped the old ones.
    pub(crate) fn lift_fence(&self) {
        self.fenced.store(false, Relaxed);
    }

    /// Reopens the handles of objects that still exist.
    fn resume(&self, open: &[Suspended], files_are_replaced: bool) {
        for was in open {
            let Ok(node) = self.head.node(was.object) else { continue };
            let replaced = files_are_replaced && node.mode() & libc::S_IFMT == libc::S_IFREG;
            if node.generation() == was.generation && !replaced {
                self.handles.resume(HEAD, was, node);
            }
        }
    }

    fn stale_after(&self, snapshot: &str) -> NodeResult<Stale> {
        let (tree, root) = self.snapshots.enter(snapshot)?;
        drop(root);
        let names = self.names_that_differ(tree);
        self.snapshots.leave(tree);
        let mut nodes = self.lookup_counts.ids(|nodeid| node_id::tree(nodeid) == HEAD);
        nodes.push(self.id_of(self.root_object));
        Ok(Stale { names: names?, nodes })
    }

    /// Names that differ from the snapshot and that the kernel may have cached as present or absent, in the directories that
    /// it knows. An object that was replaced by another with the same number is detected by its generation.
    fn names_that_differ(&self, tree: u16) -> NodeResult<Vec<(u64, CString)>> {
        let mut names = Vec::new();
        let mut waiting = vec![self.root_object];
        let mut seen: HashSet<u64> = waiting.iter().copied().collect();
        while let Some(object) = waiting.pop() {
            let parent = self.id_of(object);
            let dir = self.head.node(object)?;
            let mut now: HashMap<CString, u64> = HashMap::new();
            dir.read_dir(0, &mut |e| {
                if !is_dots(e.name) {
                    now.insert(e.name.to_owned(), e.object);
                    let known = e.kind == libc::DT_DIR && self.lookup_counts.contains(self.id_of(e.object));
                    if known && seen.insert(e.object) {
                        waiting.push(e.object);
                    }
                }
                true
            })?;
            if let Some(before) = self.same(tree, &dir) {
                before.read_dir(0, &mut |e| {
                    if !is_dots(e.name) && now.remove(e.name) != Some(e.object) {
                        names.push((parent, e.name.to_owned()));
                    }
                    true
                })?;
            }
            let known = |(_, object): &(CString, u64)| self.lookup_counts.contains(self.id_of(*object));
            names.extend(now.into_iter().filter(known).map(|(name, _)| (parent, name)));
        }
        Ok(names)
    }

    /// The same object in a snapshot, if it exists there.
    fn same(&self, tree: u16, node: &Node) -> Option<Node> {
        let before = self.snapshots.node(tree, node.object()).ok()?;
        (before.generation() == node.generation()).then_some(before)
    }
}

/// Closes the dataset once all other holders have released it. Returns it after [`PATIENCE`].
fn close(mut head: Dataset) -> std::result::Result<(), Dataset> {
    let start = Instant::now();
    loop {
        match head.close() {
            Ok(()) => return Ok(()),
            Err(held) if start.elapsed() > PATIENCE => return Err(held),
            Err(held) => head = held,
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
