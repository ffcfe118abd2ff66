//! The clients of thread pools: limits how many of a pool's lanes serve requests at the same time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use poolwright_openzfs::clock::Event;

use crate::application::Application;

/// The pool of each lane; `None` for a lane whose thread is not part of one.
pub(crate) struct Clients(Vec<Option<Arc<Mutex<Pool>>>>);

/// A lane's wait for a request. The lane checks `is_given` while it holds the event's lock, and must not take the pool's lock then,
/// because the pool notifies the event while it holds its own.
#[derive(Default)]
struct Ready {
    is_given: AtomicBool,
    given: Event,
}

#[derive(Default)]
struct Pool {
    /// The number of clients with a request that no lane serves. Negative while more lanes serve requests than there are clients, because
    /// another lane waits for one of them.
    free: i64,
    serving: HashSet<usize>,
    /// Lanes that are ready for a request, by its recorded time in nanoseconds.
    ready: BTreeMap<(u64, usize), Arc<Ready>>,
    /// The number of lanes that wait for a step of a lane.
    wanted: HashMap<usize, u32>,
}

impl Pool {
    fn take(&mut self, lane: usize, ready: &Ready) {
        self.free -= 1;
        self.serving.insert(lane);
        ready.is_given.store(true, Ordering::SeqCst);
        ready.given.notify();
    }

    /// Gives requests to the lanes whose requests were the earliest in the recording.
    fn hand_out(&mut self) {
        while self.free > 0
            && let Some(((_, lane), ready)) = self.ready.pop_first()
        {
            self.take(lane, &ready);
        }
    }

    fn hand_to(&mut self, lane: usize) {
        let place = self.ready.keys().find(|(_, ready)| *ready == lane).copied();
        if let Some(ready) = place.and_then(|place| self.ready.remove(&place)) {
            self.take(lane, &ready);
        }
    }

    fn give_up(&mut self, lane: usize) {
        if self.serving.remove(&lane) {
            self.free += 1;
            self.hand_out();
        }
    }
}

impl Clients {
    pub fn new(application: &Application) -> Clients {
        let new = |clients: &u32| Arc::new(Mutex::new(Pool { free: i64::from(*clients), ..Pool::default() }));
        let pools: HashMap<u32, _> = application.clients.iter().map(|(pid, n)| (*pid, new(n))).collect();
        let pool_of = |(lane, pid): (usize, &u32)| {
            let serves = application.thinks[lane].iter().any(|think| think.is_request);
            pools.get(pid).filter(|_| serves).cloned()
        };
        Clients(application.processes.iter().enumerate().map(pool_of).collect())
    }

    fn pool(&self, lane: usize) -> Option<MutexGuard<'_, Pool>> {
        Some(self.0[lane].as_ref()?.lock().expect("lock is not poisoned"))
    }

    /// Ends the lane's request, if it serves one, and waits for the next one, which began at `t_ns` in the recording, or until `stop` is
    /// set; checks it every `longest`.
    pub fn next_request(&self, lane: usize, t_ns: u64, longest: Duration, stop: &AtomicBool) {
        let Some(mut pool) = self.pool(lane) else { return };
        let ready = Arc::new(Ready::default());
        pool.ready.insert((t_ns, lane), Arc::clone(&ready));
        pool.give_up(lane);
        pool.hand_out();
        if pool.wanted.contains_key(&lane) {
            pool.hand_to(lane);
        }
        drop(pool);
        let has_one = || ready.is_given.load(Ordering::SeqCst);
        while !has_one() && !stop.load(Ordering::Relaxed) {
            ready.given.wait(longest, has_one);
        }
    }

    /// Whether the lane serves no request yet although its thread is part of a pool.
    pub fn is_idle(&self, lane: usize) -> bool {
        self.pool(lane).is_some_and(|pool| !pool.serving.contains(&lane))
    }

    /// Ends the lane's request, if it serves one.
    pub fn end(&self, lane: usize) {
        if let Some(mut pool) = self.pool(lane) {
            pool.give_up(lane);
        }
    }

    /// Waits for a step of `lane`, without waiting for a client, because the recorded thread was serving a request.
    pub fn while_wanted(&self, lane: usize, wait: impl FnOnce()) {
        if let Some(mut pool) = self.pool(lane) {
            *pool.wanted.entry(lane).or_default() += 1;
            pool.hand_to(lane);
        }
        wait();
        if let Some(mut pool) = self.pool(lane)
            && let Some(count) = pool.wanted.get_mut(&lane)
        {
            *count -= 1;
            if *count == 0 {
                pool.wanted.remove(&lane);
            }
        }
    }

    /// Waits for the progress of the replay; other lanes may serve the lane's client meanwhile.
    pub fn while_lent(&self, lane: usize, wait: impl FnOnce()) {
        let was_serving = self.pool(lane).is_some_and(|mut pool| {
            let was_serving = pool.serving.contains(&lane);
            pool.give_up(lane);
            was_serving
        });
        wait();
        if was_serving && let Some(mut pool) = self.pool(lane) {
            pool.free -= 1;
            pool.serving.insert(lane);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::Think;

    const LONGEST: Duration = Duration::from_secs(60);

    /// Three lanes of one process with a pool, and one of another process.
    fn clients(count: u32) -> Clients {
        let request = Think { is_request: true, ..Think::default() };
        Clients::new(&Application {
            thinks: vec![vec![request]; 4],
            processes: vec![1, 1, 1, 2],
            clients: HashMap::from([(1, count)]),
            ..Application::default()
        })
    }

    #[test]
    fn a_request_waits_for_a_client_and_the_earliest_is_served_first() {
        let (clients, stop, order) = (clients(1), AtomicBool::new(false), Mutex::new(Vec::new()));
        // A lane of another process waits for nothing.
        clients.next_request(3, 0, LONGEST, &stop);
        clients.next_request(0, 10, LONGEST, &stop);
        std::thread::scope(|scope| {
            for (lane, t_ns) in [(1, 30), (2, 20)] {
                let (clients, stop, order) = (&clients, &stop, &order);
                scope.spawn(move || {
                    clients.next_request(lane, t_ns, LONGEST, stop);
                    order.lock().unwrap().push(lane);
                    clients.end(lane);
                });
            }
            while clients.pool(0).unwrap().ready.len() < 2 {
                std::thread::yield_now();
            }
            assert!(order.lock().unwrap().is_empty(), "there is one client");
            clients.end(0);
        });
        assert_eq!(*order.lock().unwrap(), [2, 1]);
    }

    #[test]
    fn a_lane_for_which_another_waits_is_served() {
        let (clients, stop) = (clients(1), AtomicBool::new(false));
        clients.next_request(0, 10, LONGEST, &stop);
        clients.while_wanted(1, || clients.next_request(1, 20, LONGEST, &stop));
        assert_eq!(clients.pool(0).unwrap().free, -1);
        clients.while_lent(0, || assert_eq!(clients.pool(0).unwrap().free, 0));
        clients.end(0);
        assert!(clients.is_idle(0));
        clients.end(1);
        assert_eq!(clients.pool(0).unwrap().free, 1);
    }
}
