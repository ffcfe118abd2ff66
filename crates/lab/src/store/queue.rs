//! The queue of a run's trials: what a worker may take, and who has taken it.
//!
//! A worker *claims* a trial for the time of a *lease*, and renews the lease while the trial runs. If the worker dies, the lease
//! expires, and another worker claims the trial. Each claim has a higher *token* than the one before (a fencing token): the result of a
//! worker that has lost its claim, for example because its node was stopped for a while, is not saved.
//!
//! A block runs on one node if possible, because its trials are compared with each other: see [`choose`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::TrialKey;

/// A trial is given up after so many workers have died with it.
pub const MOST_ATTEMPTS: u32 = 5;

/// The state of a trial in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// No worker has it.
    Queued,
    /// A worker has claimed it.
    Claimed,
    /// It has ended, and is saved.
    Ended,
    /// It has failed, and is saved with the reason.
    Failed,
}

impl TaskState {
    /// All states.
    pub const ALL: [TaskState; 4] =
        [TaskState::Queued, TaskState::Claimed, TaskState::Ended, TaskState::Failed];

    /// Its name in the database.
    pub fn name(self) -> &'static str {
        match self {
            TaskState::Queued => "queued",
            TaskState::Claimed => "claimed",
            TaskState::Ended => "ended",
            TaskState::Failed => "failed",
        }
    }
}

/// A trial in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Identity of the trial.
    pub key: TrialKey,
    /// Trials of lower ranks run first.
    pub rank: i64,
    /// Its state.
    pub state: TaskState,
    /// The node of the last worker that has claimed it; empty if no worker has.
    pub node: String,
    /// That worker.
    pub owner: Option<Process>,
    /// The token of the last claim; 0 if there was none.
    pub token: i64,
    /// The number of claims that did not end with a result.
    pub attempts: u32,
    /// The rest of the lease in milliseconds, by the clock of the database. Negative: the time since the lease expired or the trial
    /// ended.
    pub left_ms: i64,
}

/// A process, in a form that another process of the same system can recognize.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// The boot of the system: `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// The namespace of its process ID.
    pub namespace: String,
    /// Its process ID.
    pub pid: i32,
    /// Its start, in clock ticks since the boot: process IDs are reused.
    pub start_ticks: u64,
}

impl Process {
    /// The present process.
    pub fn current() -> Process {
        let pid = std::process::id() as i32;
        let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        Process {
            boot: poolwright_host::kernel::boot_id(),
            namespace: namespace.to_string_lossy().into_owned(),
            pid,
            start_ticks: poolwright_host::process::ProcessStat::read(pid).map_or(0, |stat| stat.start_ticks),
        }
    }

    /// Whether it is known to have ended: it was on the system of the process `here`, and is there no more.
    fn has_ended(&self, here: &Process) -> bool {
        if here.boot.is_empty() || (&self.boot, &self.namespace) != (&here.boot, &here.namespace) {
            return false;
        }
        let found = poolwright_host::process::ProcessStat::read(self.pid);
        !found.is_some_and(|stat| stat.start_ticks == self.start_ticks && !stat.has_ended())
    }
}

/// A worker that asks for a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The machine on which the trial will run.
    pub node: String,
    /// The worker's process.
    pub process: Process,
    /// The lease: a worker that does not renew it for so long is given up.
    pub lease: Duration,
    /// Names of the studies whose trials it may run; an empty list means all.
    pub studies: Vec<String>,
}

impl Claimant {
    fn may_run(&self, task: &Task) -> bool {
        self.studies.is_empty() || self.studies.contains(&task.key.study)
    }
}

/// A trial that a worker has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Identity of the trial.
    pub key: TrialKey,
    /// Position in the order of execution, from 0.
    pub position: u32,
    /// The token.
    pub token: i64,
}

impl Task {
    /// Whether a worker may take it: the process `here` knows of processes on its own system that have ended.
    pub(crate) fn is_free(&self, here: &Process) -> bool {
        match self.state {
            TaskState::Queued => true,
            TaskState::Claimed => {
                self.left_ms < 0 || self.owner.as_ref().is_some_and(|owner| owner.has_ended(here))
            }
            TaskState::Ended | TaskState::Failed => false,
        }
    }

    /// Whether it has ended, well or not.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, TaskState::Ended | TaskState::Failed)
    }
}

/// Returns the index of the task that a worker takes: the first one that is free
/// 1. of a block with trials on its node,
/// 2. of a block that no worker has begun,
/// 3. of a block whose node has done nothing for two leases.
///
/// So a block is split between nodes only if its node is lost. `None`: there is nothing to do for this node at present.
pub(super) fn choose(tasks: &[Task], worker: &Claimant) -> Option<usize> {
    let lost_ms = -2 * worker.lease.as_millis() as i64;
    // The last sign of each node, and the node of each block.
    let mut seen: BTreeMap<&str, i64> = BTreeMap::new();
    let mut nodes: BTreeMap<(&str, u32), (&str, i64)> = BTreeMap::new();
    for task in tasks.iter().filter(|task| !task.node.is_empty()) {
        let last = seen.entry(&task.node).or_insert(task.left_ms);
        *last = (*last).max(task.left_ms);
        let of_block = nodes.entry((&task.key.study, task.key.block)).or_insert((&task.node, task.token));
        if task.token > of_block.1 {
            *of_block = (&task.node, task.token);
        }
    }
    let preference = |task: &Task| match nodes.get(&(task.key.study.as_str(), task.key.block)) {
        Some((node, _)) if *node == worker.node => Some(0),
        None => Some(1),
        Some((node, _)) if seen.get(node).is_none_or(|last| *last < lost_ms) => Some(2),
        Some(_) => None,
    };
    let is_candidate = |task: &Task| worker.may_run(task) && task.is_free(&worker.process);
    let free = tasks.iter().enumerate().filter(|(_, task)| is_candidate(task));
    free.filter_map(|(at, task)| Some((preference(task)?, task.rank, at))).min().map(|(_, _, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(10);

    fn task(rank: i64, block: u32, state: TaskState, node: &str, left_ms: i64) -> Task {
        let key = TrialKey { study: "s".into(), case: [("f".into(), rank.to_string())].into(), block };
        Task { key, rank, state, node: node.into(), owner: None, token: rank + 1, attempts: 0, left_ms }
    }

    fn claimant(node: &str) -> Claimant {
        Claimant { node: node.into(), process: Process::current(), lease: LEASE, studies: Vec::new() }
    }

    #[test]
    fn a_block_stays_on_its_node() {
        use TaskState::*;
        // Times as seen at `now`.
        let tasks = |now: i64| {
            vec![
                task(0, 0, Ended, "a", 99_000 - now),
                task(1, 0, Queued, "", -now),
                task(2, 1, Claimed, "b", 105_000 - now),
                task(3, 1, Queued, "", -now),
                task(4, 2, Queued, "", -now),
            ]
        };
        let chosen = |node: &str| choose(&tasks(100_000), &claimant(node));
        assert_eq!(chosen("a"), Some(1));
        assert_eq!(chosen("b"), Some(3), "not the trial that it runs");
        assert_eq!(chosen("c"), Some(4));
        let of_another = Claimant { studies: vec!["another".into()], ..claimant("c") };
        assert_eq!(choose(&tasks(100_000), &of_another), None);
        let begun = |now: i64| [&tasks(now)[..4], &[task(4, 2, Claimed, "c", 108_000 - now)]].concat();
        assert_eq!(choose(&begun(100_000), &claimant("d")), None, "all blocks belong to other nodes");
        // The first node has been silent for more than two leases.
        assert_eq!(choose(&begun(119_500), &claimant("d")), Some(1));
        assert_eq!(choose(&begun(105_001), &claimant("b")), Some(2), "its lease has expired");
    }

    #[test]
    fn a_process_of_this_system_that_has_ended_is_not_waited_for() {
        let here = Process::current();
        assert!(!here.has_ended(&here));
        let gone = Process { start_ticks: here.start_ticks + 1, ..here.clone() };
        assert!(gone.has_ended(&here));
        assert!(!Process { boot: "another".into(), ..gone.clone() }.has_ended(&here));
        assert!(!Process { namespace: "another".into(), ..gone.clone() }.has_ended(&here));
        let mut tasks = [task(0, 0, TaskState::Claimed, "a", 9_000)];
        tasks[0].owner = Some(here);
        assert_eq!(choose(&tasks, &claimant("a")), None);
        tasks[0].owner = Some(gone);
        assert_eq!(choose(&tasks, &claimant("a")), Some(0));
    }
}
