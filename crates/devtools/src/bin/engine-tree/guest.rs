//! The guest's half of the tests against a kernel: the same trees and manifests as `main.rs`, through system
//! calls on mounted datasets. Built alone, with rustc and linked statically, by scripts/vm/image.sh.
//!
//!     tree make DIR SEED NODES         makes a tree
//!     tree change DIR SEED N [--sync]  N random operations; with --sync each change is durable before the next
//!     tree list NAME=DIR…              prints the manifest of datasets mounted at DIR
//!
//! `--utf8` keeps to names that a dataset with utf8only takes, `--no-empty` to extended attributes with a value.

use std::ffi::{CString, OsStr, c_char, c_int, c_long, c_uint, c_void};
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Error, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

#[allow(dead_code)]
mod manifest;
mod plan;
mod random;
mod sha256;
use manifest::{Content, Facts};
use plan::{SystemResult, FILE, LINK, TreeShape, FileTree, Way};

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn mknod(path: *const c_char, mode: c_uint, device: u64) -> c_int;
    fn utimensat(dir: c_int, path: *const c_char, times: *const Timespec, flags: c_int) -> c_int;
    fn lsetxattr(
        path: *const c_char,
        name: *const c_char,
        value: *const c_void,
        len: usize,
        flags: c_int,
    ) -> c_int;
    fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int;
    fn llistxattr(path: *const c_char, list: *mut c_char, len: usize) -> isize;
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, len: usize) -> isize;
    fn lseek(file: c_int, offset: i64, whence: c_int) -> i64;
    fn syncfs(file: c_int) -> c_int;
    fn fallocate(file: c_int, mode: c_int, offset: i64, length: i64) -> c_int;
    fn copy_file_range(
        from: c_int,
        from_offset: *mut i64,
        to: c_int,
        to_offset: *mut i64,
        len: usize,
        flags: c_uint,
    ) -> isize;
    fn renameat2(dir: c_int, path: *const c_char, to: c_int, new: *const c_char, flags: c_uint) -> c_int;
}

const AT_FDCWD: c_int = -100;
const AT_SYMLINK_NOFOLLOW: c_int = 0x100;
const UTIME_OMIT: c_long = (1 << 30) - 2;
const O_DSYNC: c_int = 0o10_000;
const PUNCH_HOLE: c_int = 2;
const KEEP_SIZE: c_int = 1;
const SEEK_DATA: c_int = 3;
const SEEK_HOLE: c_int = 4;
/// From this size on a file is read by its data only.
const SPARSE: u64 = 1 << 30;
const PAGE: u64 = 4096;

fn errno(error: Error) -> i32 {
    error.raw_os_error().unwrap_or(5)
}

fn checked(result: impl Into<i64>) -> SystemResult {
    if result.into() < 0 { Err(errno(Error::last_os_error())) } else { Ok(()) }
}

struct Mounted {
    root: PathBuf,
}

impl Mounted {
    fn path(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(OsStr::from_bytes(path)) }
    }

    fn c(&self, path: &[u8]) -> CString {
        CString::new(self.path(path).into_os_string().into_vec()).expect("no zero byte in a path")
    }
}

fn c(text: &str) -> CString {
    CString::new(text).expect("no zero byte in a name")
}

/// As Linux and glibc number devices in a stat structure.
fn device_number((major, minor): (u32, u32)) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12 | (major & !0xfff) << 32
}

fn device_parts(number: u64) -> (u32, u32) {
    ((number >> 8 & 0xfff | number >> 32 & !0xfff) as u32, (number & 0xff | number >> 12 & !0xff) as u32)
}

impl FileTree for Mounted {
    fn make(&mut self, path: &[u8], mode: u32, device: (u32, u32)) -> SystemResult {
        if mode & 0o170_000 == plan::DIRECTORY {
            return fs::create_dir(self.path(path)).map_err(errno);
        }
        // SAFETY: a C string, as in all calls below.
        checked(unsafe { mknod(self.c(path).as_ptr(), mode, device_number(device)) })
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> SystemResult {
        std::os::unix::fs::symlink(OsStr::from_bytes(target), self.path(path)).map_err(errno)
    }

    fn write(&mut self, path: &[u8], offset: u64, data: &[u8], sync: bool) -> SystemResult {
        let flags = if sync { O_DSYNC } else { 0 };
        let file = OpenOptions::new().write(true).custom_flags(flags).open(self.path(path)).map_err(errno)?;
        file.write_all_at(data, offset).map_err(errno)
    }

    fn truncate(&mut self, path: &[u8], size: u64) -> SystemResult {
        let file = OpenOptions::new().write(true).open(self.path(path)).map_err(errno)?;
        file.set_len(size).map_err(errno)
    }

    fn punch(&mut self, path: &[u8], offset: u64, length: u64) -> SystemResult {
        let file = OpenOptions::new().write(true).open(self.path(path)).map_err(errno)?;
        // SAFETY: an open descriptor.
        checked(unsafe {
            fallocate(file.as_raw_fd(), PUNCH_HOLE | KEEP_SIZE, offset as i64, length as i64)
        })
    }

    fn copy(&mut self, path: &[u8], to: &[u8], offset: u64) -> SystemResult {
        let same = path == to;
        let from = File::open(self.path(path)).map_err(errno)?;
        let to = OpenOptions::new().write(true).open(self.path(to)).map_err(errno)?;
        let size = from.metadata().map_err(errno)?.len().min(plan::MAX_COPIED) as i64;
        // A kernel's OpenZFS 2.3 waits for itself for ever when a file of one block is cloned into itself behind its end:
        // zfs_clone_range locks what it reads, and then all of the file, because its block has to grow.
        if same {
            let mut data = vec![0; size as usize];
            from.read_exact_at(&mut data, 0).map_err(errno)?;
            return to.write_all_at(&data, offset).map_err(errno);
        }
        let (mut at, mut into) = (0, offset as i64);
        while at < size {
            let (from, to, len) = (from.as_raw_fd(), to.as_raw_fd(), (size - at) as usize);
            // SAFETY: two open descriptors and two positions, which the call moves on.
            let done = unsafe { copy_file_range(from, &mut at, to, &mut into, len, 0) };
            checked(done as i64)?;
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
        let times = [
            Timespec { seconds: 0, nanoseconds: UTIME_OMIT },
            Timespec { seconds, nanoseconds: nanoseconds.into() },
        ];
        // SAFETY: two times, as the call wants them.
        checked(unsafe { utimensat(AT_FDCWD, self.c(path).as_ptr(), times.as_ptr(), AT_SYMLINK_NOFOLLOW) })
    }

    fn link(&mut self, path: &[u8], new: &[u8]) -> SystemResult {
        fs::hard_link(self.path(path), self.path(new)).map_err(errno)
    }

    fn rename(&mut self, path: &[u8], new: &[u8], flags: u32) -> SystemResult {
        let (path, new) = (self.c(path), self.c(new));
        // SAFETY: two C strings.
        checked(unsafe { renameat2(AT_FDCWD, path.as_ptr(), AT_FDCWD, new.as_ptr(), flags) })
    }

    fn unlink(&mut self, path: &[u8]) -> SystemResult {
        fs::remove_file(self.path(path)).map_err(errno)
    }

    fn rmdir(&mut self, path: &[u8]) -> SystemResult {
        fs::remove_dir(self.path(path)).map_err(errno)
    }

    fn set_xattr(&mut self, path: &[u8], name: &str, value: &[u8]) -> SystemResult {
        let (path, name) = (self.c(path), c(name));
        // SAFETY: `value` is readable for its length.
        checked(unsafe { lsetxattr(path.as_ptr(), name.as_ptr(), value.as_ptr().cast(), value.len(), 0) })
    }

    fn remove_xattr(&mut self, path: &[u8], name: &str) -> SystemResult {
        // SAFETY: two C strings.
        checked(unsafe { lremovexattr(self.c(path).as_ptr(), c(name).as_ptr()) })
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
        // SAFETY: an open descriptor.
        checked(unsafe { syncfs(root.as_raw_fd()) })
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
            device: if special { device_parts(found.rdev()) } else { (0, 0) },
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
                // SAFETY: an open descriptor, as below.
                let data = unsafe { lseek(file.as_raw_fd(), at as i64, SEEK_DATA) };
                if data < 0 {
                    break; // only a hole is left
                }
                // SAFETY: as above.
                end = unsafe { lseek(file.as_raw_fd(), data, SEEK_HOLE) } as u64;
                at = at.max(data as u64 / PAGE * PAGE);
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
        let path = self.c(path);
        let mut list = vec![0u8; 65_536];
        // SAFETY: `list` is writable for its length.
        let len = unsafe { llistxattr(path.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
        checked(len as i64)?;
        let mut out = Vec::new();
        for name in list[..len as usize].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let mut value = vec![0u8; 65_536];
            let c = CString::new(name).expect("split at zero bytes");
            // SAFETY: `value` is writable for its length.
            let len = unsafe { lgetxattr(path.as_ptr(), c.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
            checked(len as i64)?;
            value.truncate(len as usize);
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
