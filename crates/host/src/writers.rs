//! Finds processes that may write a database's files. A copy made meanwhile would not be a consistent state.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

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
/// users. In a process with other mounts (in a container, for example), the same path can lead to another file, so the file must also be
/// on one of the file systems that are at or below `roots` here.
pub fn find_writer(roots: &[PathBuf]) -> Option<Writer> {
    let is_below = |path: &PathBuf| roots.iter().any(|root| Path::new(path).starts_with(root));
    let mut devices = None;
    process::ids().unwrap_or_default().into_iter().find_map(|pid| {
        let open = match process::shares_mounts(pid) {
            true => process::open_for_writing(pid).find(is_below),
            false => {
                let here = devices.get_or_insert_with(|| devices_below(roots));
                let mut open = process::devices_open_for_writing(pid);
                open.find(|(device, path)| here.contains(device) && is_below(path)).map(|(_, path)| path)
            }
        };
        let path = open.or_else(|| process::mapped_for_writing(pid).into_iter().find(is_below))?;
        Some(Writer { pid, name: process::name(pid), path })
    })
}

/// The device numbers (`st_dev`) of the file systems of these directories, and of those that are mounted below them.
fn devices_below(roots: &[PathBuf]) -> Vec<u64> {
    let mounts = mountinfo::read().unwrap_or_default();
    let inner = roots.iter().flat_map(|root| mountinfo::below(&mounts, root)).map(|mount| &mount.point);
    roots.iter().chain(inner).filter_map(|dir| Some(std::fs::metadata(dir).ok()?.dev())).collect()
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
