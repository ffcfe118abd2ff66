//! Lookup counts: how often each node was reported to the kernel, minus how often the kernel has forgotten it.
//!
//! While the kernel knows an object, the object's number must not be reused. The number of an object with a name is not
//! reused. For an object that has lost its last name, the table holds a [`Node`] until the kernel forgets it. Most entries
//! are therefore only a count.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use poolwright_openzfs::Node;

use crate::sync::{Mutex, MutexGuard};

const SHARDS: usize = 64;

struct One<N> {
    count: u64,
    held: Option<N>,
    /// The generation that was reported to the kernel; it distinguishes objects that had the same number one after another.
    generation: u32,
    /// Until this time, in seconds since the start, the kernel has the attributes cached, so listings omit them.
    fresh_until: u32,
}

type Shard<N> = HashMap<u64, One<N>, BuildHasherDefault<Spread>>;

/// Lookup counts by node ID.
pub(crate) struct LookupCounts<N = Node> {
    shards: Vec<Mutex<Shard<N>>>,
    start: Instant,
}

impl<N: Clone> LookupCounts<N> {
    pub(crate) fn new() -> LookupCounts<N> {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        LookupCounts { shards, start: Instant::now() }
    }

    fn shard(&self, nodeid: u64) -> MutexGuard<'_, Shard<N>> {
        // Not by the low bits: objects of one directory are created and looked up together.
        let at = (nodeid.wrapping_mul(SPREAD) >> 58) as usize;
        self.shards[at].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a lookup: the node is reported to the kernel with this generation, and its attributes may be cached for `trust`.
    /// Returns true if the kernel did not know the node.
    pub(crate) fn add(&self, nodeid: u64, generation: u32, trust: Duration) -> bool {
        // Half the time: attributes that are about to expire do not count as cached.
        let fresh_until =
            self.seconds().saturating_add(u32::try_from(trust.as_secs() / 2).unwrap_or(u32::MAX));
        match self.shard(nodeid).entry(nodeid) {
            Entry::Occupied(mut one) => {
                one.get_mut().count += 1;
                one.get_mut().generation = generation;
                one.get_mut().fresh_until = fresh_until;
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(One { count: 1, held: None, generation, fresh_until });
                true
            }
        }
    }

    /// Whether the kernel should still have the node's attributes cached. If it has evicted them, it requests them again.
    pub(crate) fn is_fresh(&self, nodeid: u64) -> bool {
        let now = self.seconds();
        self.shard(nodeid).get(&nodeid).is_some_and(|one| now < one.fresh_until)
    }

    fn seconds(&self) -> u32 {
        u32::try_from(self.start.elapsed().as_secs()).unwrap_or(u32::MAX)
    }

    /// Subtracts `times` from a node's count. Returns true if the kernel no longer knows the node.
    pub(crate) fn forget(&self, nodeid: u64, times: u64) -> bool {
        let gone = {
            let mut shard = self.shard(nodeid);
            let Entry::Occupied(mut one) = shard.entry(nodeid) else { return false };
            one.get_mut().count = one.get().count.saturating_sub(times);
            if one.get().count > 0 {
                return false;
            }
            one.remove()
        };
        drop(gone); // may free an object, so the shard must be unlocked
        true
    }

    /// Holds a node without a name for as long as the kernel knows it.
    pub(crate) fn hold(&self, nodeid: u64, node: N) {
        let before = match self.shard(nodeid).get_mut(&nodeid) {
            Some(one) => one.held.replace(node),
            None => Some(node),
        };
        drop(before);
    }

    /// Stops holding a node, because it has a name again.
    pub(crate) fn release(&self, nodeid: u64) {
        let before = self.shard(nodeid).get_mut(&nodeid).and_then(|one| one.held.take());
        drop(before);
    }

    /// The generation reported to the kernel, and the node if it is held.
    pub(crate) fn get(&self, nodeid: u64) -> Option<(u32, Option<N>)> {
        let shard = self.shard(nodeid);
        let one = shard.get(&nodeid)?;
        Some((one.generation, one.held.clone()))
    }

    /// Whether the kernel knows the node.
    pub(crate) fn contains(&self, nodeid: u64) -> bool {
        self.shard(nodeid).contains_key(&nodeid)
    }

    /// All IDs for which `which` is true.
    pub(crate) fn ids(&self, which: impl Fn(u64) -> bool) -> Vec<u64> {
        let shards = self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner));
        shards.flat_map(|shard| shard.keys().copied().filter(|id| which(*id)).collect::<Vec<_>>()).collect()
    }

    /// Stops holding the nodes for which `which` is true, and treats their attributes as not cached.
    pub(crate) fn let_go(&self, which: impl Fn(u64) -> bool) {
        for shard in &self.shards {
            let mut gone = Vec::new();
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (_, one) in shard.iter_mut().filter(|(id, _)| which(**id)) {
                one.fresh_until = 0;
                gone.extend(one.held.take());
            }
            drop(shard);
            drop(gone); // may free objects, so the shard must be unlocked
        }
    }

    /// Removes all nodes, after the mount is gone.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let all = std::mem::take(&mut *shard.lock().unwrap_or_else(PoisonError::into_inner));
            drop(all);
        }
    }
}

/// 2^64 divided by the golden ratio (Fibonacci hashing): spreads adjacent numbers.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a number with one multiplication. The kernel chooses the numbers, so no adversary can force collisions.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n).wrapping_mul(SPREAD).rotate_left(32);
    }
}

#[cfg(all(test, poolwright_loom))]
mod loom_tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc, Weak};

    use loom::thread;

    use super::*;

    /// A stand-in for a node. Dropping it uses the table, which deadlocks if the shard is locked. Freeing a real object
    /// similarly takes locks of the engine, whose threads use the table.
    #[derive(Clone)]
    struct Held(#[allow(dead_code)] Arc<Inner>); // for its drop

    struct Inner {
        counts: Weak<LookupCounts<Held>>,
        freed: Arc<AtomicUsize>,
    }

    impl Drop for Inner {
        fn drop(&mut self) {
            self.freed.fetch_add(1, SeqCst);
            if let Some(counts) = self.counts.upgrade() {
                counts.contains(7);
            }
        }
    }

    const TRUST: Duration = Duration::from_secs(60);

    struct Table {
        counts: Arc<LookupCounts<Held>>,
        freed: Arc<AtomicUsize>,
    }

    impl Table {
        fn new() -> Table {
            Table { counts: Arc::new(LookupCounts::new()), freed: Arc::default() }
        }

        fn node(&self) -> Held {
            Held(Arc::new(Inner { counts: Arc::downgrade(&self.counts), freed: Arc::clone(&self.freed) }))
        }

        fn spawn<T: 'static>(
            &self,
            act: impl FnOnce(&LookupCounts<Held>) -> T + 'static,
        ) -> thread::JoinHandle<T> {
            let counts = Arc::clone(&self.counts);
            thread::spawn(move || act(&counts))
        }
    }

    /// An unlink holds a node that the kernel forgets at the same time: the node is freed exactly once.
    #[test]
    fn loom_what_is_held_is_freed_once() {
        loom::model(|| {
            let table = Table::new();
            table.counts.add(7, 1, TRUST);
            let node = table.node();
            let unlink = table.spawn(move |counts| counts.hold(7, node));
            let forget = table.spawn(|counts| counts.forget(7, 1));
            unlink.join().unwrap();
            assert!(forget.join().unwrap(), "it was known once");
            assert_eq!(table.freed.load(SeqCst), 1);
            assert!(!table.counts.contains(7));
        });
    }

    /// A lookup reports a node that the kernel forgets at the same time: a count of one remains, and the node is reported
    /// as new exactly if it was forgotten before.
    #[test]
    fn loom_counts_survive_each_other() {
        loom::model(|| {
            let table = Table::new();
            assert!(table.counts.add(7, 1, TRUST));
            let lookup = table.spawn(|counts| counts.add(7, 1, TRUST));
            let forget = table.spawn(|counts| counts.forget(7, 1));
            let (fresh, gone) = (lookup.join().unwrap(), forget.join().unwrap());
            assert_eq!(fresh, gone, "it is new to the kernel only after it was forgotten");
            assert!(table.counts.contains(7));
            assert!(table.counts.forget(7, 1) && !table.counts.contains(7));
        });
    }

    /// A rollback releases all nodes while one gets a name again and is read.
    #[test]
    fn loom_letting_go_of_all() {
        loom::model(|| {
            let table = Table::new();
            table.counts.add(7, 1, TRUST);
            table.counts.hold(7, table.node());
            let link = table.spawn(|counts| counts.release(7));
            let look = table.spawn(|counts| counts.get(7).map(|(generation, _)| generation));
            table.counts.let_go(|_| true);
            link.join().unwrap();
            assert_eq!(look.join().unwrap(), Some(1));
            assert_eq!(table.freed.load(SeqCst), 1);
            table.counts.clear();
            assert!(table.counts.ids(|_| true).is_empty());
        });
    }
}

#[cfg(all(test, not(poolwright_loom)))]
mod tests {
    use super::*;

    #[test]
    fn counts_per_node() {
        let counts: LookupCounts = LookupCounts::new();
        let long = Duration::from_secs(60);
        assert!(counts.add(7, 1, long));
        assert!(!counts.add(7, 1, long) && counts.add(8, 1, long));
        assert!(!counts.forget(7, 1));
        assert!(counts.forget(7, 1));
        assert!(!counts.forget(7, 1), "the kernel no longer knew it");
        assert!(counts.forget(8, 99), "more forgets than lookups must not underflow");
    }

    #[test]
    fn fresh_while_the_kernel_knows_and_trusts() {
        let counts: LookupCounts = LookupCounts::new();
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(1));
        assert!(!counts.is_fresh(7), "never reported");
        counts.add(7, 1, long);
        assert!(counts.is_fresh(7) && !counts.is_fresh(8));
        counts.add(7, 1, short);
        assert!(!counts.is_fresh(7), "reported again, with a short time to cache");
        counts.add(7, 1, long);
        counts.forget(7, 3);
        assert!(!counts.is_fresh(7), "forgotten");
    }
}
