//! A file is made before it is used and used before it is removed, whichever threads do it. These are the only waits between
//! threads that are not observed: no operation can succeed in another order.

use std::collections::HashMap;

use poolwright_trace::{Event, Op};

use crate::schedule::Dependency;

/// One file since it was last made or removed.
#[derive(Default)]
struct Life {
    /// The step that made or removed it.
    changed: Option<Dependency>,
    /// By lane, the steps done after the lane's last use of it.
    users: HashMap<u32, u32>,
}

/// The lives of all files, as far as the events have come.
#[derive(Default)]
pub(super) struct Lifetimes(HashMap<u32, Life>);

impl Lifetimes {
    /// Adds to `before` what a step in `lane` has to wait for.
    pub fn before(&self, event: &Event, lane: u32, before: &mut Vec<Dependency>) {
        let Some(life) = self.0.get(&event.file) else { return };
        if changes(event.op) {
            let others = life.users.iter().filter(|(user, _)| **user != lane);
            before.extend(others.map(|(lane, done)| Dependency { lane: *lane, done: *done }));
        }
        let first = changes(event.op) || !life.users.contains_key(&lane);
        before.extend(life.changed.filter(|changed| first && changed.lane != lane));
    }

    /// The step of `event` is the one after which its lane has done so many.
    pub fn add(&mut self, event: &Event, step: Dependency) {
        let life = self.0.entry(event.file).or_default();
        if changes(event.op) {
            *life = Life { changed: Some(step), users: HashMap::new() };
        } else {
            life.users.insert(step.lane, step.done);
        }
    }
}

fn changes(op: Op) -> bool {
    matches!(op, Op::Create | Op::Unlink)
}
