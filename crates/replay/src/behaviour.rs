//! What threads do between the steps of a schedule: they compute, sleep, and wait for each other.

use std::collections::HashMap;

use crate::contested::Contested;

/// The condition "the first `done` steps of lane `lane` have finished".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dependency {
    /// The lane's index.
    pub lane: u32,
    /// The number of finished steps.
    pub done: u32,
}

/// What a thread does before a step, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Think {
    /// CPU time used right after the thread's previous step, in nanoseconds.
    pub cpu_before_ns: u64,
    /// Time slept after that, in nanoseconds.
    pub sleep_before_ns: u64,
    /// Whether the thread then waits until a client has a request for it; see [`Application::clients`].
    pub is_request: bool,
    /// The step of another thread for which the thread then waits.
    pub wake: Option<Dependency>,
    /// The file for whose syncs that are under way the thread then waits, instead of a certain step: another thread commits for it.
    pub sync: Option<u32>,
    /// CPU time used after that, in nanoseconds.
    pub cpu_ns: u64,
    /// Time slept after that, in nanoseconds.
    pub sleep_ns: u64,
    /// The number of foreground steps after which this step begins; 0 for a step that only waits for its own thread.
    pub after_work: u32,
}

/// The behaviour of an application: what its schedule has in addition to the operations.
#[derive(Debug, Default)]
pub struct Application {
    /// The think time before each step, by lane and step.
    pub thinks: Vec<Vec<Think>>,
    /// Whether each lane is foreground.
    pub foreground: Vec<bool>,
    /// The recorded start times of the foreground's steps in nanoseconds, sorted. They give the recorded time of an
    /// amount of work.
    pub work: Vec<u64>,
    /// The recorded process id of each lane; locks belong to processes.
    pub processes: Vec<u32>,
    /// The number of clients of each process whose threads form a pool, by process id: so many of the threads serve requests at once.
    pub clients: HashMap<u32, u32>,
    /// The file locks that the steps [`Op::Lock`](poolwright_trace::Op::Lock) and
    /// [`Op::Unlock`](poolwright_trace::Op::Unlock) take and release.
    pub contested: Contested,
    /// CPU time of other processes that the replay uses in proportion to the work, in nanoseconds.
    pub beside_ns: u64,
    /// Figures about the inferred behaviour.
    pub inferred: Inferred,
}

/// Figures about an application's behaviour, inferred from its trace.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Inferred {
    /// The number of threads whose operations count as work.
    pub foreground_threads: u32,
    /// The number of other threads.
    pub background_threads: u32,
    /// Operations of foreground threads.
    pub foreground_ops: u64,
    /// Operations of background threads.
    pub background_ops: u64,
    /// Operations that wait for an operation of another thread, which woke their thread in the recording.
    pub wakes: u64,
    /// Waits for another process's file lock that the thread polled.
    #[serde(default)]
    pub lock_waits: u64,
    /// Operations without information about what their thread did before.
    pub unknown_gaps: u64,
    /// CPU time of foreground threads between their operations, in nanoseconds.
    pub cpu_ns: u64,
    /// Time that foreground threads slept for other processes and timers, in nanoseconds.
    pub sleep_ns: u64,
    /// CPU time of other processes that the replay uses instead of such sleep, in nanoseconds.
    pub others_cpu_ns: u64,
}
