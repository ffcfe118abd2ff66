//! The subject of a recording: a directory, or a process and its children.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use poolwright_host::mountinfo::{self, MountEntry};
use poolwright_host::process::{self, ProcessStat};
use poolwright_trace::{layout, path_text};

use crate::error::{Error, Result};
use crate::loader::Probes;

/// `O_PATH`: a descriptor that refers to the file without opening it (`open(2)`).
const O_PATH: i32 = 0o10000000;
/// The number of files announced between two reads of the ring buffer.
const BATCH: usize = 256;
/// The maximum number of files announced; the programs see others when they are used.
const MAX_ANNOUNCED: usize = 500_000;

/// The subject of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every regular file below this directory, used by any process.
    Dir(PathBuf),
    /// Every regular file that the process with this id and its children use.
    Pid(u32),
}

impl Subject {
    /// Returns the spelling in a trace's `subject`.
    pub fn describe(&self) -> String {
        match self {
            Subject::Dir(dir) => format!("dir:{}", path_text::encode(dir)),
            Subject::Pid(pid) => format!("pid:{pid}"),
        }
    }

    /// Returns the directory, if the subject is one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Subject::Dir(dir) => Some(dir),
            Subject::Pid(_) => None,
        }
    }

    /// Returns the subject with an absolute path.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory or the process does not exist.
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

/// The followed directories: first the given one, then those mounted below it, and those to which links of the database lead, by the
/// names of the links. They stay open because the programs
/// identify them by address.
pub(crate) struct Roots {
    pub paths: Vec<PathBuf>,
    _open: Vec<File>,
}

/// Announces the subject to the programs. It calls `drain` periodically to empty the ring buffer.
pub(crate) fn announce(
    subject: &Subject,
    probes: &Probes,
    mounts: &[MountEntry],
    mut drain: impl FnMut() -> Result<()>,
) -> Result<Roots> {
    probes.set_announcing(true)?;
    let mut roots = Roots { paths: Vec::new(), _open: Vec::new() };
    match subject {
        Subject::Dir(dir) => {
            let below = mountinfo::below(mounts, dir).map(|mount| mount.point.as_path());
            let links = layout::linked_directories_below(dir);
            for path in std::iter::once(dir.as_path()).chain(below).chain(links.iter().map(PathBuf::as_path))
            {
                // Skip a mount that another mount hides, or that has been removed since.
                let Some(file) = show(path).filter(|_| !roots.paths.iter().any(|known| known == path)) else {
                    continue;
                };
                roots.paths.push(path.to_owned());
                roots._open.push(file);
            }
            for path in std::iter::once(dir).chain(&links) {
                show_files(path, &mut drain)?;
            }
        }
        Subject::Pid(pid) => {
            // There is no directory to announce, but this call sets the start of the clock.
            show(Path::new("/proc/self"));
            follow_family(*pid, probes, &mut drain)?;
        }
    }
    probes.set_announcing(false)?;
    if probes.start_ns()? == 0 {
        return Err(Error::Namespace);
    }
    Ok(roots)
}

/// Opens a path and calls `statx` on the descriptor, which the programs recognize as an announcement.
fn show(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).custom_flags(O_PATH).open(path).ok()?;
    file.metadata().ok()?;
    Some(file)
}

fn show_files(dir: &Path, drain: &mut impl FnMut() -> Result<()>) -> Result<()> {
    let mut todo = vec![dir.to_owned()];
    let mut shown = 0;
    while let Some(dir) = todo.pop() {
        // A directory that vanishes or cannot be read has no files to announce.
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
        if shown >= MAX_ANNOUNCED {
            break;
        }
    }
    drain()
}

/// Follows the process and all its descendants, and announces their open files. Repeats until there are no new
/// children: the fork tracepoint adds only those of followed processes.
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
    ///
    /// # Errors
    ///
    /// Returns an error if the map of followed processes cannot be read or changed.
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
