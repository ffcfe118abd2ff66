//! The descendants of this process.
//!
//! The trial is a subreaper: a process that loses its parent becomes a child of the trial. So the tree below it
//! contains all descendants, including a server that daemonised itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use poolwright_base::process::{self, CpuTicks, ProcessStat};
use rustix::process::{Pid, Signal, WaitOptions};

/// Makes this process the parent of all orphaned descendants (`PR_SET_CHILD_SUBREAPER`).
///
/// # Errors
/// If the kernel refuses the `prctl`.
pub fn adopt_orphans() -> std::io::Result<()> {
    // Any ID other than 0 enables it.
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

/// Returns the descendants of `root`, without the trees below `except`.
fn below<'a>(all: &'a [ProcessStat], root: i32, except: &[i32]) -> Vec<&'a ProcessStat> {
    let mut children: HashMap<i32, Vec<&ProcessStat>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found: Vec<&ProcessStat> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if !except.contains(&child.pid) {
                parents.push(child.pid);
                found.push(child);
            }
        }
    }
    found
}

/// Returns the CPU time of all descendants, including those that ended, without the trees below `except`. Only differences are
/// meaningful.
///
/// The kernel adds the time of a process to its
/// parent when the parent waits for it; this process is the last parent, because it adopts orphans.
pub fn used(except: &[i32]) -> CpuTicks {
    let all = process::all();
    let mut sum = CpuTicks::default();
    for process in below(&all, own_pid(), except) {
        sum += process.own;
        sum += process.waited;
    }
    if let Some(own) = all.iter().find(|process| process.pid == own_pid()) {
        sum += own.waited;
    }
    sum
}

/// Returns the CPU time of one process, without its children.
pub fn used_by(pid: i32) -> Option<CpuTicks> {
    ProcessStat::read(pid).map(|process| process.own)
}

/// Returns the live descendants of this process, without the trees below `except`. Reaps those that have ended and have no other
/// parent.
pub fn left(except: &[i32]) -> Vec<ProcessStat> {
    let all = process::all();
    let (ended, alive): (Vec<&ProcessStat>, Vec<&ProcessStat>) =
        below(&all, own_pid(), except).into_iter().partition(|process| process.state == 'Z');
    for process in ended.iter().filter(|process| process.parent == own_pid()) {
        if let Some(pid) = Pid::from_raw(process.pid) {
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
    }
    alive.into_iter().cloned().collect()
}

/// Waits up to `patience` for all descendants to end; returns those that are still alive.
pub fn settled(except: &[i32], patience: Duration) -> Vec<ProcessStat> {
    let start = Instant::now();
    loop {
        let left = left(except);
        if left.is_empty() || start.elapsed() > patience {
            return left;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ends all descendants: with SIGTERM, and after `patience` with SIGKILL.
pub fn end(except: &[i32], patience: Duration) {
    for (signal, patience) in [(Signal::TERM, patience), (Signal::KILL, Duration::from_secs(5))] {
        for process in left(except) {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        if settled(except, patience).is_empty() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(pid: i32, parent: i32) -> ProcessStat {
        ProcessStat {
            start_ticks: 0,
            pid,
            name: String::new(),
            state: 'S',
            parent,
            flags: 0,
            own: CpuTicks::default(),
            waited: CpuTicks::default(),
        }
    }

    #[test]
    fn a_tree_without_a_branch() {
        let all = [one(1, 0), one(10, 1), one(11, 10), one(12, 11), one(20, 10), one(21, 20), one(30, 1)];
        let mut pids: Vec<i32> = below(&all, 10, &[20]).iter().map(|process| process.pid).collect();
        pids.sort_unstable();
        assert_eq!(pids, [11, 12]);
    }

    #[test]
    fn a_child_counts_while_it_lives_and_afterwards() {
        let before = used(&[]).user;
        let mut child = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let start = Instant::now();
        while used(&[]).user < before + 50 {
            assert!(start.elapsed() < Duration::from_secs(300), "{:?}", used_by(child.id() as i32));
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Not all 50 ticks: a child of another test may have become the child of another process, with its
        // ticks.
        assert!(used(&[]).user >= before + 25);
    }
}
