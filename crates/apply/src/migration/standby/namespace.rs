//! Runs programs in a mount namespace in which the new datasets are mounted in place of the present ones.
//!
//! A standby server uses the same paths as its primary: the database contains the paths of its tablespaces, and the standby creates the
//! directories of new ones. On the same host, both servers would write the same files. Therefore, the standby's programs run in a separate
//! mount namespace, in which the new datasets are mounted on the database's directories, and all other file systems that store files are
//! read-only.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use poolwright_base::{cannot, mountinfo, process};
use poolwright_dbms::owner::UserAndGroup;
use poolwright_dbms::program::{Programs, command_as};
use poolwright_dbms::server::{TIED, tie_to_parent};
use rustix::process::{Pid, Signal, kill_process};

use crate::Result;
use crate::error::refused;
use crate::migration::work::MigrationWork;

/// Arguments: the number of pairs of directories, the pairs; the number of mounts that are not needed, these; the number of read-only
/// mounts, these; and a command. A mount that has ended in the meantime is left out.
const SCRIPT: &str = r#"
set -e
count=$1
shift
while [ "$count" -gt 0 ]; do
    # The owner of a directory above can put a link in its place, so the directory is entered and compared.
    cd -- "$2"
    if [ "$(pwd -P)" != "$2" ]; then
        echo "$2 is not at its place" >&2
        exit 1
    fi
    mount --no-canonicalize -o bind "$1" .
    cd /
    shift 2
    count=$((count - 1))
done
count=$1
shift
while [ "$count" -gt 0 ]; do
    umount -l "$1" 2>/dev/null || :
    shift
    count=$((count - 1))
done
count=$1
shift
while [ "$count" -gt 0 ]; do
    if ! said=$(mount -o remount,bind,ro "$1" 2>&1) && mountpoint -q "$1"; then
        echo "$said" >&2
        exit 1
    fi
    shift
    count=$((count - 1))
done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
exec "$@"
"#;

/// File systems that keep no files of programs; they stay as they are.
const OF_THE_KERNEL: [&str; 18] = [
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devtmpfs",
    "devpts",
    "mqueue",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "pstore",
    "efivarfs",
    "configfs",
    "fusectl",
    "hugetlbfs",
    "binfmt_misc",
    "autofs",
];

/// The user who makes the mounts.
const ROOT: UserAndGroup = (0, 0);
/// How long killed processes may take to end.
const EXIT_TIME: Duration = Duration::from_secs(30);
/// How often they are looked for.
const POLL: Duration = Duration::from_millis(50);

/// Where programs see what.
#[derive(Clone, Debug)]
pub(super) struct Namespace {
    /// A directory, and where it is mounted.
    bound: Vec<(PathBuf, PathBuf)>,
    /// User and group of the programs.
    owner: UserAndGroup,
}

impl Namespace {
    /// The new datasets, mounted in place of the present ones. `scratch` is writable too.
    pub fn new(work: &MigrationWork, scratch: &Path, owner: UserAndGroup) -> Namespace {
        let mut bound: Vec<(PathBuf, PathBuf)> =
            work.moves.iter().map(|of| (of.staging.clone(), of.mountpoint.clone())).collect();
        bound.push((scratch.to_owned(), scratch.to_owned()));
        Namespace { bound, owner }
    }

    /// The mounts that can keep files, and are not the new datasets.
    fn read_only(&self) -> Result<Vec<PathBuf>> {
        let mounts = mountinfo::read()?;
        let is_kept = |mount: &&mountinfo::MountEntry| {
            !OF_THE_KERNEL.contains(&mount.file_system.as_str())
                && !mount.source.to_string_lossy().contains('@')
                && mount.point != Path::new("/dev/shm")
                && !self.bound.iter().any(|(_, to)| mount.point.starts_with(to))
        };
        let mut points: Vec<PathBuf> = mounts.iter().filter(is_kept).map(|of| of.point.clone()).collect();
        points.sort();
        points.dedup();
        Ok(points)
    }

    /// The mounts of snapshots, which the kernel makes when they are read. A further mount would keep a snapshot from being destroyed.
    fn snapshots() -> Result<Vec<PathBuf>> {
        let mounts = mountinfo::read()?;
        let is_snapshot = |mount: &&mountinfo::MountEntry| {
            mount.file_system == "zfs" && mount.source.to_string_lossy().contains('@')
        };
        Ok(mounts.iter().filter(is_snapshot).map(|of| of.point.clone()).collect())
    }

    /// A command that runs a program there, as the owner. It is killed if this process ends.
    pub fn command(&self, program: &Path) -> Result<Command> {
        self.command_with(program, &self.read_only()?)
    }

    /// As [`Namespace::command`], for a program that writes nothing.
    pub fn reading_command(&self, program: &Path) -> Result<Command> {
        self.command_with(program, &[])
    }

    fn command_with(&self, program: &Path, read_only: &[PathBuf]) -> Result<Command> {
        let setpriv = tie_to_parent(&Programs::default(), self.owner)?;
        // Root makes the mounts. Once more before the program, because another user's processes lose it.
        let mut command = command_as(ROOT, &setpriv);
        command.args(TIED).arg(unshare()?).args([
            "--mount",
            "--ipc",
            "--propagation",
            "private",
            "--",
            "/bin/sh",
            "-c",
            SCRIPT,
            "sh",
        ]);
        command.arg(self.bound.len().to_string());
        command.args(self.bound.iter().flat_map(|(from, to)| [from, to]));
        let snapshots = Namespace::snapshots()?;
        for points in [&snapshots[..], read_only] {
            command.arg(points.len().to_string()).args(points);
        }
        let (user, group) = self.owner;
        let as_owner: [OsString; 5] = [
            "--reuid".into(),
            user.to_string().into(),
            "--regid".into(),
            group.to_string().into(),
            "--clear-groups".into(),
        ];
        command.arg(&setpriv).args(as_owner).args(TIED).arg(program);
        command.current_dir("/");
        Ok(command)
    }
}

fn unshare() -> Result<PathBuf> {
    match Programs::default().find("unshare") {
        Some(program) => Ok(program),
        None => refused("unshare of util-linux is not installed\nhint: install it"),
    }
}

/// Refuses if this process cannot make a mount namespace: in a container, for example.
pub(super) fn check() -> Result<()> {
    let mut command = command_as(ROOT, &unshare()?);
    command.args(["--mount", "--ipc", "--propagation", "private", "/bin/true"]);
    let said = match command.output() {
        Ok(done) if done.status.success() => return Ok(()),
        Ok(done) => String::from_utf8_lossy(&done.stderr).trim().to_owned(),
        Err(why) => why.to_string(),
    };
    refused(format!("no mount namespace can be made: {said}\nhint: move it without a standby"))
}

/// The processes in whose mount namespace a new dataset is mounted in the place of a present one: those of a standby, also of one whose run
/// was killed.
pub(super) fn processes(work: &MigrationWork) -> Result<Vec<Pid>> {
    let mounts = mountinfo::read()?;
    let staged: Vec<_> = work
        .moves
        .iter()
        .filter_map(|of| Some((mountinfo::on(&mounts, &of.staging)?.device, &of.mountpoint)))
        .collect();
    let is_inside = |pid: &i32| {
        let path = Path::new("/proc").join(pid.to_string()).join("mountinfo");
        let table = std::fs::read(path).unwrap_or_default();
        let mounts = mountinfo::parse(&table);
        staged
            .iter()
            .any(|(device, point)| mountinfo::on(&mounts, point).is_some_and(|of| of.device == *device))
    };
    let ids = process::ids().map_err(cannot("list", "/proc"))?;
    let others = ids.into_iter().filter(|pid| !process::shares_mounts(*pid));
    Ok(others.filter(is_inside).filter_map(Pid::from_raw).collect())
}

/// Ends these processes, and waits until they have ended: they keep the new datasets in use.
pub(super) fn end_processes(work: &MigrationWork) -> Result<()> {
    let end = Instant::now() + EXIT_TIME;
    loop {
        let running = processes(work)?;
        if running.is_empty() {
            return Ok(());
        }
        if Instant::now() >= end {
            let pid = running[0].as_raw_nonzero();
            return refused(format!("the process {pid} uses the new datasets, and does not end"));
        }
        for pid in running {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(POLL);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn programs_see_the_new_directory_in_the_old_place_and_write_nothing_else() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can make a mount namespace");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["old", "new", "scratch"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("name"), name).unwrap();
        }
        let work = MigrationWork::example(at("old"), &[("db", at("old"), at("new"))]);
        let namespace = Namespace::new(&work, &at("scratch"), (0, 0));
        let mut command = namespace.command(Path::new("/bin/sh")).unwrap();
        let script = "cat \"$1/old/name\"; echo written >\"$1/old/file\"; echo written >\"$1/scratch/file\"; \
                      echo written >\"$1/outside\" || echo ' read-only'";
        let done = command.args(["-c", script, "sh"]).arg(at("")).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(String::from_utf8_lossy(&done.stdout), "new read-only\n", "{said}");
        assert_eq!(fs::read(at("new/file")).unwrap(), b"written\n");
        assert_eq!(fs::read(at("scratch/file")).unwrap(), b"written\n");
        assert!(!at("old/file").exists() && !at("outside").exists());
        // A directory above was exchanged for a link.
        std::os::unix::fs::symlink(at(""), at("link")).unwrap();
        let mut moved = namespace.clone();
        moved.bound[0].1 = at("link/old");
        let mut command = moved.command(Path::new("/bin/sh")).unwrap();
        let done = command.args(["-c", "echo ran"]).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(
            !done.status.success() && done.stdout.is_empty() && said.contains("not at its place"),
            "{said}"
        );
    }
}
