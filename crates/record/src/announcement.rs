//! Announces the subject of a recording to the programs, and follows its processes.

use std::path::Path;

use poolwright_base::cannot;
use poolwright_base::mountinfo::MountEntry;
use poolwright_base::process::{self, ProcessStat};

use crate::error::{Error, Result};
use crate::loader::Probes;
use crate::roots::{Announcing, Roots, is_on_overlay, show};
use crate::subject::{Subject, alive};

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
