//! Dependencies from the lifetime of files: a file is created before other threads use it, and removed after they have
//! used it. These are the only inferred dependencies between threads that the recorder did not see; operations in
//! another order would fail.

use std::collections::{BTreeMap, HashMap};

use poolwright_trace::{Event, Op};

use crate::schedule::Dependency;

/// A file since it was last created or removed.
#[derive(Default)]
struct Life {
    /// The step that created or removed the file.
    changed: Option<Dependency>,
    /// For each lane, the number of steps done after its last use of the file.
    users: BTreeMap<u32, u32>,
}

/// The lifetimes of all files, up to the current event.
#[derive(Default)]
pub(super) struct Lifetimes(HashMap<u32, Life>);

impl Lifetimes {
    /// Adds to `before` the steps for which a step in `lane` must wait.
    pub fn before(&self, event: &Event, lane: u32, before: &mut Vec<Dependency>) {
        let Some(life) = self.0.get(&event.file) else { return };
        if changes(event.op) {
            let others = life.users.iter().filter(|(user, _)| **user != lane);
            before.extend(others.map(|(lane, done)| Dependency { lane: *lane, done: *done }));
        }
        let first = changes(event.op) || !life.users.contains_key(&lane);
        before.extend(life.changed.filter(|changed| first && changed.lane != lane));
    }

    /// Records the event. When its lane has finished `step.done` steps, the event is done.
    pub fn add(&mut self, event: &Event, step: Dependency) {
        let life = self.0.entry(event.file).or_default();
        if changes(event.op) {
            *life = Life { changed: Some(step), users: BTreeMap::new() };
        } else {
            life.users.insert(step.lane, step.done);
        }
    }
}

fn changes(op: Op) -> bool {
    matches!(op, Op::Create | Op::Unlink)
}
