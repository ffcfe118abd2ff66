//! A reader-writer lock with one shard per thread. Every request takes it for reading; a rollback takes it for writing.

use std::sync::PoisonError;

use crate::fs::FileSystem;
use crate::sync::{Arc, RwLock, RwLockReadGuard};

/// One thread's shard, on its own cache line: a read lock costs two atomic instructions on memory that no other thread
/// writes.
#[repr(align(128))]
struct Shard<T>(RwLock<Option<Arc<T>>>);

/// The file system behind a lock. Threads are numbered from 0.
pub(crate) struct ShardedLock<T = FileSystem> {
    shards: Vec<Shard<T>>,
}

/// A read lock on the file system, which is `None` if a change has lost it.
pub(crate) type Guard<'a, T = FileSystem> = RwLockReadGuard<'a, Option<Arc<T>>>;

impl<T> ShardedLock<T> {
    pub(crate) fn new(fs: T, threads: usize) -> ShardedLock<T> {
        let fs = Arc::new(fs);
        ShardedLock {
            shards: (0..threads.max(1)).map(|_| Shard(RwLock::new(Some(Arc::clone(&fs))))).collect(),
        }
    }

    /// Takes the thread's read lock. Blocks while the file system is being changed.
    pub(crate) fn read(&self, thread: usize) -> Guard<'_, T> {
        self.shards[thread].0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all readers, and blocks new ones while `change` replaces the file system. Returns `None` if an earlier
    /// change has lost the file system.
    pub(crate) fn change<R>(&self, change: impl FnOnce(T) -> (Option<T>, R)) -> Option<R> {
        // Concurrent changes lock the shards in the same order, which prevents a deadlock.
        let mut shards: Vec<_> =
            self.shards.iter().map(|shard| shard.0.write().unwrap_or_else(PoisonError::into_inner)).collect();
        let last = shards.iter_mut().filter_map(|shard| shard.take()).last()?;
        // This is the only reference left: a guard never gives away its `Arc`.
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

    /// While a third thread changes the file system, neither of two serving threads holds its lock.
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

    /// Two concurrent changes run one after the other, and no shard keeps the old tree.
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

    /// After a change has lost the tree, later readers and a second change find none.
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
