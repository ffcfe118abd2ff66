//! Finds processes that may write a database's files. A copy made meanwhile would not be a consistent state.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::{mountinfo, process};

/// A process with a file open for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Its process ID.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// One of the files.
    pub path: PathBuf,
}

/// The first process that has a file below one of `roots` open, or mapped, for writing. Only root sees the processes of other
/// users. In a process with other mounts (in a container, for example), the same path can lead to another file: one that is on a file
/// system that is mounted here, but not at or below `roots`, does not count. Neither does a file system that is not mounted here, unless it is a
/// dataset.
pub fn find_writer(roots: &[PathBuf]) -> Option<Writer> {
    let is_below = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let mut elsewhere = None;
    process::ids().unwrap_or_default().into_iter().find_map(|pid| {
        let path = match process::shares_mounts(pid) {
            true => {
                let mut open = process::open_for_writing(pid);
                open.find(|path| is_below(path)).or_else(|| {
                    process::mapped_for_writing(pid).map(|(_, path)| path).find(|path| is_below(path))
                })
            }
            false => {
                let (mounts, elsewhere) = elsewhere.get_or_insert_with(|| {
                    let mounts = mountinfo::read().unwrap_or_default();
                    let devices = devices_elsewhere(roots, &mounts);
                    (mounts, devices)
                });
                let files = process::devices_open_for_writing(pid).chain(process::mapped_for_writing(pid));
                let mut files = files.filter(|(device, _)| !elsewhere.contains(&Device::from_raw(*device)));
                files
                    .find(|(device, path)| {
                        is_below(path) && may_be_here(pid, Device::from_raw(*device), mounts)
                    })
                    .map(|(_, path)| path)
            }
        };
        Some(Writer { pid, name: process::name(pid), path: path? })
    })
}

/// The file systems that are mounted here, but neither contain these directories nor are mounted below them. `stat(2)` could wait for a
/// network file system, so the table of mounts is used.
fn devices_elsewhere(roots: &[PathBuf], mounts: &[mountinfo::MountEntry]) -> Vec<Device> {
    let holders = roots.iter().filter_map(|root| mountinfo::containing(mounts, root));
    let inner = roots.iter().flat_map(|root| mountinfo::below(mounts, root));
    let here: Vec<Device> = holders.chain(inner).map(|mount| mount.device).collect();
    mounts.iter().map(|mount| mount.device).filter(|device| !here.contains(device)).collect()
}

/// Whether a file system of another mount namespace can be one that belongs at these directories: it is mounted here too, or is a dataset,
/// which may be mounted only there. The root file systems of many containers are mounted only there.
fn may_be_here(pid: i32, device: Device, mounts: &[mountinfo::MountEntry]) -> bool {
    if mounts.iter().any(|mount| mount.device == device) {
        return true;
    }
    let table = std::fs::read(Path::new("/proc").join(pid.to_string()).join("mountinfo")).unwrap_or_default();
    let there = mountinfo::parse(&table).into_iter().find(|mount| mount.device == device);
    // What is not known may be.
    there.is_none_or(|mount| mount.file_system == "zfs" || mount.file_system.starts_with("fuse"))
}

/// As [`find_writer`], and also a process that has a file of the same file systems open by another path: in a container, or
/// through another mount. `roots` must be mount points.
pub fn find_writer_of_mounts(roots: &[PathBuf]) -> Option<Writer> {
    let devices: Vec<u64> =
        roots.iter().filter_map(|root| Some(std::fs::metadata(root).ok()?.dev())).collect();
    find_writer(roots).or_else(|| {
        process::ids().unwrap_or_default().into_iter().find_map(|pid| {
            let mut open = process::devices_open_for_writing(pid);
            let (_, path) = open.find(|(device, _)| devices.contains(device))?;
            Some(Writer { pid, name: process::name(pid), path })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_open_for_writing_is_found_and_one_for_reading_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let roots = [dir.path().canonicalize().unwrap()];
        let path = roots[0].join("table");
        fs::write(&path, "rows").unwrap();
        let reader = fs::File::open(&path).unwrap();
        assert_eq!(find_writer(&roots), None);
        drop(reader);
        let open = fs::File::options().append(true).open(&path).unwrap();
        let found = find_writer(&roots).unwrap();
        assert_eq!((found.pid, &found.path), (std::process::id() as i32, &path));
        // Another directory of the same file system: only its device is the same.
        let other = tempfile::tempdir().unwrap();
        assert!(find_writer_of_mounts(&[other.path().to_owned()]).is_some());
        drop(open);
        assert_eq!(find_writer(&roots), None);
    }

    /// A process in another mount namespace, in which another file system is mounted on the directory.
    #[test]
    fn the_same_path_with_another_file_system_is_another_file() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make a mount namespace");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let held = |mount: &str| {
            let script = format!("{mount} exec 9>\"$1/table\"; echo open; read -r _");
            let mut command = std::process::Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-ec", &script, "sh"]).arg(&root);
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut line = String::new();
            std::io::BufRead::read_line(
                &mut std::io::BufReader::new(child.stdout.take().unwrap()),
                &mut line,
            )
            .unwrap();
            (line.trim() == "open").then_some(child)
        };
        let end = |mut child: std::process::Child| {
            drop(child.stdin.take());
            child.wait().unwrap();
        };
        let Some(other) = held("mount -t tmpfs tmpfs \"$1\";") else {
            eprintln!("skipped: this machine makes no mount namespaces");
            return;
        };
        assert_eq!(find_writer(std::slice::from_ref(&root)), None);
        end(other);
        let same = held("").unwrap();
        let found = find_writer(std::slice::from_ref(&root)).unwrap();
        assert_eq!((found.pid, found.path), (same.id() as i32, root.join("table")));
        end(same);
    }
}
