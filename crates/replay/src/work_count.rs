//! The number of finished steps, for threads that wait until it reaches a number.

use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use poolwright_openzfs::clock::Event;

/// The finished foreground steps of a replay.
pub(crate) struct WorkCount {
    finished: AtomicU32,
    /// Threads that wait for an amount of work, the least first.
    waiting: Mutex<BinaryHeap<Waiter>>,
    /// The least work that a thread waits for; `u32::MAX` if no thread waits.
    nearest: AtomicU32,
}

/// A thread that waits for an amount of work. `Ord` is reversed, so that the heap's greatest element has the least
/// work.
struct Waiter {
    work: u32,
    done: Arc<Event>,
}

impl Ord for Waiter {
    fn cmp(&self, other: &Waiter) -> std::cmp::Ordering {
        other.work.cmp(&self.work)
    }
}

impl PartialOrd for Waiter {
    fn partial_cmp(&self, other: &Waiter) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiter {
    fn eq(&self, other: &Waiter) -> bool {
        self.work == other.work
    }
}

impl Eq for Waiter {}

impl Default for WorkCount {
    fn default() -> WorkCount {
        WorkCount {
            finished: AtomicU32::new(0),
            waiting: Mutex::new(BinaryHeap::new()),
            nearest: AtomicU32::new(u32::MAX),
        }
    }
}

impl WorkCount {
    /// Returns the number of finished steps.
    pub fn finished(&self) -> u32 {
        self.finished.load(Ordering::SeqCst)
    }

    /// Adds a finished step, and wakes the threads that wait for it. Returns the new number.
    pub fn add(&self) -> u32 {
        let work = self.finished.fetch_add(1, Ordering::SeqCst) + 1;
        if work >= self.nearest.load(Ordering::SeqCst) {
            self.wake(work);
        }
        work
    }

    /// Waits until `work` steps have finished, or until `stop` is set; checks it every `longest`.
    pub fn wait(&self, work: u32, longest: Duration, stop: &AtomicBool) {
        let done = Arc::new(Event::default());
        self.waiting.lock().expect("lock is not poisoned").push(Waiter { work, done: Arc::clone(&done) });
        self.nearest.fetch_min(work, Ordering::SeqCst);
        let is_done = || self.finished() >= work;
        while !is_done() && !stop.load(Ordering::Relaxed) {
            done.wait(longest, is_done);
        }
    }

    /// Wakes the threads that wait for at most `work`.
    fn wake(&self, work: u32) {
        let mut waiting = self.waiting.lock().expect("lock is not poisoned");
        while waiting.peek().is_some_and(|waiter| waiter.work <= work) {
            if let Some(waiter) = waiting.pop() {
                waiter.done.notify();
            }
        }
        self.nearest.store(waiting.peek().map_or(u32::MAX, |waiter| waiter.work), Ordering::SeqCst);
    }
}
