//! Snapshots. A mount has one open after a program has accessed it through `.zfs/snapshot`.

use std::collections::HashMap;

use poolwright_openzfs::{Dataset, DatasetStats};

use super::{Answer, LocalPool};
use crate::user::{Fault, name};

impl LocalPool {
    /// Takes a snapshot of each of these datasets, all in one transaction group, or none of them. Returns their names. The caller
    /// must hold the lock.
    pub(super) fn take_snapshots(&self, datasets: &[String], snapshot: &str) -> Answer<Vec<String>> {
        self.refuse_unwritable()?;
        let names = self.names()?;
        let wanted: Vec<String> = datasets.iter().map(|dataset| format!("{dataset}@{snapshot}")).collect();
        if let Some(taken) = wanted.iter().find(|name| names.contains(name)) {
            return Err(Fault::new(libc::EEXIST, format!("the snapshot {taken} exists already")));
        }
        let inside: Vec<&str> = datasets.iter().map(|dataset| name::inside(dataset)).collect();
        self.pool.snapshot_all(&inside, snapshot)?;
        Ok(wanted)
    }

    /// The space statistics of a snapshot, through the mount's handle if its dataset is mounted.
    pub(super) fn snapshot_stats(&self, dataset: &str, snapshot: &str) -> Answer<DatasetStats> {
        let mut seen = None;
        let mut look = |open: &Dataset| seen = Some(open.stats());
        match self.mounts.with_snapshot(dataset, snapshot, &mut look) {
            Some(looked) => looked?,
            None => look(&self.pool.open_snapshot(name::inside(dataset), snapshot)?),
        }
        let gone = || Fault::new(libc::EIO, format!("cannot open {dataset}@{snapshot}"));
        Ok(seen.ok_or_else(gone)??)
    }

    /// Destroys a dataset or a snapshot by its full name. If only the kernel's cache keeps a snapshot in use, first makes the
    /// kernel forget it.
    pub(super) fn destroy_one(&self, full: &str) -> Answer<()> {
        let mut destroy = || self.pool.destroy(name::inside(full)).map_err(Fault::from);
        let mounted = match full.split_once('@') {
            Some((dataset, snapshot)) => self.mounts.without_snapshot(dataset, snapshot, &mut destroy),
            None => None,
        };
        mounted.unwrap_or_else(destroy)
    }

    /// Snapshots of a dataset that were taken after `snapshot`, the latest first.
    pub(super) fn later_snapshots(&self, dataset: &str, snapshot: &str) -> Answer<Vec<String>> {
        let inside = name::inside(dataset);
        let mut later: Vec<String> = Vec::new();
        let mut at = inside.to_owned();
        while let Some(before) = self.pool.latest_snapshot(&at)?.filter(|before| before != snapshot) {
            at = format!("{inside}@{before}");
            later.push(before);
        }
        Ok(later)
    }

    /// Puts the snapshots of each dataset, which are sorted by name, in the order in which they were taken.
    pub(super) fn in_order_of_creation(&self, mut names: Vec<String>) -> Answer<Vec<String>> {
        let dataset_of = |name: &String| name.split_once('@').map(|(dataset, _)| dataset.to_owned());
        for of_dataset in names.chunk_by_mut(|a, b| dataset_of(a) == dataset_of(b)) {
            let Some(dataset) = of_dataset.first().and_then(dataset_of).filter(|_| of_dataset.len() > 1)
            else {
                continue;
            };
            // No snapshot has an empty name, so these are all of them.
            let newest_first = self.later_snapshots(&dataset, "")?;
            let full = newest_first.iter().rev().map(|short| format!("{dataset}@{short}"));
            let place: HashMap<String, usize> = full.zip(0..).collect();
            of_dataset.sort_by_key(|name| place.get(name).copied());
        }
        Ok(names)
    }

    /// Destroys all of these snapshots, or none if a program uses one of them.
    pub(super) fn destroy_snapshots(&self, dataset: &str, snapshots: &[String]) -> Answer<()> {
        for snapshot in snapshots {
            self.mounts.without_snapshot(dataset, snapshot, &mut || Ok(())).unwrap_or(Ok(()))?;
        }
        snapshots.iter().try_for_each(|snapshot| self.destroy_one(&format!("{dataset}@{snapshot}")))
    }
}
