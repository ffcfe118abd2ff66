//! The followed directories: the given one, those mounted below it, and the targets of links.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use poolwright_base::mountinfo::{self, MountEntry};
use rustix::fs::{AtFlags, StatxFlags, statx};

use crate::error::Result;

/// The extension of a file that contains the path of a table outside of MariaDB's data directory (`DATA DIRECTORY`).
pub(crate) const LINK_FILE: &str = "isl";
/// `O_PATH`: a descriptor that refers to the file without opening it (`open(2)`).
const O_PATH: i32 = 0o10000000;
/// The number of files announced between two reads of the ring buffer.
const BATCH: usize = 256;
/// The maximum number of files announced; the programs see others when they are used.
const MAX_ANNOUNCED: usize = 500_000;
/// `MAX_ROOTS` of `bpf/record.h`.
const MAX_ROOTS: usize = 4096;
/// A longer file does not contain a path.
const MAX_PATH: u64 = 4096;
/// Directories of the system, in which no database has files. A link there, to a certificate for example, is not followed.
const SYSTEM: [&str; 11] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr"];

/// Calls during the announcement of files.
pub(crate) struct Announcing<'a> {
    /// Empties the ring buffer.
    pub drain: &'a mut dyn FnMut() -> Result<()>,
    /// Receives the path of a root before its first file.
    pub named: &'a mut dyn FnMut(&Path) -> Result<()>,
}

/// The roots: what the programs follow with everything below it. Files below a link are called by its name. The roots stay open
/// because the programs identify them by address.
#[derive(Default)]
pub(crate) struct Roots {
    pub paths: Vec<PathBuf>,
    open: Vec<File>,
    /// Where each root really is.
    real: Vec<PathBuf>,
    /// Device and inode of each root.
    known: HashSet<(u64, u64)>,
    /// Links that lead to nothing yet.
    broken: Vec<PathBuf>,
    announced: usize,
    /// Links and mounts that were followed after the start.
    late: u64,
    /// Links that are not followed: the first, and their number.
    ignored: Option<(PathBuf, u64)>,
    /// Roots beyond the table.
    excess: u64,
    /// Whether a root, or a file that a followed process has mapped, is on overlayfs.
    pub overlay: bool,
}

impl Roots {
    /// Announces the directory, what is mounted below it, and what its links lead to. The caller has made this thread the announcer.
    pub fn follow(&mut self, dir: &Path, mounts: &[MountEntry], to: &mut Announcing<'_>) -> Result<()> {
        let below: Vec<&Path> = mountinfo::below(mounts, dir).map(|mount| mount.point.as_path()).collect();
        // The programs must know all mounts before they see a file below one of them.
        for path in std::iter::once(dir).chain(below) {
            self.add(path, to)?;
        }
        self.show_files(dir, to)
    }

    /// Follows what has changed since: another directory at the path, new mounts, and `leads`, which may be links.
    pub fn follow_changes(
        &mut self,
        mounts: Option<&[MountEntry]>,
        leads: Vec<PathBuf>,
        to: &mut Announcing<'_>,
    ) -> Result<()> {
        let Some(dir) = self.paths.first().cloned() else { return Ok(()) };
        let mounted = mountinfo::below(mounts.unwrap_or_default(), &dir).map(|mount| mount.point.clone());
        let places: Vec<PathBuf> = std::iter::once(dir.clone()).chain(mounted).collect();
        for path in places {
            if self.add(&path, to)? {
                self.late += 1;
                self.show_files(&path, to)?;
            }
        }
        for link in std::mem::take(&mut self.broken).into_iter().chain(leads) {
            let before = self.paths.len();
            self.follow_link(&link, to)?;
            self.late += (self.paths.len() - before) as u64;
        }
        Ok(())
    }

    /// Returns whether there is another directory at the path than the followed one, or a link leads to nothing.
    pub fn is_outdated(&self) -> bool {
        let replaced = |dir: &PathBuf| {
            fs::metadata(dir).is_ok_and(|found| !self.known.contains(&(found.dev(), found.ino())))
        };
        !self.broken.is_empty() || self.paths.first().is_some_and(replaced)
    }

    /// The entries of `unseen`.
    pub fn unseen(&self) -> Vec<(String, u64)> {
        let mut out = Vec::new();
        if self.late > 0 {
            let what = "links, mounts and directories made during the recording (operations behind them in their first second)";
            out.push((what.to_owned(), self.late));
        }
        if let Some((first, count)) = &self.ignored {
            out.push((
                format!(
                    "links to directories of the system or above the directory, not followed: {}",
                    first.display()
                ),
                *count,
            ));
        }
        if self.excess > 0 {
            out.push((format!("links and mounts beyond the table's {MAX_ROOTS}"), self.excess));
        }
        if self.overlay {
            out.push(("page faults of maps on overlayfs that were made before the recording".to_owned(), 0));
        }
        let served = poolwright_base::kernel_users::paths()
            .into_iter()
            .filter(|path| self.real.iter().any(|root| is_shared(path, root)))
            .count();
        if served > 0 {
            let what = "loop devices, swap files and NFS exports in the directory (the kernel's own reads and writes)";
            out.push((what.to_owned(), served as u64));
        }
        out
    }

    /// Announces a root. Returns false if it is known or does not exist.
    fn add(&mut self, path: &Path, to: &mut Announcing<'_>) -> Result<bool> {
        let Ok(file) = opened(path) else { return Ok(false) };
        let Ok(found) = file.metadata() else { return Ok(false) };
        if !self.known.insert((found.dev(), found.ino())) {
            return Ok(false);
        }
        if self.paths.len() >= MAX_ROOTS {
            self.excess += 1;
            return Ok(false);
        }
        (to.named)(path)?;
        self.overlay |= is_on_overlay(path);
        // What is asked tells the programs that this is a root.
        let _ = statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::INO);
        self.paths.push(path.to_owned());
        self.real.push(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        self.open.push(file);
        Ok(true)
    }

    fn show_files(&mut self, dir: &Path, to: &mut Announcing<'_>) -> Result<()> {
        let mut todo = vec![dir.to_owned()];
        let mut links = Vec::new();
        while let Some(dir) = todo.pop() {
            // A directory that vanishes or cannot be read has no files to announce.
            let Ok(entries) = fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                let path = entry.path();
                if kind.is_symlink() || path.extension().is_some_and(|extension| extension == LINK_FILE) {
                    links.push(path.clone());
                }
                if kind.is_dir() {
                    todo.push(path);
                } else if kind.is_file() && self.announced < MAX_ANNOUNCED {
                    show(&path);
                    self.announced += 1;
                    if self.announced.is_multiple_of(BATCH) {
                        (to.drain)()?;
                    }
                }
            }
        }
        (to.drain)()?;
        for link in links {
            self.follow_link(&link, to)?;
        }
        Ok(())
    }

    /// Follows a symbolic link, or a file that contains a path.
    fn follow_link(&mut self, link: &Path, to: &mut Announcing<'_>) -> Result<()> {
        let Ok(found) = fs::symlink_metadata(link) else { return Ok(()) };
        let (name, target) = if found.is_symlink() {
            (link.to_owned(), link.canonicalize())
        } else if found.is_file() && found.len() <= MAX_PATH {
            let text = fs::read_to_string(link).unwrap_or_default();
            let dir = self.paths.first().cloned().unwrap_or_default();
            let path = dir.join(text.trim_end_matches(['\0', '\r', '\n', ' ']));
            (path.clone(), path.canonicalize())
        } else {
            return Ok(());
        };
        let Ok(target) = target else {
            self.broken.push(link.to_owned());
            return Ok(());
        };
        if self.real.iter().any(|root| target.starts_with(root)) {
            return Ok(());
        }
        let above = self.paths.first().is_some_and(|dir| dir.starts_with(&target));
        if above || SYSTEM.iter().any(|dir| target.starts_with(dir)) {
            self.ignored.get_or_insert_with(|| (link.to_owned(), 0)).1 += 1;
        } else if target.is_dir() {
            if self.add(&name, to)? {
                self.show_files(&name, to)?;
            }
        } else if target.is_file() {
            self.add(&name, to)?;
        }
        Ok(())
    }
}

/// Whether the path is on overlayfs.
pub(crate) fn is_on_overlay(path: &Path) -> bool {
    const OVERLAYFS_MAGIC: u64 = 0x794c_7630;
    rustix::fs::statfs(path).is_ok_and(|found| found.f_type as u64 == OVERLAYFS_MAGIC)
}

/// Whether one of the paths contains the other.
fn is_shared(path: &Path, root: &Path) -> bool {
    path.starts_with(root) || root.starts_with(path)
}

fn opened(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).custom_flags(O_PATH).open(path)
}

/// Opens a path and calls `statx` on the descriptor, which the programs recognize as an announcement.
pub(crate) fn show(path: &Path) {
    if let Ok(file) = opened(path) {
        let _ = file.metadata();
    }
}
