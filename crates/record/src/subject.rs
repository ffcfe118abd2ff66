//! The subject of a recording: a directory, a process and its children, or a block device.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use poolwright_base::cannot;
use poolwright_base::mountinfo::MountEntry;
use poolwright_base::process::{self, ProcessStat};
use poolwright_trace::path_text;

use crate::device::BlockDevice;
use crate::error::{Error, Result};
use crate::loader::Probes;
use crate::roots::{Announcing, Roots, is_on_overlay, show};

/// The subject of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every regular file below this directory, used by any process.
    Dir(PathBuf),
    /// Every regular file that the process with this id and its children use.
    Pid(u32),
    /// The requests of all processes and file systems to this block device.
    Device(BlockDevice),
}

impl Subject {
    /// Returns the spelling in a trace's `subject`.
    pub fn describe(&self) -> String {
        match self {
            Subject::Dir(dir) => format!("dir:{}", path_text::encode(dir)),
            Subject::Pid(pid) => format!("pid:{pid}"),
            Subject::Device(device) => format!("zvol:{}", path_text::encode(device.path())),
        }
    }

    /// Returns the directory, if the subject is one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Subject::Dir(dir) => Some(dir),
            Subject::Pid(_) | Subject::Device(_) => None,
        }
    }

    /// Returns the subject with an absolute path.
    pub(crate) fn checked(self) -> Result<Subject> {
        match self {
            Subject::Dir(path) => {
                let found = fs::canonicalize(&path).and_then(|real| {
                    if real.is_dir() { Ok(real) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
                });
                found.map(Subject::Dir).map_err(|source| Error::Directory { path, source })
            }
            Subject::Pid(pid) if alive(pid) => match process::thread_group(pid as i32) {
                Some(process) if process as u32 != pid => {
                    Err(Error::Thread { tid: pid, pid: process as u32 })
                }
                _ => Ok(Subject::Pid(pid)),
            },
            Subject::Pid(pid) => Err(Error::Process(pid)),
            device @ Subject::Device(_) => Ok(device),
        }
    }
}

/// Announces the subject to the programs. It calls `drain` periodically to empty the ring buffer.
pub(crate) fn announce(
    subject: &Subject,
    probes: &Probes,
    mounts: &[MountEntry],
    drain: &mut dyn FnMut() -> Result<()>,
) -> Result<Roots> {
    probes.set_announcing(true)?;
    let mut roots = Roots::default();
    match subject {
        Subject::Dir(dir) => {
            let mut announcing = Announcing { drain, named: &mut |_| Ok(()) };
            roots.follow(dir, mounts, &mut announcing)?;
        }
        Subject::Pid(pid) => {
            // There is no directory to announce, but this call sets the start of the clock.
            show(Path::new("/proc/self"));
            roots.overlay = follow_family(*pid, probes, drain)?;
        }
        // The programs know the device's number.
        Subject::Device(_) => probes.start_clock()?,
    }
    probes.set_announcing(false)?;
    if probes.start_ns()? == 0 {
        return Err(Error::Namespace);
    }
    Ok(roots)
}

/// Follows the process and all its descendants, and announces their open files. Repeats until there are no new
/// children: the fork tracepoint adds only those of followed processes. Returns whether a process has mapped a file on overlayfs.
fn follow_family(pid: u32, probes: &Probes, drain: &mut dyn FnMut() -> Result<()>) -> Result<bool> {
    let mut known = vec![pid];
    let mut overlay = false;
    follow(pid, probes)?;
    loop {
        let before = known.len();
        for (child, parent) in parents()? {
            if known.contains(&parent) && !known.contains(&child) {
                follow(child, probes)?;
                known.push(child);
            }
        }
        if known.len() == before {
            break;
        }
    }
    for pid in known {
        process::descriptors(pid as i32).for_each(|link| show(&link));
        drain()?;
        for link in process::mapped_files(pid as i32) {
            show(&link);
            overlay |= is_on_overlay(&link);
        }
        drain()?;
    }
    Ok(overlay)
}

/// Follows a process. The programs see the end of each followed process, except of one that passed the tracepoint
/// `sched_process_exit` before it was followed: its entry would remain.
fn follow(pid: u32, probes: &Probes) -> Result<()> {
    probes.follow(pid)?;
    if alive(pid) { Ok(()) } else { probes.unfollow(pid) }
}

/// Finds a followed process that still runs.
#[derive(Debug, Default)]
pub(crate) struct Survivor {
    /// The process found last. Checking it first usually requires reading only one file of `/proc`.
    last: Option<u32>,
}

impl Survivor {
    /// Returns whether any followed process still runs. Removes processes from the map that ended without being removed
    /// by the programs.
    pub fn exists(&mut self, probes: &Probes) -> Result<bool> {
        if self.last.is_some_and(alive) {
            return Ok(true);
        }
        for pid in probes.followed()? {
            if alive(pid) {
                self.last = Some(pid);
                return Ok(true);
            }
            probes.unfollow(pid)?;
        }
        Ok(false)
    }
}

/// Whether any thread of the process still runs.
fn alive(pid: u32) -> bool {
    process::is_running(pid as i32)
}

/// Returns all processes with their parents.
fn parents() -> Result<Vec<(u32, u32)>> {
    let ids = process::ids().map_err(cannot("read", "/proc"))?;
    let stats = ids.into_iter().filter_map(ProcessStat::read);
    Ok(stats.map(|stat| (stat.pid as u32, stat.parent as u32)).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::loader::Config;

    #[test]
    fn an_entry_of_a_process_that_has_ended_is_removed() {
        let probes = match Probes::attach(Config { subject: &Subject::Pid(1), ring_bytes: 1 << 16 }) {
            Ok(probes) => probes,
            Err(why) => return eprintln!("SKIPPED an_entry_of_a_process_that_has_ended_is_removed: {why}"),
        };
        let mut ended = Command::new("true").spawn().unwrap();
        while alive(ended.id()) {
            std::thread::yield_now(); // it exits, and stays a zombie until it is waited for
        }
        probes.follow(ended.id()).unwrap();
        let mut survivor = Survivor::default();
        assert!(!survivor.exists(&probes).unwrap());
        assert!(probes.followed().unwrap().is_empty());
        ended.wait().unwrap();

        let mut running = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        probes.follow(running.id()).unwrap();
        assert!(survivor.exists(&probes).unwrap());
        assert_eq!(survivor.last, Some(running.id()));
        drop(running.stdin.take());
        running.wait().unwrap();
        assert!(!survivor.exists(&probes).unwrap());
    }
}
