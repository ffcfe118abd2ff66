//! What is recorded: a directory, or a process and its children.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use poolwright_host::mountinfo::{self, MountEntry};
use poolwright_host::process::{self, ProcessStat};

use crate::error::{Error, Result};
use crate::loader::Probes;

/// `O_PATH`: a descriptor that stands for the file without opening it (`open(2)`).
const O_PATH: i32 = 0o10000000;
/// Files shown to the kernel between two looks into the ring buffer.
const BATCH: usize = 256;
/// Files shown in all; the kernel meets any others when they are used.
const MOST: usize = 500_000;

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every regular file below this directory, whoever uses it.
    Dir(PathBuf),
    /// Every regular file that this process and its children use.
    Pid(u32),
}

impl Subject {
    /// As a trace's `subject` has it.
    pub fn describe(&self) -> String {
        match self {
            Subject::Dir(dir) => format!("dir:{}", dir.display()),
            Subject::Pid(pid) => format!("pid:{pid}"),
        }
    }

    /// The directory, if it is one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Subject::Dir(dir) => Some(dir),
            Subject::Pid(_) => None,
        }
    }

    /// The subject with its directory's path made absolute, or the reason why it cannot be recorded.
    pub(crate) fn checked(self) -> Result<Subject> {
        match self {
            Subject::Dir(path) => {
                let found = fs::canonicalize(&path).and_then(|real| {
                    if real.is_dir() { Ok(real) } else { Err(io::Error::from(io::ErrorKind::NotADirectory)) }
                });
                found.map(Subject::Dir).map_err(|source| Error::Directory { path, source })
            }
            Subject::Pid(pid) if alive(pid) => Ok(Subject::Pid(pid)),
            Subject::Pid(pid) => Err(Error::Process { pid }),
        }
    }
}

/// The followed directories, the first the one that was asked for, the rest mounted below it. Kept open: the kernel
/// side knows them by address.
pub(crate) struct Roots {
    pub paths: Vec<PathBuf>,
    _open: Vec<File>,
}

/// Shows the kernel what to follow; `drain` empties the ring buffer now and then.
pub(crate) fn introduce(
    subject: &Subject,
    probes: &Probes,
    mounts: &[MountEntry],
    mut drain: impl FnMut() -> Result<()>,
) -> Result<Roots> {
    probes.introducing(true)?;
    let mut roots = Roots { paths: Vec::new(), _open: Vec::new() };
    match subject {
        Subject::Dir(dir) => {
            let below = mountinfo::below(mounts, dir).map(|mount| mount.point.as_path());
            for path in std::iter::once(dir.as_path()).chain(below) {
                // A mount hidden by another, or gone since: nothing to follow there.
                let Some(file) = show(path).filter(|_| !roots.paths.iter().any(|known| known == path)) else {
                    continue;
                };
                roots.paths.push(path.to_owned());
                roots._open.push(file);
            }
            show_files(dir, &mut drain)?;
        }
        Subject::Pid(pid) => {
            // Sets the clock: there is no root to show.
            show(Path::new("/proc/self"));
            follow_family(*pid, probes, &mut drain)?;
        }
    }
    probes.introducing(false)?;
    if probes.start_ns()? == 0 {
        return Err(Error::Namespace);
    }
    Ok(roots)
}

/// `statx` on a descriptor is what the programs wait for.
fn show(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(O_PATH).open(path).ok()?;
    file.metadata().ok()?;
    Some(file)
}

fn show_files(dir: &Path, drain: &mut impl FnMut() -> Result<()>) -> Result<()> {
    let mut todo = vec![dir.to_owned()];
    let mut shown = 0;
    while let Some(dir) = todo.pop() {
        // A directory that vanishes or cannot be read holds nothing to be shown now.
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => todo.push(entry.path()),
                Ok(kind) if kind.is_file() => {
                    show(&entry.path());
                    shown += 1;
                    if shown % BATCH == 0 {
                        drain()?;
                    }
                }
                _ => {}
            }
        }
        if shown >= MOST {
            break;
        }
    }
    drain()
}

/// Follows the process and all its descendants, and shows the files they hold. Repeated until no new child turns up:
/// the fork tracepoint adds those of processes already followed.
fn follow_family(pid: u32, probes: &Probes, drain: &mut impl FnMut() -> Result<()>) -> Result<()> {
    let mut known = vec![pid];
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
        process::descriptors(pid as i32).for_each(|link| drop(show(&link)));
        drain()?;
        process::mapped_files(pid as i32).for_each(|link| drop(show(&link)));
        drain()?;
    }
    Ok(())
}

/// The programs see the end of every followed process, but not of one that passed the tracepoint `sched_process_exit`
/// before it was followed: its entry would stay.
fn follow(pid: u32, probes: &Probes) -> Result<()> {
    probes.follow(pid)?;
    if alive(pid) { Ok(()) } else { probes.unfollow(pid) }
}

/// Looks for a followed process that still runs.
#[derive(Debug, Default)]
pub(crate) struct Survivor {
    /// The process found last. Asking for it first makes a look as cheap as reading one file of `/proc`.
    last: Option<u32>,
}

impl Survivor {
    /// Whether any followed process still runs. Processes that have ended without the programs removing them from the
    /// map are removed here.
    ///
    /// # Errors
    /// If the map of followed processes cannot be read or changed.
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

/// All processes with their parents.
fn parents() -> Result<Vec<(u32, u32)>> {
    let ids = process::ids().map_err(|source| Error::Read { path: "/proc".into(), source })?;
    let stats = ids.into_iter().filter_map(ProcessStat::read);
    Ok(stats.map(|stat| (stat.pid as u32, stat.parent as u32)).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::loader::Config;
    use crate::support::first_permitted;

    #[test]
    fn an_entry_of_a_process_that_has_ended_is_removed() {
        let attached = first_permitted(|set| Probes::attach(set, Config { dir: None, ring_bytes: 1 << 16 }));
        let probes = match attached {
            Ok(probes) => probes,
            Err(why) => return eprintln!("SKIPPED an_entry_of_a_process_that_has_ended_is_removed: {why}"),
        };
        let mut ended = Command::new("true").spawn().unwrap();
        while alive(ended.id()) {
            std::thread::yield_now(); // it ends by itself, and stays a zombie until it is waited for
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
