//! Where every request passes, so that all can be stopped for a moment.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::fs::FileSystem;

/// One thread's way to the file system, on a cache line of its own: passing costs two atomic instructions on memory that
/// no other thread writes.
#[repr(align(128))]
struct Lane(RwLock<Option<Arc<FileSystem>>>);

/// The file system, for threads that are counted from 0.
pub(crate) struct Gate {
    lanes: Vec<Lane>,
}

/// The file system, which nobody changes meanwhile; `None` if a change has lost it.
pub(crate) type Pass<'a> = RwLockReadGuard<'a, Option<Arc<FileSystem>>>;

impl Gate {
    pub(crate) fn new(fs: FileSystem, threads: usize) -> Gate {
        let fs = Arc::new(fs);
        Gate { lanes: (0..threads.max(1)).map(|_| Lane(RwLock::new(Some(Arc::clone(&fs))))).collect() }
    }

    /// Lets a thread through; waits while the file system is being changed.
    pub(crate) fn pass(&self, thread: usize) -> Pass<'_> {
        self.lanes[thread].0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody is in, and keeps all out while `change` makes another file system of this one. `None`: there
    /// is none any more.
    pub(crate) fn change<T>(&self, change: impl FnOnce(FileSystem) -> (Option<FileSystem>, T)) -> Option<T> {
        // Always in this order, so that two changes wait for each other.
        let mut lanes: Vec<_> =
            self.lanes.iter().map(|lane| lane.0.write().unwrap_or_else(PoisonError::into_inner)).collect();
        let last = lanes.iter_mut().filter_map(|lane| lane.take()).last()?;
        // No copy of it leaves a lane.
        let (next, result) = change(Arc::into_inner(last)?);
        let next = next.map(Arc::new);
        lanes.iter_mut().for_each(|lane| **lane = next.clone());
        Some(result)
    }
}
