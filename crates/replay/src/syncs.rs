//! Syncs in progress, for threads that wait for one of them (group commit).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use poolwright_openzfs::clock::Event;

/// The syncs of all files, by the file's index.
#[derive(Debug, Default)]
pub(crate) struct Syncs(Mutex<HashMap<u32, Arc<FileSyncs>>>);

/// The syncs of one file.
#[derive(Debug, Default)]
struct FileSyncs {
    begun: AtomicU32,
    ended: AtomicU32,
    waiting: Mutex<Vec<Arc<Event>>>,
}

/// A sync in progress; it ends when this is dropped.
pub(crate) struct UnderWay(Arc<FileSyncs>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        let waiting = std::mem::take(&mut *self.0.waiting.lock().expect("lock is not poisoned"));
        waiting.iter().for_each(|done| done.notify());
    }
}

impl Syncs {
    fn of(&self, file: u32) -> Arc<FileSyncs> {
        Arc::clone(self.0.lock().expect("lock is not poisoned").entry(file).or_default())
    }

    /// Records that a sync of a file begins.
    pub fn begin(&self, file: u32) -> UnderWay {
        let syncs = self.of(file);
        syncs.begun.fetch_add(1, Ordering::SeqCst);
        UnderWay(syncs)
    }

    /// Waits until as many syncs of the file have ended as have begun now, or until `stop` is set; checks it every `longest`.
    pub fn wait(&self, file: u32, longest: Duration, stop: &AtomicBool) {
        let syncs = self.of(file);
        let begun = syncs.begun.load(Ordering::SeqCst);
        let is_done = || syncs.ended.load(Ordering::SeqCst) >= begun;
        while !is_done() && !stop.load(Ordering::Relaxed) {
            let done = Arc::new(Event::default());
            syncs.waiting.lock().expect("lock is not poisoned").push(Arc::clone(&done));
            done.wait(longest, is_done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_syncs_that_are_under_way_are_waited_for() {
        let (syncs, stop, over) = (Syncs::default(), AtomicBool::new(false), AtomicBool::new(false));
        let longest = Duration::from_secs(60);
        syncs.wait(7, longest, &stop);
        let first = syncs.begin(7);
        syncs.wait(8, longest, &stop);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                syncs.wait(7, longest, &stop);
                assert!(over.load(Ordering::SeqCst), "the sync had not ended");
            });
            std::thread::sleep(Duration::from_millis(20));
            over.store(true, Ordering::SeqCst);
            drop(first);
        });
        let _next = syncs.begin(7);
        stop.store(true, Ordering::Relaxed);
        syncs.wait(7, longest, &stop);
    }
}
