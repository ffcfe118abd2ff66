//! Where every request passes, so that all can be stopped for a moment.

use std::sync::PoisonError;

use crate::fs::FileSystem;
use crate::sync::{Arc, RwLock, RwLockReadGuard};

/// One thread's way to the file system, on a cache line of its own: passing costs two atomic instructions on memory that
/// no other thread writes.
#[repr(align(128))]
struct Shard<T>(RwLock<Option<Arc<T>>>);

/// The file system, for threads that are counted from 0.
pub(crate) struct ShardedLock<T = FileSystem> {
    shards: Vec<Shard<T>>,
}

/// The file system, which nobody changes meanwhile; `None` if a change has lost it.
pub(crate) type Guard<'a, T = FileSystem> = RwLockReadGuard<'a, Option<Arc<T>>>;

impl<T> ShardedLock<T> {
    pub(crate) fn new(fs: T, threads: usize) -> ShardedLock<T> {
        let fs = Arc::new(fs);
        ShardedLock {
            shards: (0..threads.max(1)).map(|_| Shard(RwLock::new(Some(Arc::clone(&fs))))).collect(),
        }
    }

    /// Lets a thread through; waits while the file system is being changed.
    pub(crate) fn read(&self, thread: usize) -> Guard<'_, T> {
        self.shards[thread].0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody is in, and keeps all out while `change` makes another file system of this one. `None`: there
    /// is none any more.
    pub(crate) fn change<R>(&self, change: impl FnOnce(T) -> (Option<T>, R)) -> Option<R> {
        // Always in this order, so that two changes wait for each other.
        let mut shards: Vec<_> =
            self.shards.iter().map(|shard| shard.0.write().unwrap_or_else(PoisonError::into_inner)).collect();
        let last = shards.iter_mut().filter_map(|shard| shard.take()).last()?;
        // No copy of it leaves a shard.
        let (next, result) = change(Arc::try_unwrap(last).ok()?);
        let next = next.map(Arc::new);
        shards.iter_mut().for_each(|shard| **shard = next.clone());
        Some(result)
    }
}

#[cfg(all(test, poolwright_loom))]
mod tests {
    use loom::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use loom::thread;

    use super::*;

    /// Two serving threads and a third one that changes: while it does, neither is in.
    #[test]
    fn loom_no_thread_is_in_during_a_change() {
        loom::model(|| {
            let sharded_lock = Arc::new(ShardedLock::new(1, 2));
            let inside = Arc::new(AtomicUsize::new(0));
            let serve = |shard: usize| {
                let (sharded_lock, inside) = (Arc::clone(&sharded_lock), Arc::clone(&inside));
                thread::spawn(move || {
                    let pass = sharded_lock.read(shard);
                    inside.fetch_add(1, SeqCst);
                    let seen = **pass.as_ref().expect("nothing takes it away");
                    inside.fetch_sub(1, SeqCst);
                    drop(pass);
                    seen
                })
            };
            let served = [serve(0), serve(1)];
            let before = sharded_lock.change(|generation| {
                assert_eq!(inside.load(SeqCst), 0, "a thread is being served");
                (Some(generation + 1), generation)
            });
            assert_eq!(before, Some(1));
            let seen = served.map(|thread| thread.join().unwrap());
            assert!(seen.iter().all(|generation| [1, 2].contains(generation)));
            assert!((0..2).all(|shard| sharded_lock.read(shard).as_deref() == Some(&2)));
        });
    }

    /// Two changes at once happen one after the other, and no shard is left with the tree of before.
    #[test]
    fn loom_changes_wait_for_each_other() {
        loom::model(|| {
            let sharded_lock = Arc::new(ShardedLock::new(0, 2));
            let change = |add: u32| {
                let sharded_lock = Arc::clone(&sharded_lock);
                thread::spawn(move || sharded_lock.change(|sum| (Some(sum + add), ())))
            };
            let changes = [change(1), change(2)];
            assert!(changes.map(|thread| thread.join().unwrap()).iter().all(Option::is_some));
            assert!((0..2).all(|shard| sharded_lock.read(shard).as_deref() == Some(&3)));
        });
    }

    /// A change that loses the tree: who comes later finds none, and so does a second change.
    #[test]
    fn loom_a_lost_tree_is_lost_for_all() {
        loom::model(|| {
            let sharded_lock = Arc::new(ShardedLock::new(0, 2));
            let lose = || {
                let sharded_lock = Arc::clone(&sharded_lock);
                thread::spawn(move || sharded_lock.change(|_| (None, ())).is_some())
            };
            let lost = [lose(), lose()].map(|thread| thread.join().unwrap());
            assert_eq!(lost.iter().filter(|done| **done).count(), 1, "it can be lost once");
            assert!((0..2).all(|shard| sharded_lock.read(shard).is_none()));
        });
    }
}
