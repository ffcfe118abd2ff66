//! The scratch directory of a run: locked during the run, and cleared of the leftovers of a killed run.
//!
//! Every process that a trial starts has the directory's path in its environment, which distinguishes leftover
//! processes from the user's own. A server that overwrites its environment with its title (PostgreSQL) is
//! identified by its working directory.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use poolwright_base::private::{self, OwnDir, is_at};
use poolwright_base::process::{self, ProcessStat};
use poolwright_base::{cannot, check_temporary, mountinfo, unmount_command};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getuid, pidfd_open, pidfd_send_signal};

use crate::{Error, Result};

/// Name of the environment variable that marks the processes of a run.
pub const MARK: &str = "POOLWRIGHT_LAB";

/// A scratch directory that only this process uses.
#[derive(Debug)]
pub struct ScratchDir {
    root: PathBuf,
    _lock: File,
}

impl ScratchDir {
    /// Calls [`ScratchDir::take_named`] with the name for runs of the lab. The directory of a trial on a
    /// directory target has another name.
    ///
    /// # Errors
    /// As for [`ScratchDir::take_named`].
    pub fn take(parent: &Path) -> Result<ScratchDir> {
        ScratchDir::take_named(parent, "poolwright-lab")
    }

    /// Locks `NAME.UID` in `parent`, and clears it.
    ///
    /// # Errors
    /// Fails if another run has locked the directory ([`Error::Locked`]), if another user could have created it
    /// ([`Error::Unsafe`]), or if it cannot be created or cleared.
    pub fn take_named(parent: &Path, name: &str) -> Result<ScratchDir> {
        check_temporary(parent).map_err(cannot("use", parent))?;
        let parent = parent.canonicalize().map_err(cannot("inspect", parent))?;
        let root = parent.join(format!("{name}.{}", getuid().as_raw()));
        // The previous owner may have removed the directory after this process opened its lock file: retry
        // until the path still names the locked file. Nothing is written before that.
        let mut lock = loop {
            match locked(&root) {
                Ok(lock) if is_at(&lock, &root.join(LOCK)) => break lock,
                Err(Error::Host(why)) if why.cause.kind() == std::io::ErrorKind::NotFound => {}
                Ok(_) => {}
                Err(why) => return Err(why),
            }
        };
        let _ = lock.set_len(0);
        let _ = writeln!(lock, "{}", std::process::id());
        let scratch_dir = ScratchDir { root, _lock: lock };
        scratch_dir.clear()?;
        Ok(scratch_dir)
    }

    /// The path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Creates a trial's scratch directory.
    ///
    /// # Errors
    /// Fails if the directory cannot be created.
    pub fn trial(&self, position: u32) -> Result<PathBuf> {
        let path = self.root.join(format!("t{position}"));
        private::make_dir(&path).map_err(cannot("create", &path))?;
        Ok(path)
    }

    /// Returns the path of a file beside a trial's scratch directory.
    pub fn beside(&self, position: u32, ending: &str) -> PathBuf {
        self.root.join(format!("t{position}.{ending}"))
    }

    /// Moves the files of a trial to a directory that [`ScratchDir::clear`] does not touch. Returns that
    /// directory.
    ///
    /// # Errors
    /// Fails if the files cannot be moved.
    pub fn keep(&self, position: u32) -> Result<PathBuf> {
        let kept = self.root.join("kept");
        private::make_dirs(&kept).map_err(cannot("create", &kept))?;
        let free =
            (1..).map(|n| kept.join(n.to_string())).find(|p| !p.exists()).expect("an unused number exists");
        let trial = self.root.join(format!("t{position}"));
        std::fs::rename(&trial, &free).map_err(cannot("move", &trial))?;
        for ending in ["json", "log"] {
            let _ = std::fs::rename(self.beside(position, ending), free.join(format!("trial.{ending}")));
        }
        Ok(free)
    }

    /// Kills the processes of trials, unmounts their mounts and removes their files. Returns the number of
    /// processes.
    ///
    /// # Errors
    /// Fails if the directory cannot be read or a file cannot be removed.
    pub fn clear(&self) -> Result<usize> {
        let ended = self.end_processes();
        for point in mounts_below(&self.root) {
            unmount(&point);
        }
        for entry in std::fs::read_dir(&self.root).map_err(cannot("read", &self.root))?.flatten() {
            if !is_of_a_trial(&entry.file_name()) {
                continue;
            }
            let path = entry.path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(cannot("remove", &path))?;
        }
        Ok(ended)
    }

    /// Kills the processes until none is left: a process may start another one during the search.
    pub fn end_processes(&self) -> usize {
        let mut ended = BTreeSet::new();
        for _ in 0..100 {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for pid in left {
                self.kill(pid);
                ended.insert(pid);
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        ended.len()
    }

    /// Kills a process through a pidfd after checking it again, because its number may have been reused.
    fn kill(&self, pid: i32) {
        let Some(handle) = Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
        else {
            return;
        };
        if self.is_ours(pid, &BTreeSet::new()) {
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
    }

    fn processes(&self) -> BTreeSet<i32> {
        let own = getpid().as_raw_nonzero().get();
        let all: Vec<i32> =
            process::ids().unwrap_or_default().into_iter().filter(|pid| *pid != own).collect();
        let mut found = BTreeSet::new();
        loop {
            let more: Vec<i32> = all
                .iter()
                .copied()
                .filter(|pid| !found.contains(pid) && self.is_ours(*pid, &found))
                .collect();
            if more.is_empty() {
                return found;
            }
            found.extend(more);
        }
    }

    /// Whether a process is alive and has the mark, or is an orphan (or a child of `known`) that works in a
    /// trial's directory.
    fn is_ours(&self, pid: i32, known: &BTreeSet<i32>) -> bool {
        let Some(stat) = ProcessStat::read(pid) else { return false };
        if stat.has_ended() || !self.is_seen_by(pid) {
            return false;
        }
        let mark = [MARK.as_bytes(), b"=", self.root.as_os_str().as_bytes()].concat();
        if process::environment(pid).iter().any(|variable| variable.as_bytes() == mark) {
            return true;
        }
        let works_in = process::working_directory(pid).unwrap_or_default();
        let in_a_trial = works_in.strip_prefix(&self.root).ok().and_then(|rest| rest.iter().next());
        in_a_trial.is_some_and(is_of_a_trial) && (stat.parent == 1 || known.contains(&stat.parent))
    }

    /// Whether the directory's path names the same directory for that process: in a container it may be that of
    /// another lab.
    fn is_seen_by(&self, pid: i32) -> bool {
        let there = process::path_as_seen_by(pid, &self.root);
        File::open(&self.root).is_ok_and(|here| is_at(&here, &there))
    }
}

impl Drop for ScratchDir {
    /// Removes the directory, unless it contains kept files.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.root.join(LOCK));
        let _ = std::fs::remove_dir(&self.root);
    }
}

const LOCK: &str = "lock";

/// Returns the directory's lock file, locked. The directory's name is predictable and its parent often `/tmp`: a
/// directory of another user is refused, and no symbolic link is followed.
fn locked(root: &Path) -> Result<File> {
    let path = root.join(LOCK);
    let dir = OwnDir::open(root).map_err(|why| unusable(root, why))?;
    let mut lock = dir.file(LOCK).map_err(|why| unusable(&path, why))?;
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(lock);
    }
    let mut holder = String::new();
    let _ = (&mut lock).take(64).read_to_string(&mut holder);
    Err(Error::Locked { path: root.to_owned(), holder: holder.trim().to_owned() })
}

fn unusable(path: &Path, why: std::io::Error) -> Error {
    match private::refusal(&why) {
        Some(why) => Error::Unsafe { path: path.to_owned(), why },
        None => cannot("open", path)(why).into(),
    }
}

fn is_of_a_trial(name: &OsStr) -> bool {
    let stem =
        name.to_str().and_then(|n| n.strip_prefix('t')).map(|n| n.split('.').next().unwrap_or_default());
    stem.is_some_and(|digits| digits.parse::<u32>().is_ok())
}

/// Returns the mount points below a directory, the deepest first.
fn mounts_below(root: &Path) -> Vec<PathBuf> {
    let mounts = mountinfo::read().unwrap_or_default();
    let mut below: Vec<PathBuf> = mountinfo::below(&mounts, root).map(|mount| mount.point.clone()).collect();
    below.sort();
    below.reverse();
    below
}

/// Unmounts lazily, because the process that served the mount is gone.
fn unmount(point: &Path) {
    let _ = unmount_command(point, true).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_killed_runs_leftovers_are_cleared_and_nothing_else_is() {
        let dir = tempfile::tempdir().unwrap();
        let scratch_dir = ScratchDir::take(dir.path()).unwrap();
        let why = ScratchDir::take(dir.path()).unwrap_err().to_string();
        assert!(why.contains(&std::process::id().to_string()), "{why}");
        let trial = scratch_dir.trial(7).unwrap();
        std::fs::write(trial.join("file"), "x").unwrap();
        std::fs::write(scratch_dir.beside(7, "json"), "{}").unwrap();
        std::fs::write(scratch_dir.root().join("text"), "a user's").unwrap();
        let sleep = |mark: Option<&Path>, cwd: &Path| {
            let mut command = Command::new("sleep");
            command.arg("600").current_dir(cwd).env_remove(MARK);
            if let Some(root) = mark {
                command.env(MARK, root);
            }
            command.spawn().unwrap()
        };
        let mut marked = sleep(Some(scratch_dir.root()), Path::new("/"));
        let mut anothers = sleep(Some(Path::new("/another")), Path::new("/"));
        let mut visitor = sleep(None, &trial);
        // An orphan without the mark: its parent, a shell, ends at once.
        let script = "sleep 600 >/dev/null 2>&1 & echo $!";
        let orphan = Command::new("sh").args(["-c", script]).current_dir(&trial).output().unwrap();
        let orphan: i32 = String::from_utf8_lossy(&orphan.stdout).trim().parse().unwrap();
        let ended = scratch_dir.clear().unwrap();
        assert!(marked.wait().unwrap().code().is_none(), "killed");
        assert!(anothers.try_wait().unwrap().is_none() && visitor.try_wait().unwrap().is_none());
        for child in [&mut anothers, &mut visitor] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // If orphans become children of another process than 1 (a subreaper), the last rule does not apply.
        let adopted = ProcessStat::read(orphan).is_some_and(|stat| stat.state != 'Z' && stat.parent != 1);
        if adopted {
            let _ = Command::new("kill").arg(orphan.to_string()).status();
        } else {
            assert_eq!(ended, 2);
        }
        assert!(
            !trial.exists()
                && !scratch_dir.beside(7, "json").exists()
                && scratch_dir.root().join("text").exists()
        );
        let root = scratch_dir.root().to_owned();
        drop(scratch_dir);
        assert_eq!(std::fs::read_dir(&root).unwrap().count(), 1, "a user's file is not removed");
        std::fs::remove_file(root.join("text")).unwrap();
        drop(ScratchDir::take(dir.path()).unwrap());
        assert!(!root.exists());
    }

    #[test]
    fn a_container_may_have_a_lab_in_a_folder_of_the_same_name() {
        let dir = tempfile::tempdir().unwrap();
        let scratch_dir = ScratchDir::take(dir.path()).unwrap();
        // Mount another file system over the directory's parent, as in a container.
        let script = format!(
            "mount -t tmpfs none {} && mkdir {} && echo up && exec sleep 600",
            dir.path().canonicalize().unwrap().display(),
            scratch_dir.root().display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
        command.env(MARK, scratch_dir.root()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut container = command.spawn().unwrap();
        let mut up = [0; 3];
        if container.stdout.take().unwrap().read_exact(&mut up).is_err() {
            eprintln!("skipped: this user may not create a mount namespace");
            container.wait().unwrap();
            return;
        }
        assert_eq!(scratch_dir.clear().unwrap(), 0);
        assert!(container.try_wait().unwrap().is_none(), "the process of another lab is not killed");
        container.kill().unwrap();
        container.wait().unwrap();
    }
}
