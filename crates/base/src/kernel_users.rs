//! Users of files that are not processes: the kernel itself reads and writes these files, and no process has them open.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::mountinfo::unescape;

/// A part of the kernel that may write a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelUser {
    /// What it is: `loop device loop3`, `swap space`, `NFS export`.
    pub name: String,
    /// The file, or the exported directory.
    pub path: PathBuf,
}

/// The directory of block devices.
const BLOCK: &str = "/sys/block";
/// The table of swap spaces (`proc_swaps(5)`).
const SWAPS: &str = "/proc/swaps";
/// The tables of exported directories: that of `exportfs(8)`, and the entries that the server has requested from it.
const EXPORTS: [&str; 2] = ["/var/lib/nfs/etab", "/proc/fs/nfsd/exports"];

/// Loop devices that write to a backing file below one of `roots`, swap files there, and directories that are exported by NFS for writing.
pub fn find(roots: &[PathBuf]) -> Vec<KernelUser> {
    let is_below = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let swaps = swap_files(&std::fs::read(SWAPS).unwrap_or_default());
    let swaps = swaps.into_iter().map(|path| KernelUser { name: "swap space".to_owned(), path });
    let writers = loop_devices(Path::new(BLOCK)).into_iter().filter(|(_, is_read_only)| !is_read_only);
    let writers = writers.map(|(device, _)| device).chain(swaps);
    let mut users: Vec<KernelUser> = writers.filter(|user| is_below(&user.path)).collect();
    for (path, options) in all_exports() {
        // A file system that is mounted in an exported directory is not exported without this option.
        let holds =
            options.contains(&"crossmnt".to_owned()) && roots.iter().any(|root| root.starts_with(&path));
        if options.contains(&"rw".to_owned()) && (is_below(&path) || holds) {
            users.push(KernelUser { name: "NFS export".to_owned(), path });
        }
    }
    users.dedup();
    users
}

/// All files and directories that the kernel reads or writes itself, wherever they are.
pub fn paths() -> Vec<PathBuf> {
    let devices = loop_devices(Path::new(BLOCK)).into_iter().map(|(device, _)| device.path);
    let swaps = swap_files(&std::fs::read(SWAPS).unwrap_or_default());
    devices.chain(swaps).chain(all_exports().into_iter().map(|(path, _)| path)).collect()
}

/// The loop devices, and whether each is read-only.
fn loop_devices(dir: &Path) -> Vec<(KernelUser, bool)> {
    let devices = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let device = |entry: std::fs::DirEntry| {
        let backing = std::fs::read(entry.path().join("loop/backing_file")).ok()?;
        let is_read_only = std::fs::read(entry.path().join("ro")).is_ok_and(|ro| ro.trim_ascii() == b"1");
        let path = PathBuf::from(OsString::from_vec(backing.trim_ascii_end().to_vec()));
        let name = format!("loop device {}", entry.file_name().to_string_lossy());
        Some((KernelUser { name, path }, is_read_only))
    };
    devices.filter_map(device).collect()
}

fn all_exports() -> Vec<(PathBuf, Vec<String>)> {
    EXPORTS.iter().flat_map(|table| exports(&std::fs::read(table).unwrap_or_default())).collect()
}

fn swap_files(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n').skip(1);
    let first = lines.filter_map(|line| line.split(|byte| byte.is_ascii_whitespace()).next());
    first.filter(|path| path.starts_with(b"/")).map(path_of).collect()
}

/// The directories and the options of each line `DIR CLIENT(OPTION,…)…`. Several clients can have several sets of options.
fn exports(table: &[u8]) -> Vec<(PathBuf, Vec<String>)> {
    let lines = table.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"/"));
    let export = |line: &[u8]| {
        let (path, clients) = line.split_at(line.iter().position(u8::is_ascii_whitespace)?);
        let clients = String::from_utf8_lossy(clients).into_owned();
        let options = clients.split(['(', ')', ',', ' ', '\t']).map(str::to_owned).collect();
        Some((path_of(path), options))
    };
    lines.filter_map(export).collect()
}

fn path_of(escaped: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(&unescape(escaped)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_swap_spaces_and_exports() {
        let swaps = b"Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/srv/my\\040db/swap  file  1024 0 -2\n\
            /dev/dm-1   partition 9 0 -3\n";
        assert_eq!(swap_files(swaps), [Path::new("/srv/my db/swap"), Path::new("/dev/dm-1")]);
        let table = b"# Version 1.1\n/srv/pg\t192.0.2.0/24(rw,sync,wdelay)\n/srv/ro *(ro,sync)\n";
        let found = exports(table);
        assert_eq!(found.len(), 2);
        assert!(found[0].0 == Path::new("/srv/pg") && found[0].1.contains(&"rw".to_owned()));
        assert!(!found[1].1.contains(&"rw".to_owned()));
    }

    #[test]
    fn backing_files_of_loop_devices() {
        let dir = tempfile::tempdir().unwrap();
        for (name, backing, ro) in [("loop0", "/srv/a file\n", "0\n"), ("loop1", "/srv/b\n", "1\n")] {
            std::fs::create_dir_all(dir.path().join(name).join("loop")).unwrap();
            std::fs::write(dir.path().join(name).join("loop/backing_file"), backing).unwrap();
            std::fs::write(dir.path().join(name).join("ro"), ro).unwrap();
        }
        std::fs::create_dir(dir.path().join("vda")).unwrap();
        let mut found = loop_devices(dir.path());
        found.sort_by_key(|(device, _)| device.path.clone());
        let device =
            |name: &str, path: &str| KernelUser { name: format!("loop device {name}"), path: path.into() };
        assert_eq!(found, [(device("loop0", "/srv/a file"), false), (device("loop1", "/srv/b"), true)]);
    }
}
