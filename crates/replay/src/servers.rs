//! Limits the number of calls served at the same time, as the threads of a mounted file system do.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use poolwright_openzfs::clock::Event;
use poolwright_trace::layout::Role;

/// Serves a limited number of calls on the files of a role at once. Other calls wait in first-in, first-out order.
pub(crate) struct Servers {
    /// The role of each file.
    roles: Vec<Role>,
    queues: BTreeMap<Role, Mutex<Queue>>,
}

struct Queue {
    free: u32,
    waiting: VecDeque<Arc<Waiter>>,
}

#[derive(Default)]
struct Waiter {
    served: AtomicBool,
    turn: Event,
}

/// A call that is being served. Dropping it serves the next call.
pub(crate) struct Serving<'a>(&'a Mutex<Queue>);

impl Servers {
    /// Creates servers with `threads` threads per role; `roles` contains the role of each file.
    pub fn new(roles: &[Role], threads: u32) -> Servers {
        let queue = || Mutex::new(Queue { free: threads.max(1), waiting: VecDeque::new() });
        Servers { roles: roles.to_vec(), queues: roles.iter().map(|role| (*role, queue())).collect() }
    }

    /// Waits until a thread is free to serve a call on the file.
    pub fn serve(&self, file: u32) -> Serving<'_> {
        let queue = &self.queues[&self.roles[file as usize]];
        let mut locked = lock(queue);
        if locked.free > 0 {
            locked.free -= 1;
            return Serving(queue);
        }
        let waiter = Arc::new(Waiter::default());
        locked.waiting.push_back(Arc::clone(&waiter));
        drop(locked);
        waiter.turn.wait(Duration::MAX, || waiter.served.load(Ordering::Acquire));
        Serving(queue)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut locked = lock(self.0);
        let Some(next) = locked.waiting.pop_front() else {
            locked.free += 1;
            return;
        };
        drop(locked);
        next.served.store(true, Ordering::Release);
        next.turn.notify();
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().expect("lock is not poisoned")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn no_more_calls_of_a_role_are_served_at_once_than_there_are_threads() {
        let roles = [Role::Data, Role::Wal, Role::Data];
        let servers = Servers::new(&roles, 2);
        let (now, most, done) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        // These calls must not use the threads of the other role.
        let _log = (servers.serve(1), servers.serve(1));
        std::thread::scope(|scope| {
            for file in [0, 2, 0, 2, 0] {
                let (servers, now, most, done) = (&servers, &now, &most, &done);
                scope.spawn(move || {
                    for _ in 0..200 {
                        let _serving = servers.serve(file);
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!((done.into_inner(), lock(&servers.queues[&Role::Data]).free), (1000, 2));
        assert!(most.into_inner() <= 2);
    }

    #[test]
    fn the_longest_waiting_call_is_next() {
        let servers = Servers::new(&[Role::Data], 1);
        let order = Mutex::new(Vec::new());
        let first = servers.serve(0);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let before = lock(&servers.queues[&Role::Data]).waiting.len();
                let (servers, order) = (&servers, &order);
                scope.spawn(move || {
                    let _serving = servers.serve(0);
                    order.lock().expect("lock is not poisoned").push(number);
                });
                while lock(&servers.queues[&Role::Data]).waiting.len() == before {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        assert_eq!(order.into_inner().expect("lock is not poisoned"), [0, 1, 2, 3]);
    }
}
