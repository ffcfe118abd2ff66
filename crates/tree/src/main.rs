//! The guest's half of the tests against a kernel: the same trees and manifests as those of `engine-tree` (crates/devtools), through
//! system calls on mounted datasets. scripts/vm/image.sh builds it.
//!
//!     tree make DIR SEED NODES         makes a tree
//!     tree change DIR SEED N [--sync]  N random operations; with --sync each change is durable before the next
//!     tree list NAME=DIR…              prints the manifest of datasets mounted at DIR
//!
//! `--utf8` keeps to names that a dataset with utf8only takes, `--no-empty` to extended attributes with a value.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Error, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use poolwright_tree::manifest::{self, Content, Facts};
use poolwright_tree::plan::{self, FILE, FileTree, LINK, SystemResult, TreeShape, Way};
use rustix::fs::{
    self as system, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, RenameFlags, SeekFrom, Timespec,
    XattrFlags,
};
use rustix::io::Errno;

/// From this size on a file is read by its data only.
const SPARSE: u64 = 1 << 30;
const PAGE: u64 = 4096;

fn errno(error: Error) -> i32 {
    error.raw_os_error().unwrap_or(5)
}

fn checked<T>(result: Result<T, Errno>) -> SystemResult<T> {
    result.map_err(Errno::raw_os_error)
}

struct Mounted {
    root: PathBuf,
}

impl Mounted {
    fn path(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(OsStr::from_bytes(path)) }
    }
}

impl FileTree for Mounted {
    fn make(&mut self, path: &[u8], mode: u32, device: (u32, u32)) -> SystemResult {
        if mode & 0o170_000 == plan::DIRECTORY {
            return fs::create_dir(self.path(path)).map_err(errno);
        }
        let (kind, mode) = (FileType::from_raw_mode(mode), Mode::from_raw_mode(mode));
        checked(system::mknodat(CWD, self.path(path), kind, mode, system::makedev(device.0, device.1)))
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> SystemResult {
        std::os::unix::fs::symlink(OsStr::from_bytes(target), self.path(path)).map_err(errno)
    }

    fn write(&mut self, path: &[u8], offset: u64, data: &[u8], sync: bool) -> SystemResult {
        let flags = if sync { OFlags::DSYNC } else { OFlags::empty() };
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags.bits() as i32)
            .open(self.path(path))
            .map_err(errno)?;
        file.write_all_at(data, offset).map_err(errno)
    }

    fn truncate(&mut self, path: &[u8], size: u64) -> SystemResult {
        let file = OpenOptions::new().write(true).open(self.path(path)).map_err(errno)?;
        file.set_len(size).map_err(errno)
    }

    fn punch(&mut self, path: &[u8], offset: u64, length: u64) -> SystemResult {
        let file = OpenOptions::new().write(true).open(self.path(path)).map_err(errno)?;
        checked(system::fallocate(
            file,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            offset,
            length,
        ))
    }

    fn copy(&mut self, path: &[u8], to: &[u8], offset: u64) -> SystemResult {
        let from = File::open(self.path(path)).map_err(errno)?;
        let to = OpenOptions::new().write(true).open(self.path(to)).map_err(errno)?;
        let facts = from.metadata().map_err(errno)?;
        let size = facts.len().min(plan::MAX_COPIED);
        // Two names can be links to the same file.
        let same = facts.ino() == to.metadata().map_err(errno)?.ino();
        // A kernel's OpenZFS 2.3 waits for itself for ever when a file of one block is cloned into itself behind its end:
        // zfs_clone_range locks what it reads, and then all of the file, because its block has to grow.
        if same {
            let mut data = vec![0; size as usize];
            from.read_exact_at(&mut data, 0).map_err(errno)?;
            return to.write_all_at(&data, offset).map_err(errno);
        }
        let (mut at, mut into) = (0, offset);
        while at < size {
            let left = (size - at) as usize;
            let done = checked(system::copy_file_range(&from, Some(&mut at), &to, Some(&mut into), left))?;
            if done == 0 {
                return Err(5);
            }
        }
        Ok(())
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> SystemResult {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).map_err(errno)
    }

    fn chown(&mut self, path: &[u8], uid: u32, gid: u32) -> SystemResult {
        std::os::unix::fs::lchown(self.path(path), Some(uid), Some(gid)).map_err(errno)
    }

    fn utime(&mut self, path: &[u8], seconds: i64, nanoseconds: u32) -> SystemResult {
        let times = system::Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: system::UTIME_OMIT },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
        };
        checked(system::utimensat(CWD, self.path(path), &times, AtFlags::SYMLINK_NOFOLLOW))
    }

    fn link(&mut self, path: &[u8], new: &[u8]) -> SystemResult {
        fs::hard_link(self.path(path), self.path(new)).map_err(errno)
    }

    fn rename(&mut self, path: &[u8], new: &[u8], flags: u32) -> SystemResult {
        let flags = RenameFlags::from_bits_retain(flags);
        checked(system::renameat_with(CWD, self.path(path), CWD, self.path(new), flags))
    }

    fn unlink(&mut self, path: &[u8]) -> SystemResult {
        fs::remove_file(self.path(path)).map_err(errno)
    }

    fn rmdir(&mut self, path: &[u8]) -> SystemResult {
        fs::remove_dir(self.path(path)).map_err(errno)
    }

    fn set_xattr(&mut self, path: &[u8], name: &str, value: &[u8]) -> SystemResult {
        checked(system::lsetxattr(self.path(path), name, value, XattrFlags::empty()))
    }

    fn remove_xattr(&mut self, path: &[u8], name: &str) -> SystemResult {
        checked(system::lremovexattr(self.path(path), name))
    }

    /// fsync where a node can be opened for it; else the whole dataset.
    fn commit(&mut self, path: &[u8]) -> SystemResult {
        let path = self.path(path);
        let kind = fs::symlink_metadata(&path).map_err(errno)?.file_type();
        if kind.is_file() || kind.is_dir() {
            return File::open(path).and_then(|file| file.sync_all()).map_err(errno);
        }
        self.sync()
    }

    fn exists(&mut self, path: &[u8]) -> bool {
        fs::symlink_metadata(self.path(path)).is_ok()
    }

    fn walk(&mut self) -> SystemResult<Vec<(Vec<u8>, u32)>> {
        let (mut out, mut todo) = (Vec::new(), vec![Vec::new()]);
        while let Some(dir) = todo.pop() {
            for entry in fs::read_dir(self.path(&dir)).map_err(errno)? {
                let entry = entry.map_err(errno)?;
                let name = entry.file_name().into_vec();
                let path = if dir.is_empty() { name } else { [&dir[..], b"/", &name].concat() };
                let found = fs::symlink_metadata(entry.path()).map_err(errno)?;
                if found.is_dir() {
                    todo.push(path.clone());
                }
                out.push((path, found.mode()));
            }
        }
        out.sort();
        Ok(out)
    }
}

impl Mounted {
    fn sync(&self) -> SystemResult {
        let root = File::open(&self.root).map_err(errno)?;
        checked(system::syncfs(root))
    }

    fn facts(&self, path: &[u8]) -> SystemResult<Facts> {
        let found = fs::symlink_metadata(self.path(path)).map_err(errno)?;
        let content = match found.mode() & 0o170_000 {
            FILE => self.content(path, found.size())?,
            LINK => {
                let target = fs::read_link(self.path(path)).map_err(errno)?;
                manifest::plain(target.as_os_str().as_bytes())
            }
            _ => String::new(),
        };
        let special = found.file_type().is_block_device() || found.file_type().is_char_device();
        Ok(Facts {
            object: found.ino(),
            mode: found.mode(),
            uid: found.uid(),
            gid: found.gid(),
            size: found.size(),
            links: found.nlink(),
            device: if special { (system::major(found.rdev()), system::minor(found.rdev())) } else { (0, 0) },
            mtime: (found.mtime(), found.mtime_nsec() as u32),
            block_size: found.blksize(),
            content,
            xattrs: self.xattrs(path)?,
        })
    }

    fn content(&self, path: &[u8], size: u64) -> SystemResult<String> {
        let file = File::open(self.path(path)).map_err(errno)?;
        let (mut content, mut at, mut buffer) = (Content::new(), 0, vec![0u8; 1 << 20]);
        while at < size {
            let mut end = size;
            if size >= SPARSE {
                let Ok(data) = system::seek(&file, SeekFrom::Data(at)) else {
                    break; // only a hole is left
                };
                end = checked(system::seek(&file, SeekFrom::Hole(data)))?;
                at = at.max(data / PAGE * PAGE);
            }
            while at < end {
                let want = (size.min(end.next_multiple_of(PAGE)) - at).min(buffer.len() as u64) as usize;
                file.read_exact_at(&mut buffer[..want], at).map_err(errno)?;
                content.data(at, &buffer[..want]);
                at += want as u64;
            }
        }
        Ok(content.hex())
    }

    fn xattrs(&self, path: &[u8]) -> SystemResult<Vec<(Vec<u8>, Vec<u8>)>> {
        let path = self.path(path);
        let mut list = vec![0u8; 65_536];
        let len = checked(system::llistxattr(&path, &mut list))?;
        let mut out = Vec::new();
        for name in list[..len].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0u8; 65_536];
            let len = checked(system::lgetxattr(&path, name, &mut value))?;
            value.truncate(len);
            out.push((name.to_vec(), value));
        }
        Ok(out)
    }
}

fn list(datasets: &[String]) -> SystemResult {
    let mut out = BufWriter::new(std::io::stdout().lock());
    for dataset in datasets {
        let (name, dir) = dataset.split_once('=').ok_or(22)?;
        let mut tree = Mounted { root: dir.into() };
        let mut paths = tree.walk()?;
        paths.insert(0, (Vec::new(), 0));
        for (path, _) in paths {
            let line = tree.facts(&path)?.line(name, &path);
            writeln!(out, "{line}").map_err(errno)?;
        }
    }
    out.flush().map_err(errno)
}

fn run(words: &[String]) -> SystemResult {
    let flag = |name: &str| words.iter().any(|word| word == name);
    let plain: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let number = |text: &str| text.parse::<u64>().map_err(|_| 22);
    let any_name = !flag("--utf8");
    match plain[..] {
        ["list", ..] => list(&words[1..]),
        ["make", dir, seed, nodes] => {
            let shape = TreeShape { nodes: number(nodes)? as usize, wide: 0, huge: false, any_name };
            plan::make(&mut Mounted { root: dir.into() }, number(seed)?, &shape)
        }
        ["change", dir, seed, operations] => {
            let mut tree = Mounted { root: dir.into() };
            let operations = number(operations)? as usize;
            let sync = flag("--sync");
            let way = Way { operations, any_name, commit: sync, apart: sync, no_empty: flag("--no-empty") };
            plan::change(&mut tree, number(seed)?, way)?;
            if sync { tree.sync() } else { Ok(()) }
        }
        _ => Err(22),
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Err(errno) = run(&words) {
        eprintln!("tree {}: {}", words.join(" "), Error::from_raw_os_error(errno));
        std::process::exit(1);
    }
}
