//! Finds processes that may write a database's files. A copy that is made while they run would not be consistent.
//!
//! The attributes of open files are not queried, because `stat` blocks forever on a network file system whose server is gone. The file
//! system of an open file is taken from the mount tables.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use crate::device::Device;
use crate::mountinfo::{self, MountEntry};
use crate::process::{self, ProcessStat, WritableFile};

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

/// As [`find_writers`]: the one that is most likely the database's.
pub fn find_writer(roots: &[PathBuf]) -> Option<Writer> {
    find_writers(roots).into_iter().next()
}

/// The processes that have a file below one of `roots` open, or mapped, for writing. Those of a database come first: a server works in its
/// directory, is the parent of its workers, and has more files open than others.
///
/// Only root sees the processes of other users. In a process with other mounts (in a container, for example), the same path can lead to
/// another file: one that is on a file system that is mounted here, but not at or below `roots`, does not count. Neither does a file system
/// that is not mounted here, unless it is a dataset.
pub fn find_writers(roots: &[PathBuf]) -> Vec<Writer> {
    Search::new(roots, false).run()
}

/// As [`find_writers_of_mounts`]: the one that is most likely the database's.
pub fn find_writer_of_mounts(roots: &[PathBuf]) -> Option<Writer> {
    find_writers_of_mounts(roots).into_iter().next()
}

/// As [`find_writers`], and also the processes that have a file of the same file systems open by another path: in a container, or
/// through another mount. `roots` must be mount points.
pub fn find_writers_of_mounts(roots: &[PathBuf]) -> Vec<Writer> {
    Search::new(roots, true).run()
}

/// How long the file system of a detached mount may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// One search through all processes.
struct Search<'a> {
    roots: &'a [PathBuf],
    /// The mounts of this process.
    mounts: Vec<MountEntry>,
    own_namespace: Option<PathBuf>,
    /// The mounts of other mount namespaces.
    others: HashMap<PathBuf, Vec<MountEntry>>,
    /// The file systems of mounts that are in no table.
    detached: HashMap<u64, Option<Device>>,
    /// The file systems on which every file counts, whatever its path.
    wanted: Vec<Device>,
    /// The file systems that are mounted here, but neither contain the directories nor are mounted below them.
    elsewhere: Vec<Device>,
}

impl<'a> Search<'a> {
    fn new(roots: &'a [PathBuf], whole_file_systems: bool) -> Search<'a> {
        let mounts = mountinfo::read().unwrap_or_default();
        let holders = roots.iter().filter_map(|root| mountinfo::containing(&mounts, root));
        let holders: Vec<Device> = holders.map(|mount| mount.device).collect();
        let inner = roots.iter().flat_map(|root| mountinfo::below(&mounts, root)).map(|mount| mount.device);
        let here: Vec<Device> = holders.iter().copied().chain(inner).collect();
        let elsewhere = mounts.iter().map(|mount| mount.device).filter(|of| !here.contains(of)).collect();
        Search {
            roots,
            own_namespace: process::mount_namespace(std::process::id() as i32),
            others: HashMap::new(),
            detached: HashMap::new(),
            wanted: if whole_file_systems { holders } else { Vec::new() },
            elsewhere,
            mounts,
        }
    }

    fn run(mut self) -> Vec<Writer> {
        let mut found = Vec::new();
        for pid in process::ids().unwrap_or_default() {
            let files = self.files_of(pid);
            if let Some(path) = files.first() {
                let works_here = process::working_directory(pid).is_some_and(|dir| self.is_below(&dir));
                let parent = ProcessStat::read(pid).map(|stat| stat.parent);
                let writer = Writer { pid, name: process::name(pid), path: path.clone() };
                found.push((!works_here, parent, std::cmp::Reverse(files.len()), writer));
            }
        }
        let pids: HashSet<i32> = found.iter().map(|(.., writer)| writer.pid).collect();
        found.sort_by_key(|(is_foreign, parent, files, writer)| {
            (*is_foreign, parent.is_some_and(|parent| pids.contains(&parent)), *files, writer.pid)
        });
        found.into_iter().map(|(.., writer)| writer).collect()
    }

    /// The files of the database that a process has open or mapped for writing.
    fn files_of(&mut self, pid: i32) -> Vec<PathBuf> {
        // If the namespace cannot be told, it counts as this one.
        let namespace = process::mount_namespace(pid).filter(|of| Some(of) != self.own_namespace.as_ref());
        let open: Vec<WritableFile> = process::open_for_writing(pid).collect();
        let mut files = Vec::new();
        for file in open {
            let device = self.device_of(pid, namespace.as_deref(), &file);
            files.extend(self.is_ours(namespace.as_deref(), device, &file.path).then_some(file.path));
        }
        let mapped = process::mapped_for_writing(pid);
        let mapped = mapped.filter(|(of, path)| self.is_ours(namespace.as_deref(), Some(*of), path));
        files.extend(mapped.map(|(_, path)| path));
        files
    }

    fn is_below(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// The file system of an open file.
    fn device_of(&mut self, pid: i32, namespace: Option<&Path>, file: &WritableFile) -> Option<Device> {
        let id = file.mount?;
        let find = |mounts: &[MountEntry]| mounts.iter().find(|mount| mount.id == id).map(|of| of.device);
        let table = namespace.map(|namespace| {
            self.others
                .entry(namespace.to_owned())
                .or_insert_with(|| mountinfo::of_process(pid).unwrap_or_default())
                .as_slice()
        });
        let known = table.and_then(find).or_else(|| find(&self.mounts));
        known.or_else(|| *self.detached.entry(id).or_insert_with(|| device_in_time(file.link.clone())))
    }

    /// Whether a file of a process is one of the database. `namespace`: if the process has other mounts than this one.
    fn is_ours(&self, namespace: Option<&Path>, device: Option<Device>, path: &Path) -> bool {
        if device.is_some_and(|device| self.wanted.contains(&device)) {
            return true;
        }
        match (namespace, device) {
            (None, _) => self.is_below(path),
            (Some(_), None) => self.is_below(path),
            (Some(namespace), Some(device)) => {
                self.is_below(path)
                    && !self.elsewhere.contains(&device)
                    && self.may_be_here(namespace, device)
            }
        }
    }

    /// Whether a file system of another mount namespace can be one that belongs at these directories: it is mounted here too, or is a
    /// dataset, which may be mounted only there. The root file systems of many containers are mounted only there.
    fn may_be_here(&self, namespace: &Path, device: Device) -> bool {
        if self.mounts.iter().any(|mount| mount.device == device) {
            return true;
        }
        let table = self.others.get(namespace);
        let there = table.and_then(|mounts| mounts.iter().find(|mount| mount.device == device));
        // What is not known may be.
        there.is_none_or(|mount| mount.file_system == "zfs" || mount.file_system.starts_with("fuse"))
    }
}

/// The file system of a file whose mount was detached (`umount -l`), as far as it answers: a network file system may not.
fn device_in_time(link: PathBuf) -> Option<Device> {
    let (answer, answered) = mpsc::channel();
    // The thread ends with the process at the latest: such waits end when it is killed.
    std::thread::spawn(move || answer.send(Device::of_file(&link)));
    answered.recv_timeout(ANSWER_TIME).ok().flatten()
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

    #[test]
    fn a_server_comes_before_a_process_with_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let start = |script: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &format!("{script} echo open; read -r _"), "sh"]).arg(&root);
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
            let mut child = command.spawn().unwrap();
            let output = child.stdout.as_mut().unwrap();
            std::io::Read::read_exact(output, &mut [0; 5]).unwrap();
            child
        };
        let children = [
            // The child inherits both files and opens one more.
            start("exec 8>>\"$1/log\" 7>>\"$1/log\"; sleep 100 6>>\"$1/log\" & trap \"kill $!\" EXIT;"),
            start("cd \"$1\"; exec 8>>table;"),
            start("exec 8>>\"$1/log\";"),
        ];
        let mut found: Vec<i32> = find_writers(&[root]).iter().map(|of| of.pid).collect();
        let [many, server, one] = [0, 1, 2].map(|at| children[at].id() as i32);
        assert_eq!(found.len(), 4, "{found:?}");
        assert_ne!(found.pop(), Some(many), "a parent comes before its child");
        assert_eq!(found, [server, many, one]);
        for mut child in children {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
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
